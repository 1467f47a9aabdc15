"""A follower's way to the leader's log."""

import pytest

from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import Failed, Flushed, SnapshotLoaded
from stratalog.metadata.raft.messages import (
    Batch,
    FetchAnswer,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    OffsetAndEpoch,
    VoteAnswer,
    VoteRequest,
    Voters,
)
from stratalog.metadata.raft.states import Follower, Prospective, Unattached
from stratalog.wire.errors import ErrorCode, Invalid

GOOD = ErrorCode.NONE


def fetched(one, answer):
    """Answer the fetch that is under way."""
    peer, request = one.raft._core.in_flight.copy().popitem()
    return one.answer(peer, request, answer)


def batch(base, end, epoch=1, **more):
    return Batch(base, end, epoch, **more)


def test_a_follower_fetches_from_its_log_end(follower, quorum):
    """The request says what it has, and the last epoch of that."""
    one = follower(1, 1, epoch=3)
    (request,) = one.sent(FetchRequest).values()
    assert (request.epoch, request.offset, request.last_epoch) == (3, 2, 1)
    assert request.replica == quorum.key(1)


def test_a_voter_fetches_again_only_when_it_has_synced(follower):
    """The leader counts the next offset as synced."""
    one = follower()
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=0, batches=(batch(0, 3),)))
    assert one.one(act.Append).batches == (batch(0, 3),)
    assert one.sent(FetchRequest) == {}
    one.flush()
    assert one.sent(FetchRequest)[2].offset == 3


def test_a_controller_that_is_no_voter_yet_syncs_and_a_broker_does_not(node, quorum):
    """Fetches from before an addition count after it."""
    for can_become_voter in (True, False):
        four = node(4, can_become_voter=can_become_voter)
        (request,) = four.sent(FetchRequest).values()
        four.answer(act.BOOTSTRAP, request, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 1, 2, quorum.endpoints(2)))
        fetched(four, FetchAnswer(GOOD, 1, 2, high_watermark=0, batches=(batch(0, 1),)))
        assert bool(four.all(act.Flush)) is can_become_voter
        assert bool(four.sent(FetchRequest)) is not can_become_voter


def test_a_controller_asks_any_server_only_when_it_has_synced(node, quorum):
    """The server may be the leader, which counts the fetch once the controller is a voter."""
    four = node(4)
    fetched(four, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 1, 2, quorum.endpoints(2)))
    fetched(four, FetchAnswer(GOOD, 1, 2, high_watermark=0, batches=(batch(0, 1),)))
    sync = four.one(act.Flush)
    four.wait(2000)
    assert four.sent(FetchRequest) == {}
    four.step(Flushed(sync.end_offset, sync.truncations))
    assert {peer: each.offset for peer, each in four.sent(FetchRequest).items()} == {act.BOOTSTRAP: 1}


def test_a_voter_without_a_leader_asks_any_server_only_when_it_has_synced(follower, quorum):
    """The server may lead the epoch that the voter is in."""
    one = follower()
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=0, batches=(batch(0, 1),)))
    sync = one.one(act.Flush)
    one.get(VoteRequest(2, quorum.key(3), quorum.key(1), 0, 0))
    assert isinstance(one.raft.role, Unattached)
    assert one.sent(FetchRequest) == {}
    one.step(Flushed(sync.end_offset, sync.truncations))
    assert {peer: each.offset for peer, each in one.sent(FetchRequest).items()} == {act.BOOTSTRAP: 1}


def test_records_are_acted_on_up_to_the_leaders_high_watermark_and_the_own_end(follower):
    """A follower may lack records that the leader has committed: it goes to its own end."""
    one = follower()
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=9, batches=(batch(0, 3),)))
    assert one.one(act.Committed).high_watermark == 3
    one.flush()
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=1, batches=(batch(3, 4),)))
    assert one.all(act.Committed) == []
    assert one.raft.high_watermark == 3


def test_a_diverging_log_is_cut_where_both_agree(follower):
    """At the leader's end of the epoch, or at the own end of the largest one below."""
    one = follower(1, 1, 2, 2, epoch=3)
    fetched(one, FetchAnswer(GOOD, 3, 2, diverging=OffsetAndEpoch(3, 2)))
    assert one.one(act.Truncate).offset == 3
    assert one.sent(FetchRequest)[2].offset == 3
    one = follower(1, 2, 2, 4, epoch=5)
    fetched(one, FetchAnswer(GOOD, 5, 2, diverging=OffsetAndEpoch(9, 3)))
    assert one.one(act.Truncate).offset == 3


