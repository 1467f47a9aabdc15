"""A leader's epoch, from its first record to its end."""

from msgspec.structs import replace

from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import Failed, HandOver, Proposed, Shutdown
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochAnswer,
    FetchAnswer,
    FetchRequest,
    KRaftVersion,
    LeaderChange,
    VoteRequest,
    Voters,
)
from stratalog.metadata.raft.states import Follower, Leader, Prospective, Resigned, Unattached
from stratalog.wire.errors import ErrorCode


def test_the_first_records_of_a_quorum_name_leader_version_and_voters(node, quorum):
    """The voters of the checkpoint that `format` writes are not replicated, so the first leader writes them down."""
    one = node().win()
    (batch,) = one.one(act.Append).batches
    assert [type(record) for record in batch.control] == [LeaderChange, KRaftVersion, Voters]
    assert (batch.base_offset, batch.end_offset, batch.epoch) == (0, 3, 1)
    assert batch.control[0].granting == (quorum.key(1), quorum.key(2))


def test_later_epochs_begin_with_the_leader_alone_unless_its_listener_has_moved(node, quorum):
    """The set in the log is kept."""
    log = replace(quorum.log(1, 1), voter_sets=((1, quorum.voters()),), kraft_versions=((0, 1),))
    (batch,) = node(log=log).win().one(act.Append).batches
    assert [type(record) for record in batch.control] == [LeaderChange]
    moved = quorum.voters().updated(replace(quorum.voter(1), endpoints=quorum.endpoints(9)))
    (batch,) = node(log=replace(log, voter_sets=((1, moved),))).win().one(act.Append).batches
    assert batch.control[2].voters == quorum.voters()


def test_a_leader_counts_its_own_records_only_once_they_are_synced(node, quorum):
    """Kafka counts what is written; a power cut at leader and one slow follower then takes acknowledged records back."""
    one = node().win()
    flush = one.one(act.Flush)
    one.fetch(quorum.key(2))
    assert one.all(act.Committed) == []
    one.step(_flushed(flush))
    assert one.one(act.Committed).high_watermark == 3


def _flushed(flush):
    from stratalog.metadata.raft.events import Flushed

    return Flushed(flush.end_offset, flush.truncations)


def test_no_older_record_is_committed_before_a_record_of_the_leaders_own_epoch(node, quorum):
    """A majority with an older record is not enough (Raft, figure 8)."""
    one = node(log=quorum.log(1, 1)).win()
    one.flush()
    one.fetch(quorum.key(2), offset=2, last_epoch=1)
    assert one.all(act.Committed) == []
    one.fetch(quorum.key(2))
    assert one.one(act.Committed).high_watermark == one.raft.log.end_offset
    assert one.one(act.BecameLeader).epoch == 2


def test_the_controller_is_active_once_its_epoch_has_a_committed_record(node, quorum):
    """Until then it cannot know all that was decided before; proposals are refused."""
    one = node().win()
    one.step(Proposed("early", 1, 1, "x"))
    assert one.one(act.Refused).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    one = node().lead()
    one.step(Proposed("now", 1, 2, "x"))
    assert one.one(act.Accepted) == act.Accepted("now", 3, 5)
    one.step(Proposed("of an older epoch", 0, 1, "x"))
    assert one.one(act.Refused).token == "of an older epoch"


def test_a_single_voter_leads_when_it_has_started_and_commits_what_it_has_synced(node, quorum):
    """No other voter is waited for, and check-quorum never ends its epoch."""
    one = node(log=quorum.log(voters=quorum.voters(1)))
    assert isinstance(one.raft.role, Leader)
    assert one.all(act.Committed) == []
    one.flush()
    assert one.one(act.Committed).high_watermark == 3
    for _ in range(20):
        one.wait()
    assert (type(one.raft.role), one.raft.role.epoch) == (Leader, 1)


def test_silent_voters_are_reminded_at_once_and_each_half_fetch_time_out(node, quorum):
    """A voter that fetches is left alone."""
    one = node().win()
    reminded = one.sent(BeginQuorumEpochRequest)
    assert set(reminded) == {2, 3}
    assert reminded[2].endpoints == quorum.endpoints(1)
    for peer, request in reminded.items():
        one.answer(peer, request, EpochAnswer(ErrorCode.NONE, 1, 1))
    one.now_ms = one.raft.role.begin_due_ms - 1
    one.fetch(quorum.key(2))
    one.wait(1)
    assert set(one.sent(BeginQuorumEpochRequest)) == {3}


