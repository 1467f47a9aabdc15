"""Tests of broker/workers/cleaner_worker.py."""

import sys

import pytest

from stratalog.broker.workers import cleaner_worker
from stratalog.broker.workers.cleaner_worker import BeginCleaning, CleanerSessions, CleanGroup, EndCleaning, SessionLost
from stratalog.broker.workers.cpu_worker import cpu_worker
from stratalog.hot.cleaner.cleaner import CleanJob
from stratalog.hot.cleaner.plan import CleanableSegment
from stratalog.hot.config import LONG_MAX
from stratalog.hot.state.producer_snapshot import snapshot_to_bytes
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch

FREE = sys.float_info.max


@pytest.fixture
def job(tmp_path) -> CleanJob:
    """One segment: two batches with the same key."""
    data = b"".join(build_batch([Record(offset, 1, b"k", b"v" * 500)]) for offset in range(2))
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    return CleanJob(
        directory=str(tmp_path),
        generation=0,
        segments=(CleanableSegment(0, 2, len(data), 1, -1),),
        first_dirty_offset=0,
        end_offset=2,
        aborted=(),
        producers=snapshot_to_bytes([]),
        now_ms=1,
        delete_retention_ms=1,
        forgettable_below=LONG_MAX,
        segment_bytes=1 << 20,
        segment_index_bytes=1 << 20,
        index_interval_bytes=4096,
        map_bytes=1000,
        map_load_factor=0.9,
    )


def test_a_cleaning_is_carried_out_command_by_command(job):
    """As the cpu worker gets them; the map is kept between them, and not longer."""
    worker = cpu_worker()
    built = worker.execute(BeginCleaning(1, job, FREE))
    assert (built.end_offset, built.key_count, built.groups) == (2, 1, ((0,),))
    cleaned = worker.execute(CleanGroup(1, 0, FREE))
    assert (cleaned.base_offset, cleaned.end_offset, cleaned.changed) == (0, 2, True)
    assert cleaned.counts.records_kept == 1
    worker.execute(EndCleaning(1))
    with pytest.raises(SessionLost):
        worker.execute(CleanGroup(1, 0, FREE))


def test_a_forgotten_cleaning_is_reported_as_such(job):
    """The worker died and was started anew."""
    sessions = CleanerSessions()
    with pytest.raises(SessionLost, match="cleaning 7"):
        sessions.execute(CleanGroup(7, 0, FREE))
    sessions.execute(EndCleaning(7))
    assert sessions.count == 0


def test_reading_and_writing_obey_the_rate(job, monkeypatch):
    """``log.cleaner.io.max.bytes.per.second``; without it the limiter is not asked."""
    spent: list[int] = []
    monkeypatch.setattr(cleaner_worker.TokenBucket, "take", lambda _, size_bytes: spent.append(size_bytes))
    sessions = CleanerSessions(RealFilesystem())
    sessions.execute(BeginCleaning(1, job, FREE))
    assert spent == []
    sessions.execute(CleanGroup(1, 0, 1000.0))
    size_bytes = job.segments[0].size_bytes
    assert sum(spent) == size_bytes + size_bytes // 2
