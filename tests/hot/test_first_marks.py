"""Tests of hot/first_marks.py; tests/crash/test_follower_starts.py has a start after each crash."""

from stratalog.hot.config import LogConfig
from stratalog.hot.first_marks import begin_at_log_start, first_high_watermark, kept_high_watermark


def test_an_only_replica_has_committed_all_that_is_on_its_disk(log):
    """With others, the mark that was written down last counts."""
    name = log.topic_partition
    assert first_high_watermark(log, {}, 1) == first_high_watermark(log, {name: 7}, 1) == 30
    assert first_high_watermark(log, {name: 7}, 3) == 7


def test_a_first_mark_is_on_the_disk_and_not_below_the_log_start(log):
    """A checkpoint may be older than a deletion, or of a disk that had more."""
    name = log.topic_partition
    log.advance_log_start(12)
    assert [first_high_watermark(log, {name: mark}, 3) for mark in (5, 20, 99)] == [12, 20, 30]
    assert first_high_watermark(log, {}, 3) == 12


def test_a_first_mark_is_not_below_the_row_of_the_cleaner(log):
    """All below it was committed. A reader up to the mark lacked keys: older values were gone, and newer ones behind it."""
    name = log.topic_partition
    log.compaction.ask_how_far(lambda: 20)
    log.gaps.know_passed(22)
    assert [first_high_watermark(log, {name: mark}, 3) for mark in (5, 25)] == [20, 25]
    log.compaction.ask_how_far(lambda: 29)
    assert first_high_watermark(log, {name: 5}, 3) == 22, "a digit of the row has changed: no cleaner has been there"


def test_a_mark_of_before_a_cut_is_as_high_as_the_cut(log):
    """It was written down before, and what came behind is of another leader."""
    name = log.topic_partition
    log.truncate_to(14)
    assert [kept_high_watermark(log, {name: mark}) for mark in (11, 30)] == [11, 14]


def test_a_log_goes_on_at_its_start_only_if_it_ends_below(bench, log):
    """And has no archive, which has the say over its end."""
    begin_at_log_start(log)
    assert (log.log_start_offset, log.log_end_offset) == (0, 30)
    log.close()
    for is_tiered, end_offset in ((True, 30), (False, 40)):
        log = bench.open(LogConfig(remote_storage_enable=is_tiered), clean=False, log_start_offset=40)
        begin_at_log_start(log)
        assert (log.log_start_offset, log.log_end_offset) == (40, end_offset)
        log.close()