def test_committed_records_are_never_cut(follower):
    """The process ends instead: somewhere a promise was broken."""
    one = follower(1, 1)
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=2))
    fetched(one, FetchAnswer(GOOD, 1, 2, diverging=OffsetAndEpoch(1, 1)))
    assert "committed" in one.one(act.Stop).reason
    assert one.all(act.Truncate) == []


def test_a_sync_from_before_a_truncation_says_nothing_of_what_came_after(follower):
    """The offsets are the same, the bytes are others."""
    one = follower()
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=0, batches=(batch(0, 3),)))
    old = one.one(act.Flush)
    one.flush()
    fetched(one, FetchAnswer(GOOD, 1, 2, diverging=OffsetAndEpoch(1, 1)))
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=0, batches=(batch(1, 3),)))
    one.step(Flushed(old.end_offset, old.truncations))
    assert one.raft.log.flushed_offset == 1


def test_batches_of_a_later_epoch_than_the_leaders_are_not_appended(follower):
    """They cannot come from it."""
    one = follower()
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=0, batches=(batch(0, 1), batch(1, 2, 2))))
    assert one.one(act.Append).batches == (batch(0, 1),)


def test_a_batch_with_a_gap_is_an_error(follower):
    """The driver has decoded something else than the leader's log."""
    with pytest.raises(Invalid, match="does not follow"):
        fetched(follower(), FetchAnswer(GOOD, 1, 2, batches=(batch(1, 2),)))


def test_voters_count_from_their_append_on(follower, quorum):
    """Committed or not; a truncation takes them back."""
    one = follower()
    fetched(one, FetchAnswer(GOOD, 1, 2, batches=(batch(0, 1, control=(Voters(quorum.voters(2, 3)),)),)))
    assert not one.raft.is_voter
    one.flush()
    fetched(one, FetchAnswer(GOOD, 1, 2, diverging=OffsetAndEpoch(0, 0)))
    assert one.raft.is_voter


def test_a_follower_without_answers_stands_after_the_fetch_time_out(follower):
    """A good answer begins it anew."""
    one = follower()
    one.now_ms = 1500
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=0))
    one.wait(1999)
    assert isinstance(one.raft.role, Follower)
    one.wait(1)
    assert isinstance(one.raft.role, Prospective)
    assert one.sent(VoteRequest)


def test_an_observer_that_has_lost_the_leader_asks_the_bootstrap_servers(node, quorum):
    """And goes on with the leader that they name."""
    four = node(4)
    (request,) = four.sent(FetchRequest).values()
    assert set(four.sent(FetchRequest)) == {act.BOOTSTRAP}
    four.answer(act.BOOTSTRAP, request, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 1, 2, quorum.endpoints(2)))
    four.fail(2, four.sent(FetchRequest)[2])
    (request,) = four.sent(FetchRequest).values()
    four.answer(act.BOOTSTRAP, request, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 2, 3, quorum.endpoints(3)))
    assert set(four.sent(FetchRequest)) == {3}
    four.wait(2000)
    assert isinstance(four.raft.role, Follower)
    assert act.BOOTSTRAP in four.sent(FetchRequest)


def test_an_observer_asks_on_while_servers_name_the_leader_that_is_silent(node, quorum):
    """They have elected no other one yet; it waits no whole time-out of the silent one before it asks them again."""
    four = node(4)
    (request,) = four.sent(FetchRequest).values()
    four.answer(act.BOOTSTRAP, request, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 1, 2, quorum.endpoints(2)))
    assert set(four.sent(FetchRequest)) == {2}
    four.wait(2000)
    for _ in range(3):
        (request,) = four.sent(FetchRequest).values()
        four.answer(act.BOOTSTRAP, request, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, 2, quorum.endpoints(2)))
        assert four.sent(FetchRequest) == {}
        four.wait(249)
        assert four.sent(FetchRequest) == {}
        four.wait(1)
        assert set(four.sent(FetchRequest)) == {act.BOOTSTRAP}


def test_answers_of_an_earlier_role_are_dropped(follower, quorum):
    """A follower of another leader has asked, and this node is none any more."""
    one = follower()
    (request,) = one.sent(FetchRequest).values()
    one.get(VoteRequest(5, quorum.key(3), quorum.key(1), 4, 9))
    assert isinstance(one.raft.role, Unattached)
    one.answer(2, request, FetchAnswer(GOOD, 1, 2, batches=(batch(0, 1),)))
    assert one.all(act.Append) == []


