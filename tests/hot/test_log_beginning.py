"""Where the copy of a log begins, if that offset lies within a batch."""

import pytest

from stratalog.hot.log_beginning import begin_within
from tests.broker.replicas.leader_rig import Bench
from tests.broker.replicas.test_follower import batch


@pytest.fixture
def log(tmp_path):
    """An empty log that begins at offset 8."""
    log = Bench(str(tmp_path / "t-0")).partition.log
    log.truncate_fully_and_start_at(8, (), None)
    return log


@pytest.mark.parametrize(
    ("records", "leader_epoch", "end"),
    [
        pytest.param(batch(5, 6), 5, 5, id="it holds the log start"),
        pytest.param(batch(8, 6), 5, 8, id="it begins there"),
        pytest.param(batch(5, 3), 5, 8, id="all of it is deleted"),
        pytest.param(batch(5, 6), 4, 8, id="of a later epoch than the leader's"),
        pytest.param(batch(5, 6)[:-1] + b"?", 5, 8, id="damaged"),
    ],
)
def test_an_empty_log_begins_with_the_batch_that_holds_its_start(log, records, leader_epoch, end):
    """And with no other: the append says what is wrong with those."""
    begin_within(log, memoryview(records), leader_epoch)
    assert (log.log_start_offset, log.log_end_offset) == (8, end)


def test_a_log_that_has_records_begins_where_it_does(log):
    """A later batch that reaches back is refused."""
    log.append_as_follower(memoryview(batch(8, 2)), leader_epoch=5, now_ms=1)
    begin_within(log, memoryview(batch(5, 6)), 5)
    assert (log.first_base_offset, log.log_end_offset) == (8, 10)
