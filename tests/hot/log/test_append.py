"""Tests of hot/log/append.py."""

import errno

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import check_batch, iter_records, read_header
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.hot.conftest import LogBench


def test_offsets_and_the_leader_epoch_are_written_into_the_batch(bench):
    """In place, outside of the CRC, which still holds."""
    log = bench.open()
    bench.append(log, 3)
    batch = bench.batch(2)
    info = log.append_as_leader(batch, leader_epoch=5, now_ms=bench.now_ms)
    assert (info.base_offset, info.last_offset, info.log_append_time_ms, info.duplicate) == (3, 4, -1, False)
    header = check_batch(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 5)
    assert [entry.start_offset for entry in log.leader_epochs.entries] == [0, 3]


def test_log_append_time_stamps_the_batch(bench):
    """Attribute, time and CRC; all records then have that time."""
    log = bench.open(LogConfig(message_timestamp_type="LogAppendTime"))
    batch = bench.batch(2, timestamp_ms=17)
    info = log.append_as_leader(batch, leader_epoch=0, now_ms=99_000)
    assert info.log_append_time_ms == 99_000
    assert check_batch(batch).is_log_append_time
    assert [record.timestamp_ms for record in iter_records(batch)] == [99_000, 99_000]


def test_a_refused_batch_leaves_no_trace(bench):
    """MESSAGE_TOO_LARGE: nothing appended, the buffer given back once."""
    log = bench.open(LogConfig(max_message_bytes=100))
    released = []
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(bench.batch(3), leader_epoch=0, now_ms=bench.now_ms, release=lambda: released.append(1))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert (log.log_end_offset, log.size_bytes, released) == (0, 0, []), "its bytes are still looked at"


def test_a_duplicate_is_answered_with_its_first_place_and_releases_its_buffer(bench):
    """No record is appended for it."""
    log = bench.open()
    options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    bench.append(log, 2)
    first = bench.append(log, 3, **options)
    released = []
    again = log.append_as_leader(
        bench.batch(3, **options), leader_epoch=1, now_ms=bench.now_ms, release=lambda: released.append(1)
    )
    assert again.duplicate
    assert (again.base_offset, again.last_offset) == (first.base_offset, first.last_offset) == (2, 4)
    assert log.log_end_offset == 5
    assert released == [1]


def test_a_retry_whose_segment_has_left_is_still_recognised(bench):
    """The window of five batches lives in memory and snapshots, not in the segment."""
    log = bench.open(LogConfig(remote_storage_enable=True))
    options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    bench.append(log, 3, **options)
    log.roll()
    log.delete_local_before(3)
    assert bench.append(log, 3, **options).duplicate
    log.close()
    log = bench.open(LogConfig(remote_storage_enable=True))
    assert bench.append(log, 3, **options).duplicate


def test_a_client_may_not_write_a_marker(bench):
    """INVALID_RECORD; a coordinator whose marker is malformed gets the same."""
    log = bench.open()
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(bench.marker(commit=True), leader_epoch=1, now_ms=0)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_follower_keeps_offsets_and_epochs(bench, make_batch):
    """Several batches, with a gap as compaction leaves it."""
    log = bench.open()
    released = []
    data = memoryview(make_batch(0, 3, leader_epoch=2) + make_batch(10, 2, leader_epoch=4))
    info = log.append_as_follower(data, leader_epoch=4, now_ms=0, release=lambda: released.append(1))
    assert (info.base_offset, info.last_offset) == (0, 11)
    log.write_queued()
    assert released == [1]
    assert [(header.base_offset, header.partition_leader_epoch) for header in bench.headers(log)] == [(0, 2), (10, 4)]
    assert log.leader_epochs.latest_epoch == 4
    assert read_header(bench.content(log.read(5, max_bytes=1, max_offset=12))).base_offset == 10
    with pytest.raises(KafkaError):
        log.append_as_follower(memoryview(make_batch(11)), leader_epoch=4, now_ms=0)
    assert log.append_as_follower(memoryview(b""), leader_epoch=4, now_ms=0, release=lambda: released.append(2)) is None
    assert released == [1, 2]


