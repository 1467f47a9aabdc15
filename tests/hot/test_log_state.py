"""Tests of hot/log_state.py."""

from stratalog.hot.config import LogConfig


def test_new_settings_hold_from_the_next_append_on(bench):
    """Also for the segment that is active now."""
    log = bench.open()
    bench.append(log)
    log.update_config(LogConfig(segment_bytes=len(bench.batch()) + 1))
    assert bench.append(log).rolled


def test_a_flush_is_due_by_what_is_written_and_not_synced_or_after_a_roll(bench):
    """flush.messages counts offsets; the segment before the active one is to be durable soon."""
    log = bench.open(LogConfig(flush_messages=3))
    for due in (False, False, True):
        bench.append(log)
        log.write_queued()
        assert log.flush_due is due
    log.sync()
    assert not log.flush_due
    bench.append(log)
    log.roll()
    assert log.flush_due
    log.sync()
    assert not log.flush_due


def test_the_first_unstable_offset_is_never_below_the_log_start(bench):
    """DeleteRecords may pass an open transaction."""
    log = bench.open()
    bench.append(log, 5, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.write_queued()
    log.advance_log_start(3)
    assert log.first_unstable_offset == 3


def test_sizes_count_what_is_queued(bench):
    """As the retention of a growing log needs them."""
    log = bench.open()
    bench.append(log)
    bench.append(log)
    assert log.size_bytes == 2 * len(bench.batch())
    (segment,) = log.segments()
    assert (segment.base_offset, segment.end_offset, segment.active) == (0, 2, True)
