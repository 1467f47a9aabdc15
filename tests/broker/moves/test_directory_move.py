"""One move: copied while the log is used, swapped in one turn, given up where it has no end."""

import errno
import os
import time
from pathlib import Path

import pytest

from stratalog.broker.moves.directory_move import MoveThrottle
from stratalog.client.admin import delete_topics
from stratalog.client.records import NewRecord
from stratalog.hot.log.moving import LogMoving
from stratalog.metadata.quotas.replication_quota import ReplicationQuota
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition


def test_appends_go_on_while_the_disk_of_the_copy_is_slow(make_disks, stopping):
    """Writes are held for a second at most; then they go on, and the move is tried again."""
    disks = make_disks(stopping)
    stopping.stops = True
    disks.ask(disks.other)
    assert stopping.waiting.wait(60)
    begun = time.monotonic()
    assert [disks.node.produce("t", b"%d" % number)[0] for number in range(5)] == list(range(5))
    assert time.monotonic() - begun < 20
    assert disks.place == disks.home
    stopping.stops = False
    stopping.go.set()
    disks.moved(disks.other)
    assert disks.node.values("t") == [b"%d" % number for number in range(5)]


def test_the_role_and_its_state_stay(disks):
    """The leader, its epoch, the high watermark and the producers are those of before."""
    disks.node.produce("t", b"a", b"b")
    partition = disks.node.partition("t").partition
    leader, producers = partition.leader, partition.log.producer_state
    disks.ask(disks.other)
    disks.moved(disks.other)
    assert (partition.leader, partition.log.producer_state) == (leader, producers)
    assert partition.high_watermark == 2
    assert disks.node.produce("t", b"c") == [2]


def test_a_target_that_fails_leaves_the_log_where_it_is(make_disks, watched):
    """Its directory is offline then; the replica is not in it."""
    disks = make_disks(watched)
    disks.node.produce("t", b"v")
    watched.fail("write", "-future")
    disks.ask(disks.other)
    disks.ended()
    assert disks.directory(disks.other).writer.offline is not None
    assert disks.place == disks.home
    assert disks.node.produce("t", b"w") == [1]


def test_a_full_target_ends_the_move_and_nothing_else(make_disks, watched):
    """The copy goes, which makes room again."""
    disks = make_disks(watched)
    disks.node.produce("t", b"v" * 1000)
    watched.fail("write", "-future", 28)
    disks.ask(disks.other)
    disks.ended()
    assert disks.directory(disks.other).writer.offline is None
    assert disks.copies() == []
    assert disks.place == disks.home
    watched.faults.clear()
    disks.ask(disks.other)
    disks.moved(disks.other)


def test_the_copy_of_a_log_on_a_failed_disk_is_kept(disks):
    """It is the only one that can be read."""
    disks.node.produce("t", b"v")
    disks.stand_still()
    disks.ask(disks.other)
    disks.node.run(lambda: disks.directory(disks.home).writer.fail(OSError(5, "Input/output error")))
    disks.ended()
    assert len(disks.copies()) == 1


def test_a_deleted_topic_leaves_no_copy(disks):
    """Its move ends, and the topic may be made again."""
    disks.node.produce("t", b"v")
    disks.stand_still()
    disks.ask(disks.other)
    delete_topics(disks.node.client(), ["t"])
    disks.ended()
    assert disks.copies() == []
    disks.node.create("t")
    assert disks.node.produce("t", b"w") == [0]


def test_a_move_that_is_cancelled_at_its_end_leaves_no_note(disks, monkeypatch):
    """By that of its target a start took another log there for the copy, and removed the one that went on."""
    disks.node.produce("t", b"v")
    monkeypatch.setattr(LogMoving, "is_at", lambda *_: False)  # appends come between, each time
    disks.ask(disks.other)
    note = Path(disks.place, "t-0", ".stratalog-moves-to")
    disks.node.wait_until(note.exists)
    disks.ask(disks.home)
    disks.ended()
    assert disks.place == disks.home
    assert not note.exists()