def test_a_leader_without_a_majority_resigns_and_names_its_successors(node, quorum):
    """After one and a half fetch time-outs; the voter with most of the log comes first."""
    one = node().lead()
    one.fetch(quorum.key(3), offset=0, last_epoch=0)
    while isinstance(one.raft.role, Leader):
        one.wait()
    assert one.now_ms < 1000 + 2 * 3000 + 1
    assert isinstance(one.raft.role, Resigned)
    assert one.all(act.LostLeadership)
    ends = one.sent(EndQuorumEpochRequest)
    assert [key.id for key in next(iter(ends.values())).successors] == [2, 3]


def test_a_leader_that_a_majority_fetches_from_goes_on(node, quorum):
    """One other voter of three is enough."""
    one = node().lead()
    for _ in range(10):
        one.now_ms += 1000
        one.fetch(quorum.key(2))
    assert isinstance(one.raft.role, Leader)


def test_fetches_of_observers_keep_no_leader_alive(node, quorum):
    """Neither does a wiped disk of a voter: its id is known, its directory is not (KAFKA-16530)."""
    one = node().lead()
    for _ in range(10):
        one.now_ms += 1000
        one.fetch(quorum.key(4))
        one.fetch(quorum.key(2, 1))
    assert not isinstance(one.raft.role, Leader)


def test_a_resigned_leader_leaves_its_epoch_when_its_time_is_over(node):
    """It never leads the same epoch again."""
    one = node().lead()
    while isinstance(one.raft.role, Leader):
        one.wait()
    while isinstance(one.raft.role, Resigned):
        one.wait()
    assert (type(one.raft.role), one.raft.role.epoch) == (Unattached, 2)


def test_a_shutdown_of_a_leader_hands_over_first(node):
    """The process may end when all voters have heard, or the time is over."""
    one = node().lead()
    one.step(Shutdown(5000))
    ends = one.sent(EndQuorumEpochRequest)
    assert set(ends) >= {3}
    for peer in (2, 3):
        request = EndQuorumEpochRequest(1, 1, one.raft.role.successors, "cluster")
        one.answer(peer, request, EpochAnswer(ErrorCode.NONE, 1, 1))
        if peer == 2 and not one.all(act.ShutDown):
            one.wait(20)
    assert one.all(act.ShutDown) or one.wait(5000)
    assert one.one(act.ShutDown)
    assert one.wait(1) == []


def test_a_shutdown_of_a_follower_is_done_at_once(follower):
    """There is no epoch to hand over."""
    one = follower()
    one.step(Shutdown(5000))
    assert one.one(act.ShutDown)


def test_begin_quorum_epoch_makes_a_follower_and_a_second_leader_ends_the_process(follower, quorum):
    """Two leaders of one epoch are the end of all promises."""
    one = follower()
    assert isinstance(one.raft.role, Follower)
    one.get(BeginQuorumEpochRequest(1, 3, quorum.key(1), quorum.endpoints(3)))
    assert "two leaders" in one.one(act.Stop).reason
    assert one.wait(10_000) == []


def test_begin_quorum_epoch_brings_a_prospective_back_to_its_leader(follower, quorum):
    """The leader lives, and there is nothing to elect."""
    one = follower()
    one.wait(2000)
    assert isinstance(one.raft.role, Prospective)
    one.get(BeginQuorumEpochRequest(1, 2, quorum.key(1), quorum.endpoints(2)))
    assert isinstance(one.raft.role, Follower)