def test_a_batch_beyond_relative_offset_2_to_the_31_opens_a_segment(bench, make_batch):
    """Base B with last offset B+2147483647 stays, B+2147483648 rolls."""
    log = bench.open()
    log.append_as_follower(memoryview(make_batch(0)), leader_epoch=9, now_ms=0)
    log.append_as_follower(memoryview(make_batch(2147483647)), leader_epoch=9, now_ms=0)
    assert len(log.segments()) == 1
    log.append_as_follower(memoryview(make_batch(2147483648)), leader_epoch=9, now_ms=0)
    assert [segment.base_offset for segment in log.segments()] == [0, 2147483648]


def check_one_file_each(bench, log, config, end: int) -> None:
    """No segment shares its files with another: what retention removes of one is all that goes."""
    bases = [segment.base_offset for segment in log.segments()]
    assert bases == sorted(set(bases))
    before = bench.headers(log)
    log.delete_local_before(0)
    log.sync()
    assert [header.base_offset for header in bench.headers(log)] == [header.base_offset for header in before]
    log.close()
    again = bench.open(config)
    assert (again.log_start_offset, again.log_end_offset) == (0, end)


@pytest.mark.parametrize("rolled", [False, True])
def test_an_empty_segment_takes_a_copied_batch_that_is_larger_than_segments_are_now(bench, make_batch, rolled):
    """``segment.bytes`` was lowered since its leader wrote it. A second segment would begin at the same offset."""
    config = LogConfig(segment_bytes=300)
    log = bench.open(config)
    first = 0
    if rolled:
        first = 1
        log.append_as_follower(memoryview(make_batch(0, leader_epoch=1)), leader_epoch=1, now_ms=5)
        log.roll()
    for base in (first, first + 40, first + 80):
        log.append_as_follower(memoryview(make_batch(base, 40, leader_epoch=1)), leader_epoch=1, now_ms=5)
        log.write_queued()
    log.sync()
    check_one_file_each(bench, log, config, first + 120)


def test_an_empty_segment_takes_a_batch_whose_index_has_no_room_for_an_entry(bench):
    """``segment.index.bytes=4``, the smallest value: each batch has a segment of its own, and each segment its files."""
    config = LogConfig(segment_index_bytes=4)
    log = bench.open(config)
    for _ in range(3):
        bench.append(log, 2)
    log.sync()
    assert [segment.base_offset for segment in log.segments()] == [0, 2, 4]
    check_one_file_each(bench, log, config, 6)


def test_a_new_leader_epoch_is_stored_without_a_record(bench):
    """OffsetForLeaderEpoch knows the epoch from its first moment; it is stored with the next sync."""
    log = bench.open()
    bench.append(log, 3, epoch=1)
    log.assign_leader_epoch(2)
    log.sync()
    assert log.leader_epochs.end_offset_for(1, 3) == (1, 3)
    assert b"2 3\n" in bench.files.read_bytes(f"{log.directory}/leader-epoch-checkpoint")


def test_a_leader_of_an_older_epoch_is_fenced(bench):
    """Its batches would stand behind those of its successor."""
    log = bench.open()
    bench.append(log, epoch=4)
    with pytest.raises(KafkaError) as caught:
        bench.append(log, epoch=3)
    assert caught.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert log.log_end_offset == 1


def test_idle_producers_are_forgotten_by_the_tick(bench):
    """producer.id.expiration.ms after their last batch."""
    log = bench.open(LogConfig(producer_id_expiration_ms=1000))
    bench.append(log, producer_id=7, producer_epoch=0, base_sequence=0)
    log.tick(bench.now_ms)
    assert 7 in log.producer_state.entries
    log.tick(bench.now_ms + 600_000)
    assert log.producer_state.entries == {}


