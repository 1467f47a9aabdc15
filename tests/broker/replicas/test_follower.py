"""The role of a follower: what its leader sends goes into the log, and the log says when there may be more."""

import pytest

from stratalog.broker.replicas.log_position import LogPosition
from stratalog.hot.config import LONG_MAX
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.wire.batch import Record, assign_offset, build_batch
from stratalog.wire.messages.fetch import EpochEndOffset, PartitionData
from tests.broker.replicas.leader_rig import Bench

LEADER, NOW_MS = 7, 1_700_000_000_000


def batch(offset, count=1, epoch=5):
    """Records as a leader stores them."""
    records = [Record(number, NOW_MS, None, b"v%d" % (offset + number)) for number in range(count)]
    built = build_batch(records)
    assign_offset(built, 0, offset, len(built) - 12, epoch)
    return bytes(built)


def leading(bench, count):
    """So many records of its own, in epoch 4, on the disk."""
    for number in range(len(bench.ended), len(bench.ended) + count):
        bench.append(str(number), build_batch([Record(0, NOW_MS, None, b"own")]), acks=1)
    bench.disk.write()
    bench.disk.flush()


def data(*batches, high_watermark=0, log_start=0, diverging=None):
    return PartitionData(
        partition_index=0,
        high_watermark=high_watermark,
        log_start_offset=log_start,
        diverging_epoch=None if diverging is None else EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
        records=memoryview(b"".join(batches)),
    )


class Heard:
    """The outcomes that a role has told."""

    def __init__(self):
        self.told = []

    def taken(self, _role, position):
        self.told.append(("taken", *position))

    def refused(self, _role, position):
        self.told.append(("refused", *position))


@pytest.fixture
def heard():
    """The listener of a role."""
    return Heard()


@pytest.fixture
def bench(tmp_path):
    """A partition that follows broker 7 in epoch 5."""
    return following(str(tmp_path / "t-0"))


def following(path, **config):
    one = Bench(path, **config)
    one.partition.follow(LEADER, 5)
    return one


def test_a_gap_is_taken_once_the_log_directory_has_it(bench, heard):
    """Not before: after a crash it would be damage. The leader's mark tells how far its cleaner may have come."""
    role = bench.partition.follower
    role.take(data(batch(0, 2), batch(10, 2), batch(20, 2), high_watermark=30), heard)
    bench.disk.write()
    bench.disk.flush()
    assert (heard.told, bench.partition.log.log_end_offset) == ([], 2)
    bench.disk.keep_bounds()
    assert heard.told == [("taken", 2, 5, 0)]
    assert bench.partition.log.bounds.gaps_below == 30
    role.take(data(batch(10, 2), batch(20, 2), high_watermark=30), heard)
    bench.disk.write()
    bench.disk.flush()
    assert heard.told[1:] == [("taken", 22, 5, 0)]
    assert not bench.disk.waits_for_bounds
    role.take(data(batch(40, 2), high_watermark=45), heard)
    assert bench.partition.log.log_end_offset == 22
    bench.disk.keep_bounds()
    assert (heard.told[2:], bench.partition.log.bounds.gaps_below) == ([("taken", 22, 5, 0)], 45)


def test_with_sync_on_ack_more_is_asked_for_when_the_records_are_on_the_disk(bench, heard):
    """Written is not enough: the leader takes the offset for what a power cut leaves."""
    role = bench.partition.follower
    role.take(data(batch(0, 3), high_watermark=2), heard)
    bench.disk.write()
    assert (heard.told, bench.partition.high_watermark) == ([], 0)
    bench.disk.flush()
    assert heard.told == [("taken", 3, 5, 0)]
    assert bench.partition.high_watermark == 2


def test_without_sync_on_ack_the_file_is_enough(tmp_path, heard):
    """Kafka's page-cache mode."""
    bench = following(str(tmp_path / "t-0"), flush_messages=LONG_MAX)
    bench.partition.follower.take(data(batch(0)), heard)
    assert heard.told == []
    bench.disk.write()
    assert heard.told == [("taken", 1, 5, 0)]


