"""Whether a copy may go on where its leader lacks tombstones that the copy may never have had."""

import pytest

from stratalog.hot.forgotten_records import goes_on, set_log_aside
from tests.broker.replicas.test_follower import batch, bench  # noqa: F401 - a fixture


@pytest.fixture
def log(bench):  # noqa: F811
    """A copy that ends at offset 4."""
    log = bench.partition.log
    log.append_as_follower(memoryview(batch(0, 4)), leader_epoch=5, now_ms=1)
    log.sync()
    return log


@pytest.mark.parametrize("told", [0, 3, 4])
def test_a_copy_that_ends_behind_goes_on(log, told):
    """It has had all that its leader has forgotten: it was away, or lags, or has lost what no one had deleted."""
    assert goes_on(log, told)
    assert log.forgotten.below == 0


@pytest.mark.parametrize("own", [0, 3])
def test_a_copy_that_ends_before_what_its_leader_has_forgotten_does_not(log, own):
    """Its own cleaner had come less far."""
    log.forgotten.dropped(own)
    assert not goes_on(log, 5)
    assert log.forgotten.below == own


@pytest.mark.parametrize(("told", "own"), [(9, 9), (7, 7), (3, 4), (0, 4)])
def test_a_copy_that_was_cleaned_so_far_goes_on_under_what_both_have(log, told, own):
    """It lost its end, or was begun under another leader: what follows is as clean as the leader of now says."""
    log.forgotten.dropped(9)
    assert goes_on(log, told)
    assert log.forgotten.below == own


@pytest.mark.parametrize(("own", "told"), [(0, 9), (5, 9), (9, 9), (20, 9), (20, 4), (3, 0)])
def test_an_empty_copy_takes_what_its_leader_has(log, own, told):
    """Its own of before is of records that have left."""
    log.truncate_fully_and_start_at(4, (), None)
    log.forgotten.dropped(own)
    assert goes_on(log, told)
    assert log.forgotten.below == max(told, min(own, 4))


def test_a_copy_that_begins_behind_its_archive_is_empty(log):
    """To begin again would change nothing. The archive has no record that its leader's tombstones had ended."""
    log.truncate_fully_and_start_at(4, (), None, log_start_offset=0)
    assert goes_on(log, 9)
    assert log.forgotten.below == 9


def test_a_copy_whose_records_are_all_deleted_is_empty(log):
    """Its files may be there still."""
    log.advance_log_start(4)
    assert goes_on(log, 9)
    assert log.forgotten.below == 9


def test_a_copy_that_comes_and_goes_between_leaders_begins_again(log):
    """One that has forgotten less gives it records that the first one had dropped, and the first leads again."""
    log.truncate_fully_and_start_at(0, (), None)
    assert goes_on(log, 9)
    log.append_as_follower(memoryview(batch(0, 3)), leader_epoch=5, now_ms=1)
    assert goes_on(log, 0)
    log.append_as_follower(memoryview(batch(3, 2)), leader_epoch=5, now_ms=1)
    assert not goes_on(log, 9)


def test_a_log_is_set_aside_with_a_line_that_says_all(log, tmp_path, caplog):
    """The partition, both offsets, the leader, the reason and the place."""
    set_log_aside(log, 7, 9, now_ms=1)
    assert (log.first_base_offset, log.log_end_offset) == (0, 0)
    (kept,) = tmp_path.glob("*-stray")
    (line,) = [one.getMessage() for one in caplog.records]
    for words in ("t-0 is copied again", str(kept), "ended at offset 4", "broker 7", "below offset 9", "put back"):
        assert words in line