def offline(disks):
    """The directories that are offline."""
    return [path for path in (disks.home, disks.other) if disks.directory(path).writer.offline is not None]


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_topic_that_is_deleted_at_either_end_of_a_move_takes_no_directory_offline(
    make_disks, waiting_at_note, is_swapped
):
    """A thread removes the note of the log, whose directory has another name by then."""
    disks = make_disks(waiting_at_note)
    disks.node.produce("t", b"v")
    note = f"{disks.other}/t-0/.stratalog-moved-from" if is_swapped else f"{disks.home}/t-0/.stratalog-moves-to"
    waiting_at_note.path = note
    disks.ask(disks.other)
    assert waiting_at_note.waiting.wait(60)
    assert disks.place == (disks.other if is_swapped else disks.home)
    delete_topics(disks.node.client(), ["t"])
    disks.node.wait_until(lambda: disks.node.node.hosted.table.get(("t", 0)) is None)
    waiting_at_note.go.set()
    disks.ended()
    assert offline(disks) == []
    assert disks.copies() == []


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_source_that_fails_at_either_end_of_a_move_is_the_one_that_is_offline(
    make_disks, watched, monkeypatch, is_cancelled
):
    """Its note cannot be removed: it is the disk to be repaired, not the target."""
    disks = make_disks(watched)
    disks.node.produce("t", b"v")
    note = f"{disks.home}/t-0/.stratalog-moves-to"
    if is_cancelled:
        monkeypatch.setattr(LogMoving, "is_at", lambda *_: False)
        disks.ask(disks.other)
        disks.node.wait_until(Path(note).exists)
    watched.fail("unlink", note)
    disks.ask(disks.home if is_cancelled else disks.other)
    disks.ended()
    assert offline(disks) == [disks.home]


def test_a_topic_that_is_made_again_in_the_target_keeps_its_rows(make_disks, stopping):
    """The move of the one before ends later: it forgot what the checkpoints were to say of the new log."""
    disks = make_disks(stopping)
    target = disks.directory(disks.other)
    stopping.stops = True
    disks.ask(disks.other)
    assert stopping.waiting.wait(60)
    delete_topics(disks.node.client(), ["t"])
    name = TopicPartition("t", 0)
    disks.node.run(disks.node.node.hosted.logs.prefer, name, target)
    disks.node.create("t")
    disks.node.produce("t", b"w")
    assert disks.place == disks.other
    disks.node.run(target.files.cleaner_offsets.__setitem__, name, 0)
    stopping.go.set()
    disks.ended()
    assert name in target.files.cleaner_offsets
    assert name not in target.files.stale


def test_a_topic_that_is_made_again_in_the_target_has_no_rows_of_the_one_that_was_about_to_come(
    make_disks, stopping, monkeypatch
):
    """Its first record had the offset at which the deleted log began, and its archive was missed for that of the other topic."""
    disks = make_disks(stopping)
    monkeypatch.setattr(LogMoving, "is_at", lambda *_: False)  # appends come between, each time
    for value in (b"1", b"2", b"3"):
        disks.node.produce("t", value)
    disks.node.run(lambda: disks.node.partition("t").log.advance_log_start(2))
    target, hosted = disks.directory(disks.other), disks.node.node.hosted
    disks.ask(disks.other)
    disks.node.wait_until(
        lambda: target.files.log_start_offsets.get(TopicPartition("t", 0)) == 2 and target.files.bounds_stored
    )
    stopping.stops = True
    assert stopping.waiting.wait(60)
    delete_topics(disks.node.client(), ["t"])
    disks.node.run(hosted.logs.prefer, TopicPartition("t", 0), target)
    disks.node.create("t")
    assert disks.place == disks.other
    assert disks.node.produce("t", b"w") == [0]
    stopping.go.set()
    disks.ended()
    assert disks.node.values("t") == [b"w"]


def test_a_swap_that_fails_leaves_the_log(make_disks, watched):
    """The disk of the target fails with its last call: appends go on, and the next start finds the log."""
    disks = make_disks(watched)
    disks.node.produce("t", b"v")
    watched.fail("rename", f"{disks.other}/t-0")
    disks.ask(disks.other)
    disks.ended()
    assert disks.place == disks.home
    disks.node.produce("t", b"w")
    watched.faults.clear()
    disks.node.restart()
    disks.ended()
    assert disks.node.values("t") == [b"v", b"w"]