def test_begin_quorum_epoch_is_checked_in_kafkas_order(follower, quorum):
    """Cluster, fields, epoch, voter."""
    one = follower(epoch=2)
    begin = BeginQuorumEpochRequest(1, 2, quorum.key(1), (), "cluster")
    assert one.reply(replace(begin, cluster_id="other")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert one.reply(replace(begin, leader_id=-1)).error is ErrorCode.INVALID_REQUEST
    assert one.reply(begin).error is ErrorCode.FENCED_LEADER_EPOCH
    assert one.reply(replace(begin, epoch=2, voter=quorum.key(1, 1))).error is ErrorCode.INVALID_VOTER_KEY


def test_the_first_successor_stands_at_once_and_the_others_later(follower, quorum):
    """So that they do not split the votes."""
    for rank, successors in enumerate([(1, 3), (3, 1), (3,)]):
        one = follower()
        one.get(EndQuorumEpochRequest(1, 2, tuple(quorum.key(each) for each in successors), "cluster"))
        assert one.one(act.Reply).answer.error is ErrorCode.NONE
        assert bool(one.sent(VoteRequest)) is (rank == 0)
        if rank:
            assert one.raft.role.deadline_ms == (500 if rank == 1 else 1000)


def test_followers_of_a_leader_that_gives_up_grant_a_pre_vote_at_once(follower, quorum):
    """Else the first successor would wait for their time-outs: the old leader may have stopped, and does not vote."""
    one = follower()
    fetch = one.sent(FetchRequest)[2]
    one.answer(2, fetch, FetchAnswer(ErrorCode.NONE, 1, 2, high_watermark=0))
    fetch = one.sent(FetchRequest)[2]
    ask = VoteRequest(1, quorum.key(3), quorum.key(1), 0, 0, pre_vote=True)
    assert not one.reply(ask).granted
    one.get(EndQuorumEpochRequest(1, 2, (quorum.key(3), quorum.key(1)), "cluster"))
    assert one.reply(ask).granted
    one.answer(2, fetch, FetchAnswer(ErrorCode.NONE, 1, 2, high_watermark=0))  # sent before, come after
    assert one.reply(ask).granted
    assert one.raft.role.deadline_ms == 500


def test_a_leader_hands_over_votes_for_the_next_and_follows_it(node, quorum):
    """It goes on as a follower: its process stops later."""
    one = node().lead()
    one.step(HandOver())
    assert [type(each) for each in one.actions if isinstance(each, act.LostLeadership)]
    assert set(one.sent(EndQuorumEpochRequest)) == {2, 3}
    assert one.reply(VoteRequest(1, quorum.key(2), quorum.key(1), 1, 9, pre_vote=True)).granted
    assert one.reply(VoteRequest(2, quorum.key(2), quorum.key(1), 1, 9)).granted
    one.get(BeginQuorumEpochRequest(2, 2, quorum.key(1), quorum.endpoints(2)))
    assert isinstance(one.raft.role, Follower)
    assert one.raft.follows
    before = one.raft.role
    one.step(HandOver())
    assert one.raft.role == before


def test_a_stop_does_not_wait_for_voters_whose_processes_are_gone(node):
    """No other could lead; silent ones are waited for."""
    one = node().lead()
    one.step(Shutdown(5000))
    requests = one.sent(EndQuorumEpochRequest)
    one.step(Failed(2, requests[2]))
    assert not one.all(act.ShutDown)
    for peer in (3, 2):
        one.wait(20)
        one.step(Failed(peer, one.raft._core.in_flight[peer], refused=True))
    assert one.all(act.ShutDown)


def test_an_only_voter_goes_on_leading(node, quorum):
    """It stops leading when it stops."""
    one = node(log=quorum.log(voters=quorum.voters(1)))
    assert not one.raft.can_hand_over
    one.step(HandOver())
    assert isinstance(one.raft.role, Leader)


def test_end_quorum_epoch_is_checked(follower):
    """An older epoch has ended long ago."""
    one = follower(epoch=2)
    end = EndQuorumEpochRequest(1, 2, (), "cluster")
    assert one.reply(replace(end, cluster_id="other")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert one.reply(replace(end, epoch=-1)).error is ErrorCode.INVALID_REQUEST
    assert one.reply(end).error is ErrorCode.FENCED_LEADER_EPOCH


def test_a_log_of_static_voters_begins_epochs_with_the_leader_alone(node, quorum):
    """Version 0 of the quorum has no records about itself."""
    log = replace(quorum.log(), kraft_versions=())
    assert isinstance(log, LogView)
    one = node(log=log).win()
    assert [type(record) for record in one.one(act.Append).batches[0].control] == [LeaderChange]
    assert one.one(act.StoreQuorumState).state.voters == (1, 2, 3)