def test_a_snapshot_is_fetched_in_parts_and_takes_the_place_of_the_log(follower, quorum):
    """The log begins anew behind it; until it is loaded the node neither fetches nor stands."""
    one, snapshot = follower(1), OffsetAndEpoch(7, 1)
    fetched(one, FetchAnswer(GOOD, 1, 2, snapshot=snapshot))
    assert one.sent(FetchSnapshotRequest)[2].position == 0
    fetched(one, FetchSnapshotAnswer(GOOD, 1, 2, snapshot=snapshot, size=5, position=0, data=b"abc"))
    assert one.one(act.WriteSnapshotChunk) == act.WriteSnapshotChunk(snapshot, 0, b"abc")
    assert one.sent(FetchSnapshotRequest)[2].position == 3
    fetched(one, FetchSnapshotAnswer(GOOD, 1, 2, snapshot=snapshot, size=5, position=3, data=b"de"))
    assert one.one(act.LoadSnapshot).snapshot == snapshot
    assert one.wait(60_000) == []
    one.step(SnapshotLoaded(snapshot, quorum.voters(1, 2), 1))
    assert one.one(act.Committed).high_watermark == 7
    assert (one.raft.log.start_offset, one.raft.log.end_offset, one.raft.log.last_epoch) == (7, 7, 1)
    assert one.raft.log.voters == quorum.voters(1, 2)
    assert one.sent(FetchRequest)[2].offset == 7


def test_an_answer_that_should_not_exist_is_a_failed_fetch(follower):
    """Kafka's process ends with it; here the fetch is repeated, and the time of the leader runs on."""
    one = follower(1)
    before = one.raft.role.deadline_ms
    one.now_ms += 100
    fetched(one, FetchAnswer(ErrorCode.INVALID_REQUEST, 1, 2))
    assert one.all(act.Stop) == []
    assert one.raft.role.deadline_ms == before
    one.wait(20)
    assert set(one.sent(FetchRequest)) == {2}


@pytest.mark.parametrize(
    "answer",
    [
        FetchSnapshotAnswer(ErrorCode.SNAPSHOT_NOT_FOUND, 1, 2),
        FetchSnapshotAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, 1, 2),
        FetchSnapshotAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(7, 1), size=5, position=0),
        FetchSnapshotAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(8, 1), size=5, data=b"x"),
        FetchSnapshotAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(7, 1), size=5, position=1, data=b"x"),
    ],
)
def test_a_snapshot_that_cannot_be_had_is_asked_for_anew(follower, answer):
    """The next Fetch names one that is there. Kafka 4.3.1 sends some of these errors as UNKNOWN_SERVER_ERROR."""
    one = follower(1)
    fetched(one, FetchAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(7, 1)))
    fetched(one, answer)
    assert one.all(act.WriteSnapshotChunk) == []
    one.wait(20)
    assert set(one.sent(FetchRequest)) == {2}


def test_a_late_answer_with_bytes_of_an_earlier_snapshot_is_dropped(node, quorum):
    """Another server has named a newer one while the leader was silent. Taken in, the old bytes would pass for it, and whole."""
    four, earlier, snapshot = node(4), OffsetAndEpoch(7, 1), OffsetAndEpoch(9, 1)
    fetched(four, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 1, 2, quorum.endpoints(2)))
    fetched(four, FetchAnswer(GOOD, 1, 2, snapshot=earlier))
    late = four.sent(FetchSnapshotRequest)[2]
    four.wait(2000)
    (asked,) = four.sent(FetchRequest).values()
    four.answer(act.BOOTSTRAP, asked, FetchAnswer(GOOD, 1, 2, snapshot=snapshot))
    four.answer(2, late, FetchSnapshotAnswer(GOOD, 1, 2, snapshot=earlier, size=3, position=0, data=b"old"))
    assert four.all(act.WriteSnapshotChunk) == four.all(act.LoadSnapshot) == []
    request = four.sent(FetchSnapshotRequest)[2]
    assert (request.snapshot, request.position) == (snapshot, 0)


def asked_of_two(node, quorum):
    """An observer that fetches a snapshot of a silent leader, and has asked any server too; both requests."""
    four = node(4, can_become_voter=False)
    fetched(four, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 1, 2, quorum.endpoints(2)))
    fetched(four, FetchAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(7, 1)))
    part = four.sent(FetchSnapshotRequest)[2]
    four.wait(2000)
    return four, part, four.sent(FetchRequest)[act.BOOTSTRAP]


