"""A leader's answers to those who copy its log."""

import time

import pytest
from msgspec.structs import replace

from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import CleanLog, Proposed, SnapshotDue, SnapshotWritten
from stratalog.metadata.raft.messages import FetchRequest, FetchSnapshotRequest, OffsetAndEpoch, RemoveVoterRequest
from stratalog.metadata.raft.replica_progress import OBSERVERS_MAX
from stratalog.metadata.raft.voter_set import ReplicaKey
from stratalog.wire.errors import ErrorCode


def test_records_are_answered_at_once(node, quorum):
    """From the offset to the log's end, also those that are not yet synced: both disks work at the same time."""
    one = node().win()
    one.fetch(quorum.key(2), offset=0, last_epoch=0)
    answer = one.one(act.ReplyWithRecords)
    assert (answer.offset, answer.end_offset, answer.token) == (0, 3, ("fetch", 2))
    assert (answer.answer.leader_id, answer.answer.high_watermark) == (1, -1)


def test_a_fetch_without_news_is_parked_until_there_is_some(node, quorum):
    """New records answer it, and so does a higher high watermark."""
    one = node().lead()
    one.fetch(quorum.key(2), max_wait_ms=500, high_watermark=3)
    assert one.actions == []
    one.step(Proposed("p", 1, 1, "x"))
    assert one.one(act.ReplyWithRecords).end_offset == 4
    one.fetch(quorum.key(4), max_wait_ms=500, high_watermark=3)
    one.fetch(quorum.key(2), max_wait_ms=500, high_watermark=3)
    one.fetch(quorum.key(3), max_wait_ms=500, high_watermark=3)
    assert {reply.token[1] for reply in one.all(act.ReplyWithRecords)} == {4, 2, 3}
    assert one.all(act.ReplyWithRecords)[0].answer.high_watermark == 4


def test_a_lower_high_watermark_of_the_asker_is_news(node, quorum):
    """KIP-1166: a follower learns of commits without waiting for its time to end."""
    one = node().lead()
    one.fetch(quorum.key(2), max_wait_ms=500, high_watermark=2)
    assert one.one(act.ReplyWithRecords).answer.high_watermark == 3


def test_a_parked_fetch_ends_with_its_time_or_with_a_second_fetch_of_its_replica(node, quorum):
    """A replica has one fetch under way; what it has given up is not kept."""
    one = node().lead()
    one.fetch(quorum.key(2), max_wait_ms=60_000, high_watermark=3)
    one.fetch(quorum.key(2), max_wait_ms=60_000, high_watermark=3)
    assert len(one.all(act.ReplyWithRecords)) == 1
    one.wait(500)
    assert len(one.all(act.ReplyWithRecords)) == 1


def test_parked_fetches_of_observers_are_bounded_and_the_oldest_is_answered(node, quorum):
    """Anybody may fetch, and each parked fetch holds memory. Voters wait on: they are few, and the quorum needs them."""
    one = node().lead()
    one.fetch(quorum.key(2), max_wait_ms=500, high_watermark=3)
    for stranger in range(OBSERVERS_MAX + 3):
        one.fetch(ReplicaKey(100 + stranger, bytes(16)), max_wait_ms=500, high_watermark=3)
    assert [each.token for each in one.all(act.ReplyWithRecords)] == [("fetch", 102)]
    one.fetch(quorum.key(3), max_wait_ms=500, high_watermark=3)
    assert one.all(act.ReplyWithRecords) == []
    waiting = [each.request.replica.id for each in one.raft.role.parked]
    assert waiting == [2, *range(103, 103 + OBSERVERS_MAX), 3]
    one.fetch(quorum.key(2), max_wait_ms=500, high_watermark=3)
    assert [each.token for each in one.all(act.ReplyWithRecords)] == [("fetch", 2)]


def test_all_parked_fetches_are_answered_within_a_turn_of_the_loop(node, quorum):
    """As many as may wait: the time grows with their number, not with its square."""
    one = node().lead()
    for stranger in range(OBSERVERS_MAX):
        one.fetch(ReplicaKey(100 + stranger, bytes(16)), max_wait_ms=500, high_watermark=3)
    begun = time.process_time()
    one.step(Proposed("p", 1, 1, "x"))
    assert time.process_time() - begun < 0.05
    assert len(one.all(act.ReplyWithRecords)) == OBSERVERS_MAX


