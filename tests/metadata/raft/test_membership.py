"""A follower tells the leader what it is, or asks to become a voter."""

import pytest
from msgspec.structs import replace

from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import Failed
from stratalog.metadata.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    FetchAnswer,
    FetchRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeAnswer,
)
from stratalog.metadata.raft.voter_set import Endpoint, VoterSet
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import ZERO_UUID

HEARD = VoterChangeAnswer(ErrorCode.NONE, epoch=1, leader_id=2)


def fetched(one):
    """Answer the fetch that is under way; the next poll may send something else."""
    request = one.raft._core.in_flight[2]
    assert isinstance(request, FetchRequest)
    return one.answer(2, request, FetchAnswer(ErrorCode.NONE, 1, 2, high_watermark=0))


def after(one, duration_ms):
    """The changes that the node asks for, by a fetch answer that comes so much later."""
    one.now_ms += duration_ms
    fetched(one)
    return one.sent(UpdateVoterRequest) | one.sent(AddVoterRequest) | one.sent(RemoveVoterRequest)


@pytest.fixture
def follower(quorum, node):
    """Starts a node that follows 2 in epoch 1, with an empty log."""

    def start(node_id=1, *, log_voters=None, level=1, **more):
        log = replace(quorum.log(voters=log_voters), kraft_versions=((-1, level),))
        one = node(node_id, log, **more)
        key = quorum.key(node_id, more.get("disk", 0))
        one.get(BeginQuorumEpochRequest(1, 2, key, quorum.endpoints(2), quorum.cluster_id))
        return one

    return start


@pytest.fixture
def moved(quorum, follower):
    """Voter 1, which listens elsewhere than the voters say."""
    other = replace(quorum.voter(1), endpoints=quorum.endpoints(9))
    voters = VoterSet((other, quorum.voter(2), quorum.voter(3)))
    return follower(log_voters=voters)


def test_a_voter_that_listens_elsewhere_tells_the_leader(moved, quorum):
    """Once a fetch time-out has passed, in place of a fetch."""
    assert after(moved, 1999) == {}
    assert after(moved, 1) == {2: UpdateVoterRequest(1, quorum.voter(1), quorum.cluster_id)}
    assert moved.sent(FetchRequest) == {}


def test_a_voter_that_can_run_other_versions_tells_the_leader(follower):
    """The range is part of the record."""
    one = follower(kraft_versions=(0, 2))
    assert after(one, 2000)[2].voter.kraft_versions == (0, 2)


def test_a_voter_that_the_record_describes_says_nothing(follower, quorum):
    """Also if the endpoints stand in another order."""
    two = (Endpoint("A", "a", 1), Endpoint("B", "b", 2))
    listed = replace(quorum.voter(1), endpoints=two[::-1])
    one = follower(log_voters=quorum.voters().updated(listed))
    one.raft._core.identity = replace(one.raft._core.identity, endpoints=two)
    assert after(one, 2000) == {}
    assert after(one, 2000) == {}


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REQUEST])
def test_it_tells_again_until_the_log_says_so(moved, error):
    """After any answer: the record of a good one may be lost with its leader."""
    (request,) = after(moved, 2000).values()
    moved.answer(2, request, VoterChangeAnswer(error, epoch=1, leader_id=2))
    assert moved.sent(FetchRequest)
    assert after(moved, 1999) == {}
    assert after(moved, 1) == {2: request}


def test_an_answer_that_is_lost_is_asked_for_again(moved):
    """The request has failed; the node fetches, and tells later."""
    (request,) = after(moved, 2000).values()
    moved.fail(2, request)
    moved.wait(20)
    assert moved.sent(FetchRequest)
    assert after(moved, 1980) == {2: request}


def test_a_good_answer_is_a_sign_of_life_of_the_leader(moved):
    """It puts the end of the fetch time-out off; an error does not."""
    (request,) = after(moved, 2000).values()
    moved.now_ms += 500
    before = moved.raft.role.deadline_ms
    moved.answer(2, request, HEARD)
    assert moved.raft.role.deadline_ms == before + 500
    (request,) = after(moved, 1900).values()
    before = moved.raft.role.deadline_ms
    moved.now_ms += 500
    moved.answer(2, request, replace(HEARD, error=ErrorCode.REQUEST_TIMED_OUT))
    assert moved.raft.role.deadline_ms == before


def test_an_answer_of_a_newer_epoch_is_heeded(moved):
    """It names the leader to follow."""
    (request,) = after(moved, 2000).values()
    moved.answer(2, request, VoterChangeAnswer(ErrorCode.FENCED_LEADER_EPOCH, "", 2, 3))
    assert (moved.raft.role.epoch, moved.raft.role.leader_id) == (2, 3)


def test_a_static_voter_tells_each_leader_once(follower, quorum):
    """The leader keeps it in memory for an upgrade."""
    one = follower(level=0)
    (request,) = after(one, 2000).values()
    assert request == UpdateVoterRequest(1, quorum.voter(1), quorum.cluster_id)
    one.answer(2, request, HEARD)
    assert after(one, 2000) == {}
    assert after(one, 2000) == {}


def test_a_static_voter_tells_a_leader_that_cannot_hear_it_once(follower):
    """A leader without UpdateRaftVoter is no leader that upgrades."""
    one = follower(level=0)
    (request,) = after(one, 2000).values()
    one.step(Failed(2, request, ErrorCode.UNSUPPORTED_VERSION))
    one.wait(20)
    assert after(one, 2000) == {}


@pytest.mark.parametrize("how", [{"endpoints": ()}, {"key": ZERO_UUID}])
def test_a_node_that_has_nothing_to_say_says_nothing(follower, quorum, how):
    """Without a directory id or a listener the leader could only refuse."""
    one = follower(level=0)
    identity = one.raft._core.identity
    key = identity.key._replace(directory_id=how.get("key", identity.key.directory_id))
    one.raft._core.identity = replace(identity, key=key, endpoints=how.get("endpoints", identity.endpoints))
    assert after(one, 2000) == {}


def test_a_controller_joins_by_itself(follower, quorum):
    """It is answered at the append: to commit it the leader may need its fetches."""
    one = follower(4, auto_join=True)
    (request,) = after(one, 2000).values()
    assert request == AddVoterRequest(quorum.voter(4), ack_when_committed=False, cluster_id=quorum.cluster_id)
    one.answer(2, request, VoterChangeAnswer(ErrorCode.REQUEST_TIMED_OUT))
    assert one.sent(FetchRequest)
    assert after(one, 2000) == {2: request}


def test_a_controller_with_a_new_disk_has_its_old_one_removed_first(follower, quorum):
    """A set has an id once."""
    one = follower(3, disk=1, auto_join=True)
    assert after(one, 2000) == {2: RemoveVoterRequest(quorum.key(3), quorum.cluster_id)}


@pytest.mark.parametrize("how", [{}, {"auto_join": True, "can_become_voter": False}, {"auto_join": True, "level": 0}])
def test_no_other_observer_joins(follower, how):
    """A broker, a controller without the setting, and anyone while voters are static."""
    one = follower(4, **how)
    assert after(one, 2000) == {}


def test_a_voter_does_not_join(follower):
    """It is there already."""
    one = follower(1, auto_join=True)
    assert after(one, 2000) == {}
    assert one.all(act.Send)