def test_a_log_that_a_snapshot_replaces_gets_no_more_records(node, quorum):
    """A late answer has records from where the log ended before."""
    for answer in (
        FetchAnswer(GOOD, 1, 2, high_watermark=3, batches=(batch(0, 3),)),
        FetchAnswer(GOOD, 1, 2, diverging=OffsetAndEpoch(0, 0)),
    ):
        four, part, asked = asked_of_two(node, quorum)
        four.answer(2, part, FetchSnapshotAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(7, 1), size=3, data=b"abc"))
        assert four.one(act.LoadSnapshot)
        four.answer(act.BOOTSTRAP, asked, answer)
        assert four.all(act.Append) == four.all(act.Truncate) == []
        four.step(SnapshotLoaded(OffsetAndEpoch(7, 1), quorum.voters(1, 2), 1))
        assert four.raft.log.end_offset == 7


def test_a_snapshot_is_given_up_for_records_that_come_first(node, quorum):
    """Loaded later, it would take committed records away."""
    four, part, asked = asked_of_two(node, quorum)
    four.answer(act.BOOTSTRAP, asked, FetchAnswer(GOOD, 1, 2, high_watermark=9, batches=(batch(0, 9),)))
    assert four.one(act.Append).batches == (batch(0, 9),)
    four.answer(2, part, FetchSnapshotAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(7, 1), size=3, data=b"abc"))
    assert four.all(act.WriteSnapshotChunk) == four.all(act.LoadSnapshot) == []
    assert four.raft.log.end_offset == 9


def test_a_snapshot_that_is_named_twice_is_not_begun_anew(node, quorum):
    """Both servers name it."""
    four, part, asked = asked_of_two(node, quorum)
    four.answer(2, part, FetchSnapshotAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(7, 1), size=5, data=b"abc"))
    four.answer(act.BOOTSTRAP, asked, FetchAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(7, 1)))
    assert four.raft.role.snapshot.position == 3


def test_a_snapshot_below_what_is_committed_here_is_not_fetched(follower):
    """It has nothing to give."""
    one = follower(1, 1)
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=2))
    fetched(one, FetchAnswer(GOOD, 1, 2, snapshot=OffsetAndEpoch(1, 1)))
    assert one.sent(FetchSnapshotRequest) == {}


def heard(one):
    """Let a follower have a first good answer of its leader."""
    fetched(one, FetchAnswer(GOOD, 1, 2, high_watermark=0))
    return one


def refused(one):
    """The host of the leader refuses the connection."""
    peer, request = one.raft._core.in_flight.copy().popitem()
    return one.step(Failed(peer, request, refused=True))


def test_a_voter_stands_soon_when_the_host_of_its_leader_refuses(follower, quorum):
    """It is the second behind leader 2. Until then it grants the first a pre-vote, as one without a leader does."""
    one = heard(follower())
    ask = VoteRequest(1, quorum.key(3), quorum.key(1), 0, 0, pre_vote=True)
    assert not one.reply(ask).granted
    refused(one)
    assert one.raft.role.deadline_ms == 200
    assert one.reply(ask).granted
    one.wait(200)
    assert isinstance(one.raft.role, Prospective)
    assert all(request.pre_vote for request in one.sent(VoteRequest).values())


def test_a_leader_that_only_this_node_cannot_reach_is_kept(follower):
    """The others still hear it and grant nothing: the epoch stays, and the node waits its time before it asks again."""
    one = heard(follower())
    refused(one)
    one.wait(200)
    for peer, request in one.sent(VoteRequest).items():
        one.answer(peer, request, VoteAnswer(GOOD, 1, 2))
    assert isinstance(one.raft.role, Follower)
    assert (one.raft.role.epoch, one.raft.role.deadline_ms) == (1, 2200)
    refused(one)
    assert one.raft.role.deadline_ms == 2200
    one.wait(20)
    heard(one)
    one.wait(20)
    refused(one)
    assert one.raft.role.deadline_ms == one.now_ms + 200


def test_silence_is_no_refusal(follower):
    """A leader that does not answer may be slow, or its network down."""
    one = heard(follower())
    fail = one.raft._core.in_flight.copy().popitem()
    one.fail(*fail)
    assert one.raft.role.deadline_ms == 2000
    assert one.raft.role.has_fetched


def test_an_observer_whose_leader_refuses_asks_elsewhere(node, quorum):
    """It does not stand."""
    four = node(4)
    (request,) = four.sent(FetchRequest).values()
    four.answer(act.BOOTSTRAP, request, FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 1, 2, quorum.endpoints(2)))
    heard(four)
    refused(four)
    assert four.raft.role.lost
    assert four.raft.role.deadline_ms == 2000
