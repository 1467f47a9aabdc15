"""Tests of broker/replicas/leader.py: an append for which the log cannot read its own files."""

import errno

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition
from tests.broker.replicas.leader_rig import EPOCH, Bench


@pytest.fixture
def bench(tmp_path):
    path = str(tmp_path / "t-0")
    log = Log.open(path, TopicPartition("t", 0), b"i" * 16, LogConfig(), files=RealFilesystem(), now_ms=0, clean=True)
    log.append_as_leader(batch(b"old"), leader_epoch=1, now_ms=1_700_000_000_000)
    log.close()
    return Bench(path)


def batch(value: bytes) -> bytearray:
    return build_batch([Record(0, 1_700_000_000_000, b"k", value)])


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_an_append_that_cannot_read_the_indexes_is_refused_and_reported(bench, monkeypatch, code):
    """The first one after a start reads them. It leaves no trace, its buffer is given back once, and the next one is taken."""
    reported, real = [], RealFilesystem.read_bytes
    bench.disk.report = lambda error, owner: reported.append((error.errno, owner))

    def read_bytes(files, path):
        if path.endswith("index"):
            raise OSError(code, "not now", path)
        return real(files, path)

    with monkeypatch.context() as patch:
        patch.setattr(RealFilesystem, "read_bytes", read_bytes)
        bench.append("first", batch(b"first"))
    assert reported == [(code, bench.partition)]
    assert bench.ended["first"].code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "not now" in bench.ended["first"].message
    assert bench.released == ["first"]
    bench.append("second", batch(b"second"))
    bench.disk.write()
    assert bench.released == ["first", "second"]
    bench.disk.flush()
    assert bench.ended["second"].base_offset == 1


@pytest.mark.parametrize("is_late", [False, True])
def test_an_epoch_begins_where_the_log_ends_when_earlier_batches_found_no_room(tmp_path, is_late):
    """Else a follower with everything never joined, and where too few were in sync nothing could be appended to change that."""
    it = Bench(str(tmp_path), in_sync=(1, 2), min_insync_replicas=2)
    it.asking.allowed.add((2, 7))
    it.append("a", batch(b"a"))
    it.disk.write()
    it.disk.flush()
    it.append("b", batch(b"b"))
    it.append("c", batch(b"c"))
    it.lead(EPOCH + 1)
    full = OSError(errno.ENOSPC, "No space left on device")
    steps = [it.partition.log.discard_unwritten, lambda: it.partition.on_write_refused(full)]
    for step in reversed(steps) if is_late else steps:  # late: there was no room to put the files in order
        step()
    it.leader.in_sync_changed((1,), 1, (1, 2))
    it.partition.tick(it.now)
    it.leader.follower_fetched(2, 1, log_start_offset=0, broker_epoch=7)
    assert it.asking.asked == [(1, 2)]
    it.leader.in_sync_changed((1, 2), 2, (1, 2))
    assert not it.partition.is_behind
    it.append("d", batch(b"d"))
    it.disk.write()
    assert it.partition.log.leader_epochs.epoch_for(1) == EPOCH + 1


def test_an_epoch_whose_first_batch_found_no_room_is_known_all_the_same(tmp_path):
    """A former leader that wrote nothing in its own epoch hears where their histories part. It would ask for ever."""
    it = Bench(str(tmp_path), in_sync=(1, 2))
    it.append("a", batch(b"a"))
    it.disk.write()
    it.disk.flush()
    it.lead(EPOCH + 2)
    it.append("b", batch(b"b"))
    it.partition.log.discard_unwritten()
    it.partition.on_write_refused(OSError(errno.ENOSPC, "No space left on device"))
    it.partition.tick(it.now)
    log = it.partition.log
    assert log.leader_epochs.end_offset_for(EPOCH + 1, log.log_end_offset) == (EPOCH, 1)
