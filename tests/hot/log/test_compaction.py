"""Tests of hot/log/compaction.py."""

import pytest

from stratalog.hot.config import LONG_MAX, LogConfig
from stratalog.wire.batch import iter_headers, iter_records

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), file_delete_delay_ms=0)


@pytest.fixture
def log(bench):
    """Three frozen segments of ten equal keys each, and an active one."""
    log = bench.open(CONFIG)
    bench.fill(log, 3)
    log.sync()
    return log


def offsets(bench, log) -> list[int]:
    found = log.read(log.local_log_start_offset, max_bytes=1 << 20, max_offset=log.log_end_offset)
    data = bench.content(found)
    positions = []
    while sum(positions) < len(data):
        positions.append(int.from_bytes(data[sum(positions) + 8 : sum(positions) + 12], "big") + 12)
    starts = [sum(positions[:number]) for number in range(len(positions))]
    return [record.offset for start in starts for record in iter_records(data, start)]


def cleaned_group(compactor, log, bench):
    cleaning = compactor.cleaning(log, now_ms=bench.now_ms)
    cleaning.build_map()
    return cleaning.clean_group(0)


def test_only_frozen_written_segments_may_be_cleaned(bench, log):
    """The active one never; one that is still being written not yet."""
    assert [(one.base_offset, one.end_offset) for one in log.compaction.cleanable_segments()] == [
        (0, 10),
        (10, 20),
        (20, 30),
    ]
    bench.append(log)
    log.tail.begin_segment(log.log_end_offset)
    assert len(log.compaction.cleanable_segments()) == 3
    log.write_queued()
    assert len(log.compaction.cleanable_segments()) == 4


def test_the_time_of_the_first_batch_is_read_where_it_is_asked_for(bench, log):
    """Only with ``max.compaction.lag.ms``."""
    assert {one.first_timestamp_ms for one in log.compaction.cleanable_segments()} == {-1}
    log.update_config(LogConfig(cleanup_policy=frozenset({"compact"}), max_compaction_lag_ms=1))
    again = bench.open(log.config)
    assert [one.first_timestamp_ms for one in again.compaction.cleanable_segments()] == [bench.now_ms + 1] * 3


def test_readers_have_the_old_segments_or_the_new_one(bench, log, compactor, carry_out_steps):
    """At every step of the swap, and a slice that was given out before stays readable."""
    before = log.read(0, max_bytes=1 << 20, max_offset=30)
    content = bench.content(before)
    swap = log.compaction.begin_replace(cleaned_group(compactor, log, bench))
    assert offsets(bench, log) == list(range(30))
    carry_out_steps(swap, swap.stage())
    assert offsets(bench, log) == list(range(30))
    assert log.compaction.put_in(swap)
    assert offsets(bench, log) == [29]
    carry_out_steps(swap, swap.retire())
    assert offsets(bench, log) == [29]
    list(log.compaction.retire(swap))
    assert offsets(bench, log) == [29]
    assert [part.file.path.endswith(".log") for part in log.read(0, max_bytes=1, max_offset=30).parts] == [True]
    assert bench.content(before) == content


def test_a_fetch_at_a_removed_offset_gives_the_next(bench, log, compactor):
    """And one by time the first record that is left at or after it."""
    compactor.clean(log, now_ms=bench.now_ms)
    for offset in (2, 9, 10, 28):  # at 0 an epoch begins: its header stays
        found = log.read(offset, max_bytes=1, max_offset=30)
        assert [record.offset for record in iter_records(bench.content(found))] == [29]
        assert found.next_offset == 30
    assert bench.offset_for_timestamp(log, bench.now_ms, max_offset=30).offset == 29
    assert bench.max_timestamp(log).offset == 29


