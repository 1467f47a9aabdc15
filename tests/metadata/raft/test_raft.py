"""The machine as a whole: starts, deadlines, and the table of its events."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft import raft
from stratalog.metadata.raft.core import Identity
from stratalog.metadata.raft.events import Answered, CleanLog, Event, Failed, SnapshotDue, SnapshotWritten, Tick
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.messages import (
    EndQuorumEpochRequest,
    EpochAnswer,
    FetchAnswer,
    FetchRequest,
    OffsetAndEpoch,
    VoteRequest,
)
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.states import Follower, Leader, Resigned, Role, Unattached
from stratalog.wire.errors import Corrupt, ErrorCode, Invalid


def test_every_event_has_a_handler_and_every_role_a_poll():
    """No event falls through."""
    assert set(raft._HANDLERS) == set(get_args(Event))
    assert set(raft._POLLS) == set(get_args(Role))


def test_a_leader_that_restarts_has_resigned(node, quorum):
    """It may have lost unsynced records of its epoch, and would write others under it."""
    one = node(log=quorum.log(1, 2), stored=QuorumState(2, 1, data_version=1))
    assert isinstance(one.raft.role, Resigned)
    assert set(one.sent(EndQuorumEpochRequest)) == {2, 3}


def test_a_candidate_that_restarts_waits_for_the_next_epoch_with_its_vote(node, quorum):
    """It may have promised unsynced records to its voters; Kafka lets it stand in the same epoch again."""
    one = node(log=quorum.log(1), stored=QuorumState(3, -1, 1, quorum.key(1).directory_id, data_version=1))
    assert isinstance(one.raft.role, Unattached)
    assert (one.raft.role.epoch, one.raft.role.voted) == (3, quorum.key(1))
    assert not one.reply(VoteRequest(3, quorum.key(2), quorum.key(1), 2, 9)).granted


def test_a_vote_outlives_a_restart(node, quorum):
    """For the same candidate it is repeated, for another it is not."""
    stored = QuorumState(3, -1, 2, quorum.key(2).directory_id, data_version=1)
    one = node(stored=stored)
    assert not one.reply(VoteRequest(3, quorum.key(3), quorum.key(1), 2, 9)).granted
    assert not one.reply(VoteRequest(3, quorum.key(2, 1), quorum.key(1), 2, 9)).granted
    assert one.reply(VoteRequest(3, quorum.key(2), quorum.key(1), 2, 9)).granted


def test_a_follower_that_restarts_follows(node):
    """The voters' record knows where the leader listens."""
    one = node(stored=QuorumState(3, 2, data_version=1))
    assert isinstance(one.raft.role, Follower)
    assert set(one.sent(FetchRequest)) == {2}


def test_a_leader_whose_address_is_not_known_is_asked_for(node):
    """Node 9 is in no voter set: a bootstrap server knows it."""
    one = node(stored=QuorumState(3, 9, data_version=1))
    assert isinstance(one.raft.role, Unattached)
    assert one.raft.role.leader_id == 9
    assert set(one.sent(FetchRequest)) == {act.BOOTSTRAP}


def test_a_log_ahead_of_its_quorum_state_is_believed(node, quorum):
    """The epoch is the log's, and the vote of the older one is void."""
    one = node(log=quorum.log(4), stored=QuorumState(3, -1, 2, quorum.key(2).directory_id, data_version=1))
    assert (one.raft.role.epoch, one.raft.role.voted) == (4, None)


def test_a_log_without_its_quorum_state_is_refused(quorum):
    """The vote is lost: the node must become another one."""
    with pytest.raises(Corrupt, match="vote twice"):
        Raft(Identity(quorum.key(1)), quorum.log(1), None)


def test_a_single_voter_leads_a_new_epoch_at_each_start(node, quorum):
    """Also when it led the last one, in which it never votes for another node, whenever the start is cut off."""
    log = quorum.log(1, voters=quorum.voters(1))
    one = node(log=log, stored=QuorumState(1, 1, data_version=1))
    assert (type(one.raft.role), one.raft.role.epoch) == (Leader, 2)
    states = [action.state for action in one.all(act.StoreQuorumState)]
    assert [(state.leader_epoch, state.leader_id, state.voted_id) for state in states] == [
        (1, -1, 1),
        (2, -1, 1),
        (2, 1, -1),
    ]


def test_static_voters_are_known_by_their_ids(node, quorum):
    """A quorum-state of version 0 lists them and forgets the directory of a vote."""
    static = LogView(voter_sets=quorum.log().voter_sets)
    one = node(log=static, stored=QuorumState(3, -1, 2, voters=(1, 2, 3)))
    assert one.reply(VoteRequest(3, quorum.key(2), quorum.key(1), 2, 9)).granted
    one.get(VoteRequest(4, quorum.key(3), quorum.key(1), 2, 9))
    state = one.all(act.StoreQuorumState)[-1].state
    assert state == QuorumState(4, -1, 3, voters=(1, 2, 3))


def test_a_snapshot_is_written_up_to_the_committed_records_and_once(node, quorum):
    """Records of the image beyond them may be taken back."""
    one = node().lead()
    end = one.raft.high_watermark
    one.step(SnapshotDue(end + 5))
    snapshot = one.one(act.WriteSnapshot).snapshot
    assert snapshot == OffsetAndEpoch(end, 1)
    one.step(SnapshotWritten(snapshot))
    one.step(SnapshotDue(end))
    assert one.all(act.WriteSnapshot) == []


