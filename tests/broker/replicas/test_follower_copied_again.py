"""A copy that was begun again because it lacked records, and a crash before the next checkpoint."""

import pytest

from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.filesystem import RealFilesystem
from tests.broker.replicas.test_follower import LEADER, batch, bench, data, following, heard  # noqa: F401 - fixtures
from tests.broker.replicas.test_follower_cleaned import NAME, copy, directory, stray  # noqa: F401 - a fixture

UNCLEAN = 6
"""The epoch whose leader lacks what was committed from offset 10 on."""


@pytest.fixture
def begun_again(bench, heard, directory):  # noqa: F811
    """A role in that epoch whose log was kept aside; ``log-bounds`` has the row of before."""
    log = copy(bench, heard, batch(0, 2, epoch=4), batch(8, 2, epoch=4), high_watermark=100)
    directory.write_bounds({NAME: log})
    role = bench.partition.follow(LEADER, UNCLEAN)
    assert role.is_overtaken
    role.move_into(0, 10)
    return role


def reopened(log, path):
    """The log as the next start finds it."""
    log.abandon()
    again = LogDirectory.load(str(path), RealFilesystem())
    return again.open_log(NAME, log.topic_id, log.config, now_ms=1, others_have_it=True)


def test_a_copy_that_was_begun_again_is_not_kept_aside_once_more(bench, heard, begun_again, directory, tmp_path):  # noqa: F811
    """Its row was that of the copy before for a minute: a kill had all of it copied again."""
    log = bench.partition.log
    heard.told.clear()
    begun_again.settle(heard)
    assert heard.told == [], "it asks for nothing before its row is replaced"
    directory.write_bounds({NAME: log})
    begun_again.on_flushed()
    assert heard.told == [("taken", 0, -1, 0)]
    begun_again.take(data(batch(0, 10, epoch=4), batch(10, 5, epoch=UNCLEAN), high_watermark=15), heard)
    bench.disk.write()
    bench.disk.flush()
    assert len(stray(tmp_path)) == 1
    again = reopened(log, tmp_path)
    assert (again.log_end_offset, again.gaps.passed_below) == (15, 0)


def test_a_crash_before_its_row_is_replaced_leaves_a_copy_that_lacks_nothing(bench, begun_again, tmp_path):  # noqa: F811
    """It has no records yet."""
    bench.partition.log = log = reopened(bench.partition.log, tmp_path)
    assert (log.log_end_offset, log.gaps.passed_below) == (0, 100)
    bench.partition.follow(LEADER, UNCLEAN)
    assert (log.gaps.passed_below, log.gaps.is_in_row) == (0, False)
    assert log.gaps.first_of_another(memoryview(batch(0, 5, epoch=UNCLEAN)), 0, UNCLEAN) is None


def test_the_row_that_allows_the_first_gap_has_the_epoch_of_the_cleaner(bench, heard, directory, tmp_path):  # noqa: F811
    """It came with the next checkpoint: after a kill within a minute the records of an unclean leader were taken for the rest of the copy."""
    role, log = bench.partition.follow(LEADER, 5), bench.partition.log
    answer = batch(0, 2, epoch=4), batch(8, 2, epoch=4)
    role.take(data(*answer, high_watermark=100), heard)
    bench.disk.write()
    bench.disk.flush()
    assert bench.disk.waits_for_bounds
    bench.disk.keep_bounds()
    directory.write_bounds({NAME: log})
    role.take(data(answer[1], high_watermark=100), heard)
    bench.disk.write()
    bench.disk.flush()
    assert (heard.told[-1][:2], log.gaps.is_in_row) == (("taken", 10), True)
    again = reopened(log, tmp_path)
    assert (again.log_end_offset, again.gaps.passed_below, again.gaps.passed_epoch) == (10, 100, 5)