def test_a_copy_of_a_cleaned_log_knows_where_each_leader_epoch_began(bench_type, tmp_path, compactor):
    """The header of the first batch stays: a replica that copies it learns the epoch. So does that of the oldest epoch.

    Before it there may be a fork of an epoch that has left nothing here. Only epoch 0 has none before it.
    """
    theirs = bench_type(str(tmp_path / "leader"))
    log = theirs.open(CONFIG)
    for epoch in (1, 2, 4):
        log.assign_leader_epoch(epoch)
        theirs.append(log, 5, epoch=epoch)
        theirs.append(log, 5, epoch=epoch)
        log.tail.begin_segment(log.log_end_offset)
    log.write_queued()
    log.sync()
    compactor.clean(log, now_ms=theirs.now_ms)
    compactor.clean(log, now_ms=theirs.now_ms)
    found = log.read(0, max_bytes=1 << 20, max_offset=30)
    ours = bench_type(str(tmp_path / "copy"))
    copy = ours.open(CONFIG)
    copy.append_as_follower(memoryview(theirs.content(found)), leader_epoch=4, now_ms=ours.now_ms)
    assert [entry.start_offset for entry in log.leader_epochs.entries] == [0, 10, 20]
    assert copy.leader_epochs.entries == log.leader_epochs.entries
    assert offsets(theirs, log) == [29]


def test_a_copy_of_a_cleaned_log_begins_its_oldest_epoch_no_later_than_the_log(bench, compactor):
    """The log start may lie within a batch, which stays as a header then."""
    log = bench.open(CONFIG)
    log.assign_leader_epoch(1)
    for _ in range(3):
        bench.append(log, 5, epoch=1)
        bench.append(log, 5, epoch=1)
        log.tail.begin_segment(log.log_end_offset)
    log.write_queued()
    log.sync()
    log.start.advance(7)
    compactor.clean(log, now_ms=bench.now_ms)
    compactor.clean(log, now_ms=bench.now_ms)
    assert log.leader_epochs.entries == ((1, 7),)
    found = log.read(7, max_bytes=1 << 20, max_offset=30)
    assert next(iter_headers(bench.content(found)))[1].base_offset == 5


def test_segments_that_have_gone_meanwhile_are_not_replaced(bench, log, compactor):
    """Retention was faster than the cleaning."""
    cleaned = cleaned_group(compactor, log, bench)
    log.delete_local_before(10)
    assert log.compaction.begin_replace(cleaned) is None
    log.close()
    again = bench.open(CONFIG)
    assert offsets(bench, again) == list(range(10, 30))


def test_a_swap_that_is_withdrawn_leaves_no_files(bench, log, compactor, carry_out_steps):
    """The log was cut while it was being staged, and the cut ended it, or the cleaner itself."""
    swap = log.compaction.begin_replace(cleaned_group(compactor, log, bench))
    carry_out_steps(swap, swap.stage())
    log.truncate_to(20)
    assert not log.compaction.is_pending(swap)
    assert not log.compaction.put_in(swap)
    assert not [entry for entry in bench.files.scan(bench.directory) if entry.name.endswith((".swap", ".cleaned"))]


def test_a_cleaned_log_is_opened_as_it_was(bench, log, compactor):
    """After a clean stop and after a kill, with the producers that its snapshots hold."""
    compactor.clean(log, now_ms=bench.now_ms)
    bench.append(log, producer_id=5, producer_epoch=0, base_sequence=0)
    log.sync()
    for clean, point in ((False, 30), (False, 0), (True, 31)):
        again = bench.open(CONFIG, clean=clean, recovery_point=point)
        assert offsets(bench, again) == [29, 30]
        assert again.producer_state.entries[5].last_sequence == 0
        assert again.recovery.damaged_offset is None
        again.close()


def test_a_cleaned_log_may_have_gaps_whatever_its_settings(bench, log, compactor):
    """The archive must know of them, whatever the topic's settings say later."""
    log.update_config(LogConfig())
    assert not log.may_have_gaps
    assert bench.open(may_have_gaps=True).may_have_gaps
    compactor.clean(log, now_ms=bench.now_ms)
    assert log.may_have_gaps


def test_a_clean_job_holds_the_segments_of_its_section(bench, log, compactor):
    """And nothing of segments behind the section."""
    section = compactor.section(log, now_ms=bench.now_ms, limit_offset=25)
    job = log.compaction.clean_job(section, now_ms=5, map_bytes=1000, map_load_factor=0.9)
    assert [one.base_offset for one in job.segments] == [0, 10]
    assert (job.first_dirty_offset, job.end_offset, job.now_ms, job.forgettable_below) == (0, 20, 5, LONG_MAX)