def test_news_without_records_is_taken_at_once(bench, heard):
    """The high watermark ends with the own log."""
    role = bench.partition.follower
    role.take(data(batch(0, 4)), heard)
    bench.disk.write()
    bench.disk.flush()
    role.take(data(high_watermark=9), heard)
    assert heard.told[-1] == ("taken", 4, 5, 0)
    assert bench.partition.high_watermark == 4


def test_a_leader_hears_of_a_log_start_that_a_crash_would_leave(bench, heard):
    """Deleted records would come back with a copy that leads after a crash. Found by `make sim-replicas SEED=700009`."""
    role = bench.partition.follower
    role.take(data(batch(0, 4)), heard)
    bench.disk.write()
    bench.disk.flush()
    role.take(data(high_watermark=4, log_start=3), heard)
    assert bench.partition.log.log_start_offset == 3
    assert (heard.told, role.position.log_start_offset) == ([("taken", 4, 5, 0)], 0)
    bench.disk.flush()  # a sync of records is no checkpoint
    assert len(heard.told) == 1
    bench.disk.keep_bounds()
    assert heard.told[1:] == [("taken", 4, 5, 3)]


def test_a_log_start_at_which_the_files_begin_needs_no_checkpoint(tmp_path, heard):
    """Retention removes whole segments; a broker that starts takes the first one for the log start."""
    bench = following(str(tmp_path / "t-0"), segment_bytes=1)
    role = bench.partition.follower
    role.take(data(batch(0, 4), batch(4)), heard)
    bench.disk.write()
    bench.disk.flush()
    role.take(data(high_watermark=5, log_start=4), heard)
    assert len(heard.told) == 1, "a power cut may bring back the name that went last"
    bench.disk.flush()
    assert heard.told[1:] == [("taken", 5, 5, 4)]
    assert not bench.disk.waits_for_bounds


def test_files_of_an_archived_log_stay_until_a_crash_leaves_its_start(tmp_path, heard):
    """It would begin again before its first file, and the archive need not have what was deleted."""
    bench = following(str(tmp_path / "t-0"), segment_bytes=1, remote_storage_enable=True)
    role, log = bench.partition.follower, bench.partition.log
    role.take(data(batch(0, 4), batch(4)), heard)
    bench.disk.write()
    bench.disk.flush()
    role.take(data(high_watermark=5, log_start=4), heard)
    assert (log.log_start_offset, log.first_base_offset) == (4, 0)
    bench.disk.keep_bounds()
    assert (log.first_base_offset, heard.told[-1]) == (4, ("taken", 5, 5, 4))


def test_the_first_position_comes_when_the_records_of_an_earlier_role_are_durable(tmp_path, heard):
    """A former leader has records that were not synced, or not even written."""
    bench = Bench(str(tmp_path / "t-0"))
    bench.append("a", build_batch([Record(0, NOW_MS, None, b"own")]), acks=1)
    role = bench.partition.follow(LEADER, 6)
    role.settle(heard)
    assert heard.told == []
    assert bench.disk.asked_to_sync == [bench.partition]
    bench.disk.write()
    bench.disk.flush()
    assert heard.told == [("taken", 1, 4, 0)]


def test_where_histories_part_the_log_is_cut_by_epochs(tmp_path, heard):
    """And never to the high watermark: what is below the leader's end of the epoch stays."""
    bench = Bench(str(tmp_path / "t-0"))
    leading(bench, 3)
    role = bench.partition.follow(LEADER, 6)
    role.take(data(diverging=(4, 2)), heard)
    assert heard.told == [("taken", 2, 4, 0)]
    assert bench.partition.log.log_end_offset == 2


def test_a_cut_moves_no_mark(tmp_path, heard):
    """The epochs named differ, and what is left of the older one may still be another's: the next fetch compares it.

    Consumers read here up to the mark, so the leader's is taken with the first answer that shares our history.
    """
    bench = Bench(str(tmp_path / "t-0"))
    leading(bench, 3)
    role = bench.partition.follow(LEADER, 6)
    role.take(data(batch(3, 2, epoch=6)), heard)
    bench.disk.write()
    bench.disk.flush()
    role = bench.partition.follow(LEADER, 9)
    bench.partition.high_watermark = 1
    role.take(data(high_watermark=30, diverging=(5, 7)), heard)
    assert heard.told[-1] == ("taken", 3, 4, 0)
    assert bench.partition.high_watermark == 1
    role.take(data(batch(3, epoch=9), high_watermark=30), heard)
    bench.disk.write()
    bench.disk.flush()
    assert bench.partition.high_watermark == 4