def test_parked_fetches_learn_that_the_leader_has_gone(node, quorum):
    """They get NOT_LEADER_OR_FOLLOWER and the new epoch."""
    one = node().lead()
    one.fetch(quorum.key(2), max_wait_ms=500, high_watermark=3)
    one.get(FetchRequest(9, quorum.key(2), 0, 0))
    assert one.one(act.Reply).answer.error is ErrorCode.UNKNOWN_LEADER_EPOCH
    for _ in range(5):
        one.now_ms += 3000
        one.wait(0)
        if one.all(act.LostLeadership):
            break
    errors = [reply.answer.error for reply in one.all(act.Reply)]
    assert errors in ([ErrorCode.NOT_LEADER_OR_FOLLOWER], [])


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other", "epoch": 9}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 0, "last_epoch": 7}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"last_epoch": 2}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"offset": -1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_fetches_are_checked_in_kafkas_order(node, quorum, changes, error):
    """Every refusal names the leader, so that a newcomer in epoch 0 learns of it."""
    one = node().lead()
    answer = one.reply(replace(FetchRequest(1, quorum.key(2), 3, 1), **changes))
    assert (answer.error, answer.leader_id, answer.endpoints) == (error, 1, quorum.endpoints(1))


def test_a_node_that_does_not_lead_names_the_leader(follower, quorum):
    """With the address of its listener."""
    answer = follower().reply(FetchRequest(1, quorum.key(3), 0, 0))
    assert (answer.error, answer.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    assert answer.endpoints == quorum.endpoints(2)


def test_a_fetch_of_another_history_learns_where_it_parts_and_is_not_counted(node, quorum):
    """Counted, it would commit records that its replica does not have."""
    one = node(log=quorum.log(1, 3)).win()
    end = one.raft.log.end_offset
    one.flush()
    one.fetch(quorum.key(2), offset=end, last_epoch=2)
    assert one.one(act.Reply).answer.diverging == OffsetAndEpoch(1, 1)
    assert one.all(act.Committed) == []
    assert one.raft.role.progress.of(quorum.key(2)).end_offset == -1


def test_a_fetch_counts_for_the_disk_that_is_listed_only(node, quorum):
    """A wiped voter has nothing, whatever its id had before."""
    one = node().win()
    one.flush()
    one.fetch(quorum.key(2, 1))
    assert one.all(act.Committed) == []
    one.fetch(quorum.key(2))
    assert one.one(act.Committed).high_watermark == 3


def cleaned(node, quorum):
    """A leader whose log begins behind a snapshot."""
    one = node().lead()
    one.step(SnapshotDue(3))
    snapshot = one.one(act.WriteSnapshot).snapshot
    one.step(SnapshotWritten(snapshot))
    one.step(CleanLog(snapshot))
    assert one.one(act.DeleteLogBefore).snapshot == snapshot
    return one, snapshot


def test_a_replica_below_the_log_start_gets_the_snapshot(node, quorum):
    """Its name first, then its bytes; a snapshot that is gone is not found."""
    one, snapshot = cleaned(node, quorum)
    assert snapshot == OffsetAndEpoch(3, 1)
    one.fetch(quorum.key(2), offset=0, last_epoch=0)
    assert one.one(act.Reply).answer.snapshot == snapshot
    request = FetchSnapshotRequest(1, quorum.key(2), snapshot, 10)
    one.get(request)
    reply = one.one(act.ReplyWithSnapshot)
    assert (reply.snapshot, reply.position, reply.answer.error) == (snapshot, 10, ErrorCode.NONE)
    assert one.reply(replace(request, snapshot=OffsetAndEpoch(2, 1))).error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert one.reply(replace(request, epoch=0)).error is ErrorCode.FENCED_LEADER_EPOCH


def test_a_fetch_that_commits_the_leaders_removal_gets_its_resignation(node, quorum):
    """The asker looks for the next leader at once."""
    one = node().lead()
    one.fetch(quorum.key(3))
    one.get(RemoveVoterRequest(quorum.key(1)), token="admin")
    one.flush()
    one.fetch(quorum.key(2), max_wait_ms=500)
    one.fetch(quorum.key(3), max_wait_ms=500)
    answers = {reply.token: reply.answer.error for reply in one.all(act.Reply)}
    assert answers == {"admin": ErrorCode.NONE, ("fetch", 3): ErrorCode.NOT_LEADER_OR_FOLLOWER}