def test_a_log_moves_back_to_where_its_directory_found_no_room_for_a_new_name(make_disks, watched):
    """The directory that it has left goes first: the copy could not take its name, and the disk went offline."""
    disks = make_disks(watched)
    disks.node.produce("t", b"v")
    home = disks.directory(disks.home)
    watched.fail("rename", "-delete", 28)
    disks.ask(disks.other)
    disks.moved(disks.other)
    assert home.files.leaving == {TopicPartition("t", 0)}
    disks.ask(disks.home, ErrorCode.KAFKA_STORAGE_ERROR)
    watched.faults.clear()
    disks.ask(disks.home)
    disks.moved(disks.home)
    assert home.writer.offline is None
    assert disks.node.values("t") == [b"v"]


def test_a_cleaning_that_waits_for_room_is_waited_for(make_disks, watched):
    """A log leaves a full disk: the old segments have their names still, and were copied in the place of the new one."""
    disks = make_disks(watched, log_cleaner_backoff_ms=3_600_000)
    node = disks.node
    node.create("c", cleanup_policy="compact")
    unified, now_ms = node.partition("c"), node.node.clock.wall_ms()
    for keys in (b"12314", b"2", b"9"):
        for key in keys:
            node.produce("c", NewRecord(b"v", now_ms, key=bytes([key]), partition=0))
        node.run(unified.log.roll)
    watched.fail("rename", ".deleted", errno.ENOSPC)
    node.run(node.node.compaction.look)
    node.wait_until(unified.log.moving.why_not)
    target = next(path for path in (disks.home, disks.other) if path != unified.partition.directory.path)
    node.run(lambda: node.node.moves.ask(TopicPartition("c", 0), target))
    node.wait_until(disks.copies)
    time.sleep(0.2)
    watched.faults.clear()
    node.wait_until(lambda: unified.partition.directory.path == target and not disks.moving)
    assert {record.key for record in node.read("c")} == {b"1", b"2", b"3", b"4", b"9"}


def test_a_damaged_log_does_not_move(disks):
    """It waits, and its copy is removed when the move is cancelled."""
    disks.node.produce("t", b"v")
    disks.node.run(lambda: setattr(disks.node.partition("t").log.tail, "failed", OSError("full")))
    disks.ask(disks.other)
    time.sleep(0.3)
    assert disks.place == disks.home
    disks.ask(disks.home)
    disks.ended()
    assert disks.copies() == []
    disks.node.run(lambda: setattr(disks.node.partition("t").log.tail, "failed", None))


def test_deleted_records_stay_deleted(disks):
    """The log start is in the checkpoints of the target before the log is."""
    for _ in range(4):
        disks.node.produce("t", os.urandom(3000))
    disks.node.run(lambda: disks.node.partition("t").log.advance_log_start(2))
    disks.ask(disks.other)
    disks.moved(disks.other)
    files = disks.directory(disks.other).files
    assert files.log_start_offsets[disks.node.partition("t").topic_partition] == 2
    with pytest.raises(KafkaError) as refused:
        disks.node.values("t")
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_throttle_lets_through_what_its_rate_allows():
    """Over ten seconds it is the rate, whatever the size of a piece; a rate of 0 lets nothing through."""
    clock, rate = Clock(), 200_000
    throttle = MoveThrottle(ReplicationQuota(11, 1.0), lambda: rate, clock)
    throttle.record(0)
    copied = 0
    while clock.now < 10:
        wait_seconds = throttle.wait_seconds()
        if wait_seconds > 0:
            clock.now += wait_seconds
            continue
        size_bytes = throttle.piece_bytes()
        throttle.record(size_bytes)
        copied += size_bytes
    assert 0.9 * 10 * rate < copied < 1.3 * 10 * rate
    rate = 0
    assert throttle.wait_seconds() == float("inf")