def test_an_epoch_in_which_a_leader_wrote_nothing_is_given_up(tmp_path, heard):
    """Else its follower would name an epoch for ever that the next leader does not have."""
    bench = Bench(str(tmp_path / "t-0"))
    leading(bench, 1)
    bench.partition.lead(1, 9, replicas=(1, LEADER), in_sync=(1, LEADER))
    role = bench.partition.follow(LEADER, 10)
    assert role.position.last_epoch == 9
    role.take(data(diverging=(4, 1)), heard)
    assert heard.told == [("taken", 1, 4, 0)]


def test_records_that_do_not_fit_are_refused(bench, heard, caplog):
    """A damaged batch, and one that is not the next; the log stays as it is."""
    role = bench.partition.follower
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    role.take(data(bytes(damaged)), heard)
    role.take(data(batch(0)), heard)
    bench.disk.write()
    bench.disk.flush()
    role.take(data(batch(0)), heard)
    assert [one[:2] for one in heard.told] == [("refused", 0), ("taken", 1), ("refused", 1)]
    assert "cannot be appended" in caplog.text


def test_a_role_that_was_taken_down_takes_nothing(bench, heard):
    """Neither an answer that was on its way nor the end of a sync."""
    role = bench.partition.follower
    role.take(data(batch(0)), heard)
    bench.partition.follow(LEADER, 6)
    bench.disk.write()
    bench.disk.flush()
    role.take(data(batch(1)), heard)
    assert heard.told == []
    assert bench.partition.log.log_end_offset == 1


@pytest.mark.parametrize(("start", "end", "position"), [(0, 2, (2, 4, 0)), (1, 3, (3, 4, 0)), (8, 20, (8, -1, 8))])
def test_a_position_outside_the_leaders_log_is_moved_into_it(tmp_path, start, end, position):
    """Cut to a shorter log, begun anew behind what is deleted there, or left as it is with another start."""
    bench = Bench(str(tmp_path / "t-0"))
    leading(bench, 3)
    role = bench.partition.follow(LEADER, 6)
    role.move_into(start, end)
    assert role.position == LogPosition(*position)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_copy_begins_with_the_batch_that_holds_the_log_start(tmp_path, heard, restarted):
    """Deletion by offset may leave the leader's log start within a batch, and a leader sends whole batches (KAFKA-5634)."""
    bench = Bench(str(tmp_path / "t-0"))
    leading(bench, 3)
    bench.partition.follow(LEADER, 6).move_into(8, 20)
    role = bench.partition.follow(LEADER, 7) if restarted else bench.partition.follower
    role.take(data(batch(5, 3, epoch=6), log_start=8), heard)
    assert [one[:2] for one in heard.told] == [("refused", 8)]  # all of it is deleted
    role.take(data(batch(5, 6, epoch=6), batch(11, epoch=6), high_watermark=12, log_start=8), heard)
    bench.disk.write()
    bench.disk.flush()
    bench.disk.keep_bounds()
    assert heard.told[1:] == [("taken", 12, 6, 8)]
    log = bench.partition.log
    assert (log.local_log_start_offset, bench.partition.high_watermark) == (8, 12)
    assert log.leader_epochs.entries[0].start_offset == 5
    role.take(data(batch(10, 3, epoch=6)), heard)
    assert heard.told[2][:2] == ("refused", 12)


def test_a_log_that_ends_at_its_leaders_log_start_goes_on_with_the_batch_there(tmp_path, heard):
    """Its last record is of a fork: the leader's batch begins before. All that this log has is deleted there."""
    bench = Bench(str(tmp_path / "t-0"))
    leading(bench, 6)
    role = bench.partition.follow(LEADER, 6)
    role.take(data(batch(5, 3, epoch=6), high_watermark=8, log_start=6), heard)
    bench.disk.write()
    bench.disk.flush()
    bench.disk.keep_bounds()
    assert heard.told == [("taken", 8, 6, 6)]
    assert bench.partition.log.leader_epochs.entries == ((6, 5),)