def test_a_clock_that_is_set_back_delays_no_expiry(bench):
    """The next look is ten minutes away at most, whatever the date."""
    log = bench.open(LogConfig(producer_id_expiration_ms=1000))
    log.tick(bench.now_ms + 86_400_000)
    bench.append(log, producer_id=7, producer_epoch=0, base_sequence=0)
    log.tick(bench.now_ms + 5_000)
    assert log.producer_state.entries == {}


def test_a_retry_of_old_events_finds_its_first_attempt_after_a_roll_and_a_restart(bench):
    """Expiry goes by record time; loads of old events would otherwise lose their idempotence at once."""
    log = bench.open(LogConfig(producer_id_expiration_ms=1000))
    first = bench.append(log, producer_id=7, producer_epoch=0, base_sequence=0, timestamp_ms=1)
    log.roll()
    log.close()
    log = bench.open(LogConfig(producer_id_expiration_ms=1000))
    log.tick(bench.now_ms)
    again = bench.append(log, producer_id=7, producer_epoch=0, base_sequence=0, timestamp_ms=1)
    assert (again.base_offset, again.duplicate) == (first.base_offset, True)


class NoDescriptor(RealFilesystem):
    """A process that can open no file while it is ``short``."""

    short = False

    def open_read(self, path):
        if self.short:
            raise OSError(errno.EMFILE, "too many open files", path)
        return super().open_read(path)


@pytest.mark.parametrize("begun", ["new", "rolled", "above what was lost", "anew", "cut"])
@pytest.mark.parametrize("as_leader", [True, False])
def test_an_aborted_transaction_is_noted_without_a_look_at_the_disk(bench, begun, as_leader):
    """A look would fail where no descriptor is free, behind the marker: its entry was gone, its records seemed committed."""
    bench.files = files = NoDescriptor()
    log = bench.open()
    if begun != "new":
        bench.append(log, 2)
        log.roll()
    if begun == "above what was lost":
        log.abandon()
        log = bench.open(clean=False, recovery_point=1 << 32)
    elif begun == "anew":
        log.truncate_fully_and_start_at(40, (), None)
    elif begun == "cut":
        bench.append(log, 2)
        log.truncate_to(2)
    start = log.log_end_offset
    log.write_queued()
    options = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    if as_leader:
        bench.append(log, 3, base_sequence=0, **options)
        files.short = True
        origin = AppendOrigin.COORDINATOR
        log.append_as_leader(bench.marker(commit=False), leader_epoch=1, now_ms=bench.now_ms, origin=origin)
    else:
        leader = bench_of(bench)
        leader.append(leader_log := leader.open(log_start_offset=start), 3, base_sequence=0, **options)
        origin = AppendOrigin.COORDINATOR
        leader_log.append_as_leader(leader.marker(commit=False), leader_epoch=1, now_ms=0, origin=origin)
        leader_log.write_queued()
        found = leader.content(leader_log.read(start, max_bytes=1 << 20, max_offset=1 << 40))
        files.short = True
        log.append_as_follower(memoryview(bytearray(found)), leader_epoch=1, now_ms=bench.now_ms)
    files.short = False
    log.write_queued()
    expected = [AbortedTxn(7, start, start + 3, start + 4)]
    assert log.aborted_transactions(start, start + 4) == expected
    log.close()
    assert bench.open().aborted_transactions(start, start + 4) == expected


def bench_of(bench) -> LogBench:
    """The bench of another log."""
    return LogBench(f"{bench.directory}-of-the-leader")


def test_an_append_that_cannot_read_the_indexes_changes_nothing(bench):
    """They are read for the first one after a start; its buffer stays with the caller."""
    log = bench.open()
    bench.append(log, 2)
    log.close()
    bench.files = files = NoDescriptor()
    log = bench.open()
    released = []
    files.short = True
    with pytest.raises(OSError, match="too many open files"):
        log.append_as_leader(bench.batch(), leader_epoch=5, now_ms=bench.now_ms, release=lambda: released.append(1))
    files.short = False
    assert (log.log_end_offset, log.queued_bytes, log.leader_epochs.latest_epoch) == (2, 0, 1)
    assert bench.append(log).base_offset == 2
    log.write_queued()
    assert released == []
