"""The quorum as its leader tells of it."""

import pytest

from stratalog.broker.quorum.status import status_of
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft.core import Identity
from stratalog.metadata.raft.events import Flushed, Received
from stratalog.metadata.raft.log_view import BEFORE_THE_LOG, LogView
from stratalog.metadata.raft.messages import FetchRequest
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.voter_set import ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import ErrorCode, KafkaError

ME, OTHER = ReplicaKey(1, b"a" * 16), ReplicaKey(9, b"z" * 16)


@pytest.fixture
def leader():
    """The only voter, which leads, at 100 ms."""
    view = LogView(voter_sets=((BEFORE_THE_LOG, VoterSet((Voter(ReplicaKey(1)),))),))
    raft = Raft(Identity(ME, cluster_id="c"), view, QuorumState())
    raft.start(now_ms=100, jitter=0.5)
    raft.step(Flushed(raft.log.end_offset, 0), now_ms=100, jitter=0.5)
    return raft


def test_the_leader_is_up_to_date_now_and_an_observer_was_when_it_fetched(leader):
    """Times of the machine become times of the wall."""
    fetch = FetchRequest(leader.leader[1], OTHER, leader.log.end_offset, leader.log.last_epoch, cluster_id="c")
    leader.step(Received("token", fetch), now_ms=140, jitter=0.5)
    status = status_of(leader, ME, wall_ms=10_000, now_ms=200)
    (voter,), (observer,) = status.voters, status.observers
    assert (status.leader.leader_id, status.high_watermark) == (1, leader.log.end_offset)
    assert (voter.key.id, voter.last_fetch_ms, voter.last_caught_up_ms) == (1, 10_000, 10_000)
    assert (observer.key, observer.last_fetch_ms, observer.log_end_offset) == (OTHER, 9_940, leader.log.end_offset)


def test_only_the_leader_can_tell():
    """Another node knows how far itself is."""
    view = LogView(voter_sets=((BEFORE_THE_LOG, VoterSet((Voter(ReplicaKey(1)), Voter(ReplicaKey(2))))),))
    raft = Raft(Identity(ME, cluster_id="c"), view, QuorumState())
    raft.start(now_ms=100, jitter=0.5)
    with pytest.raises(KafkaError) as refused:
        status_of(raft, ME, wall_ms=1, now_ms=100)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