def test_a_new_leader_counts_what_it_has_written_where_that_is_enough(tmp_path):
    """In page-cache mode a follower told the leader its written end; as leader it has no less."""
    bench = following(str(tmp_path / "t-0"), flush_messages=LONG_MAX)
    bench.partition.follower.take(data(batch(0, 2)), Heard())
    bench.disk.write()
    bench.partition.lead(1, 6, replicas=(1,), in_sync=(1,))
    assert bench.partition.high_watermark == 2


def test_a_log_that_begins_behind_its_archive_has_the_history_there(tmp_path, heard):
    """Its own records are in the archive; the log start is the leader's, far below what is local."""
    bench = Bench(str(tmp_path / "t-0"), remote_storage_enable=True)
    leading(bench, 2)
    role = bench.partition.follow(LEADER, 6)
    role.begin_behind(80, (EpochEntry(4, 0), EpochEntry(5, 70)), None, 1)
    log = bench.partition.log
    assert role.position == LogPosition(80, 5, 0)  # the leader hears of the log start when it is written down
    assert (log.local_log_start_offset, log.flushed_offset, bench.partition.high_watermark) == (80, 80, 80)
    role.take(data(batch(80, epoch=6), high_watermark=80), heard)
    bench.disk.write()
    bench.disk.flush()
    bench.disk.keep_bounds()
    assert heard.told == [("taken", 81, 6, 1)]


def test_epochs_behind_an_archive_begin_no_earlier_than_the_log(tmp_path):
    """As at the leader, where DeleteRecords has moved the start of the first one. Found by `make sim-replicas SEED=301`."""
    bench = Bench(str(tmp_path / "t-0"), remote_storage_enable=True)
    leading(bench, 2)
    role = bench.partition.follow(LEADER, 6)
    role.begin_behind(80, (EpochEntry(4, 0), EpochEntry(5, 70)), None, 33)
    assert bench.partition.log.leader_epochs.entries == (EpochEntry(4, 33), EpochEntry(5, 70))


def test_a_log_that_begins_behind_its_leaders_end_begins_anew_where_that_log_begins(bench, heard):
    """It has nothing of the leader's: cut to that end it would lack all below, and be in sync."""
    role = bench.partition.follower
    role.take(data(batch(0, 20), high_watermark=20), heard)
    bench.disk.write()
    bench.disk.flush()
    role.take(data(high_watermark=20, log_start=15), heard)
    role.move_into(3, 10)
    log = bench.partition.log
    assert (log.log_start_offset, log.log_end_offset, bench.partition.high_watermark) == (3, 3, 3)


def test_archived_segments_leave_the_disk_and_the_log_start_stays(tmp_path):
    """Whole segments, and none that is not on the disk yet."""
    bench = Bench(str(tmp_path / "t-0"), remote_storage_enable=True)
    for _ in range(3):
        leading(bench, 2)
        bench.partition.log.roll()
    role = bench.partition.follow(LEADER, 6)
    assert [role.evictable(offset) for offset in (1, 2, 5, 9)] == [(0, 0), (0, 2), (0, 4), (0, 6)]
    role.evict_below(5)
    assert role.evictable(5) == (4, 4)
    log = bench.partition.log
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 4, 6)


@pytest.mark.parametrize(
    "asked_again", [False, True], ids=["when the write failed", "when more came before there was room"]
)
def test_records_that_found_no_room_are_not_claimed(bench, heard, asked_again):
    """The leader counts what lies below the offset that it is asked for, and acknowledges it."""
    role = bench.partition.follower
    role.take(data(batch(0, 3)), heard)
    bench.disk.write()
    bench.disk.flush()
    role.take(data(batch(3, 4)), heard)
    bench.partition.log.tail.failed = OSError(28, "full")
    bench.partition.on_write_refused(
        OSError(28, "full")
    )  # the log could not even be brought back to the end of its file
    if asked_again:
        role.take(data(batch(7)), heard)
    assert heard.told[-1] == ("refused", 3, 5, 0)
    assert len(heard.told) == 2 + asked_again