def test_a_log_is_not_cleaned_for_a_snapshot_before_the_word_that_it_is_whole(node):
    """Its file has its name before: a look at the directory may come between, and another one follows."""
    one = node().lead()
    snapshot = OffsetAndEpoch(one.raft.high_watermark, 1)
    assert one.step(CleanLog(snapshot)) == []
    one.step(SnapshotWritten(snapshot))
    one.step(CleanLog(snapshot))
    assert one.all(act.DeleteLogBefore)


def test_a_log_that_begins_later_already_is_not_cleaned_again(node):
    """Retention asked before a newer snapshot took the place of the log."""
    one = node().lead()
    older = OffsetAndEpoch(one.raft.high_watermark - 1, 1)
    newer = OffsetAndEpoch(one.raft.high_watermark, 1)
    for snapshot in (older, newer):
        one.step(SnapshotWritten(snapshot))
    one.step(CleanLog(newer))
    assert one.all(act.DeleteLogBefore)
    assert one.step(CleanLog(older)) == []
    assert one.raft.log.start_offset == newer.offset


def test_an_answer_of_another_kind_is_an_error(node):
    """The driver has mixed up its requests."""
    one = node()
    (request,) = one.sent(FetchRequest).values()
    with pytest.raises(Invalid, match="no answer"):
        one.answer(act.BOOTSTRAP, request, EpochAnswer(ErrorCode.NONE, 0))


def test_an_answer_that_no_request_waits_for_is_dropped(node):
    """A doubled answer changes nothing."""
    one = node()
    (request,) = one.sent(FetchRequest).values()
    answer = FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    one.answer(act.BOOTSTRAP, request, answer)
    role = one.raft.role
    assert one.step(Answered(act.BOOTSTRAP, request, answer)) == []
    assert one.raft.role == role


def test_a_deadline_never_lies_behind(node, quorum):
    """Else the driver would tick for ever."""
    for one in (node(), node(4), node().lead(), node(stored=QuorumState(3, 2, data_version=1))):
        for _ in range(50):
            if one.raft.deadline_ms is None:
                break
            one.wait()
            assert one.raft.deadline_ms is None or one.raft.deadline_ms > one.now_ms


@given(st.lists(st.tuples(st.integers(0, 3000), st.floats(0, 0.99), st.integers(1, 4), st.integers(0, 6)), max_size=25))
def test_epochs_never_go_back_and_no_vote_is_given_twice(asked):
    """Any candidates at any time: in each epoch at most one of them has the vote."""
    from stratalog.metadata.raft.log_view import BEFORE_THE_LOG
    from stratalog.metadata.raft.voter_set import ReplicaKey, Voter, VoterSet

    keys = [ReplicaKey(node, bytes([node]) * 16) for node in range(5)]
    log = LogView(
        voter_sets=((BEFORE_THE_LOG, VoterSet(tuple(Voter(key) for key in keys[1:4]))),),
        kraft_versions=((BEFORE_THE_LOG, 1),),
    )
    machine, now_ms, votes, epoch = Raft(Identity(keys[1]), log, None), 0, {}, 0
    machine.start(now_ms=0, jitter=0)
    for wait_ms, jitter, candidate, wanted in asked:
        now_ms += wait_ms
        machine.step(Tick(), now_ms=now_ms, jitter=jitter)
        request = VoteRequest(wanted, keys[candidate], keys[1], 0, 0)
        actions = machine.step(raft.Received("t", request), now_ms=now_ms, jitter=jitter)
        answer = next(action.answer for action in actions if isinstance(action, act.Reply))
        assert answer.epoch >= epoch
        epoch = answer.epoch
        if answer.granted:
            assert votes.setdefault(wanted, candidate) == candidate


def test_a_node_in_an_older_epoch_is_not_asked_again_at_once(node, quorum):
    """Its answer is void; without a pause it would be asked as often as it answers."""
    driven = node(log=quorum.log(5), stored=QuorumState(leader_epoch=5, data_version=1))
    request = driven.sent(FetchRequest)[act.BOOTSTRAP]
    driven.answer(act.BOOTSTRAP, request, FetchAnswer(ErrorCode.UNKNOWN_LEADER_EPOCH, 3))
    assert not driven.sent(FetchRequest)
    driven.wait(20)
    assert driven.sent(FetchRequest)


def test_a_majority_is_gone_when_most_hosts_refuse(node, quorum):
    """Until one of them is heard of again; silence says nothing."""
    one = node().lead()
    for refused in (False, True):
        for peer, request in one.raft._core.in_flight.copy().items():
            one.step(Failed(peer, request, refused=refused))
        assert one.raft.majority_is_gone is refused
        assert one.raft.can_hand_over is not refused
        one.wait(1000)
    one.fetch(quorum.key(3))
    assert not one.raft.majority_is_gone
    one.answer(2, one.raft._core.in_flight[2], EpochAnswer(ErrorCode.NONE, 1, 1))
    assert one.raft._core.refused_ms == {}


def test_a_refusal_of_long_ago_says_no_more(follower):
    """A follower hears nothing of a voter that came back: it talks to the leader only."""
    one = follower()
    fetch = one.raft._core.in_flight[2]
    for peer in (2, 3):
        one.step(Failed(peer, fetch, refused=True))
    assert one.raft.majority_is_gone
    one.now_ms += 4000
    one.step(Tick())
    assert not one.raft.majority_is_gone
