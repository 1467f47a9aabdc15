"""Tests of hot/log/snapshots.py."""

from stratalog.hot.config import LogConfig
from stratalog.hot.state.producer_snapshot import snapshot_from_bytes


def test_a_roll_leaves_a_snapshot_of_the_producers_at_that_point(bench):
    """Also when later batches are queued before anything is written."""
    size = len(bench.batch(1))
    log = bench.open(LogConfig(segment_bytes=2 * size))
    for sequence in range(3):
        bench.append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.write_queued()
    entries = snapshot_from_bytes(bench.files.read_bytes(f"{log.directory}/{2:020d}.snapshot"))
    assert [entry.last_sequence for entry in entries] == [1]


def test_a_producer_snapshot_at_any_batch_border_has_the_state_there(bench):
    """For the end of an archived range: the last snapshot and the log behind it."""
    log = bench.open()
    for sequence in range(6):
        bench.append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
        if sequence % 2:
            log.roll()
    for offset in range(1, 7):
        (entry,) = snapshot_from_bytes(log.producer_snapshot_at(offset))
        assert entry.last_sequence == offset - 1
    assert snapshot_from_bytes(log.producer_snapshot_at(0)) == []
