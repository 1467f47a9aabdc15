"""Tests of hot/log/snapshots.py."""

from stratalog.hot.config import LogConfig
from stratalog.hot.state.producer_snapshot import snapshot_from_bytes
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.storage.filesystem import append_all


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


def test_the_snapshot_of_a_roll_is_taken_as_it_is(bench, monkeypatch):
    """An upload of each segment asks for it, on the event loop, and there may be 100,000 producers. A damaged one is made again."""
    log = bench.open()
    for sequence in range(4):
        bench.append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
        if sequence in {1, 3}:
            log.roll()
    path = f"{log.directory}/{2:020d}.snapshot"
    stored = bench.files.read_bytes(path)
    with monkeypatch.context() as patch:
        patch.setattr(ProducerStateManager, "load_bytes", None)
        patch.setattr(ProducerStateManager, "to_bytes", None)
        assert log.producer_snapshot_at(2) == stored
        assert log.producer_snapshot_at(4) == bench.files.read_bytes(f"{log.directory}/{4:020d}.snapshot")
    file = bench.files.open_append(path)
    file.truncate(0)
    append_all(file, [stored[:-1] + bytes([stored[-1] ^ 1])])
    assert log.producer_snapshot_at(2) == stored
