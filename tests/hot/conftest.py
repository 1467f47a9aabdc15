"""Builders for the tests of the hot log."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator

import pytest

from stratalog.hot.cleaner.cleaner import CleanedSegment, Cleaning
from stratalog.hot.cleaner.plan import Section, cleanable_section
from stratalog.hot.config import LONG_MAX, LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.segments.batch_search import BatchSearch, TimestampOffset
from stratalog.hot.segments.log_summary import LogSummary
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import BatchHeader, Record, build_batch, build_control_batch, iter_headers
from stratalog.wire.topic import TopicPartition

NOW_MS = 1_700_000_000_000


class FullDisk(RealFilesystem):
    """A disk that takes ``room`` more bytes: a short write, then ENOSPC; and ``names``, or none."""

    room = 1 << 30
    names = True

    def open_append(self, path):
        if not self.names and not os.path.exists(path):  # noqa: PTH110 - paths are texts here
            raise OSError(errno.ENOSPC, "no space left")
        file = super().open_append(path)
        files = self
        plain = type(file)

        class Limited(plain):
            def writev(self, buffers):
                data = b"".join(buffers)[: files.room]
                if not data:
                    raise OSError(errno.ENOSPC, "no space left")
                files.room -= len(data)
                return super().writev([data])

        limited = Limited(os.dup(file.fileno()), path)
        file.close()
        return limited


class LogBench:
    """One partition directory, opened and closed as a test likes."""

    def __init__(self, directory: str) -> None:
        self._place, self._directories = directory, 0
        self.directory = f"{directory}/flights-0"
        self.files = RealFilesystem()
        self.partition = TopicPartition("flights", 0)
        self.topic_id = bytes(range(16))
        self.now_ms = NOW_MS
        self.cache = SegmentCache()

    def begin_anew(self) -> None:
        """With an empty directory, as often as random examples want."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self._directories += 1
        self.directory = f"{self._place}/{self._directories}/flights-0"

    def open(self, config: LogConfig | None = None, *, clean: bool = True, **options) -> Log:
        return Log.open(
            self.directory, self.partition, self.topic_id, config or LogConfig(),
            files=self.files, now_ms=self.now_ms, clean=clean, cache=self.cache, **options,
        )  # fmt: skip

    def batch(self, count: int = 1, *, timestamp_ms: int | None = None, value: bytes = b"v" * 100, **options):
        start = self.now_ms if timestamp_ms is None else timestamp_ms
        return memoryview(build_batch([Record(i, start + i, b"k", value) for i in range(count)], **options))

    def append(self, log: Log, count: int = 1, *, epoch: int = 1, **options):
        return log.append_as_leader(self.batch(count, **options), leader_epoch=epoch, now_ms=self.now_ms)

    def marker(self, *, commit: bool, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 1):
        value = b"\0\0" + coordinator_epoch.to_bytes(4, "big")
        return memoryview(
            build_control_batch(
                int(commit), value, offset=0, timestamp_ms=self.now_ms, leader_epoch=0,
                producer_id=producer_id, producer_epoch=epoch, transactional=True,
            )
        )  # fmt: skip

    def write_aborted(self, log: Log, count: int, *, before: int = 0) -> list[AbortedTxn]:
        """Transactions of two records each, all aborted, behind ``before`` others; their entries, as a reader finds them."""
        for sequence in range(2 * before, 2 * (before + count), 2):
            self.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
            marker, origin = self.marker(commit=False), AppendOrigin.COORDINATOR
            log.append_as_leader(marker, leader_epoch=1, now_ms=self.now_ms, origin=origin)
        log.write_queued()
        return [AbortedTxn(7, first, first + 2, first + 3) for first in range(3 * before, 3 * (before + count), 3)]

    def fill(self, log: Log, segments: int, *, per_segment: int = 5) -> None:
        """Append until ``segments`` frozen segments stand before the active one."""
        while len(log.segments()) <= segments:
            for _ in range(per_segment):
                self.append(log, 2)
            log.roll()

    def write_mixed(self, log: Log, count: int, *, epoch: int = 1, seed: int = 0) -> None:
        """Batches of plain records, of a producer, of transactions that are committed and aborted."""
        dice = random.Random(seed)
        state = log.producer_state.entries.get(7)
        sequence = 0 if state is None else state.last_sequence + 1
        is_open = state is not None and state.transaction_first_offset >= 0
        for _ in range(count):
            kind = dice.random()
            if kind < 0.5:
                self.append(log, dice.randrange(1, 4), epoch=epoch)
            elif kind < 0.8 or not is_open:
                options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
                self.append(log, 2, epoch=epoch, **options)
                sequence, is_open = sequence + 2, True
            else:
                marker = self.marker(commit=dice.random() < 0.3)
                origin = AppendOrigin.COORDINATOR
                log.append_as_leader(marker, leader_epoch=epoch, now_ms=self.now_ms, origin=origin)
                is_open = False
            self.now_ms += dice.randrange(-2, 9)
        log.write_queued()

    @staticmethod
    def stop(log: Log) -> LogSummary | None:
        """Close a log in order; what is noted of it."""
        ticket = log.begin_close()
        if ticket is not None:
            ticket.run()
            log.finish_sync(ticket)
        summary = log.summary()
        log.abandon()
        return summary

    def names(self) -> list[str]:
        """Every name in the partition's directory."""
        return sorted(entry.name for entry in self.files.scan(self.directory))

    @staticmethod
    def offset_for_timestamp(log: Log, timestamp_ms: int, *, max_offset: int) -> TimestampOffset | None:
        """The first local record at or after ``timestamp_ms`` below ``max_offset``, as the broker finds it."""
        from_offset = log.local_log_start_offset
        while (step := log.timestamp_search(timestamp_ms, from_offset, max_offset=max_offset)) is not None:
            found = step.find() if isinstance(step, BatchSearch) else None
            if found is not None:
                return found
            from_offset = step.next_offset
        return None

    @staticmethod
    def max_timestamp(log: Log) -> TimestampOffset | None:
        """The first local record with the largest timestamp, as the broker finds it."""
        step = log.max_timestamp_search()
        return step.find() if isinstance(step, BatchSearch) else step

    @staticmethod
    def content(found) -> bytes:
        return b"".join(part.file.pread(part.length, part.position) for part in found.parts)

    def headers(self, log: Log, offset: int = 0, **options) -> list[BatchHeader]:
        """Every batch from ``offset`` on, read as a consumer does."""
        headers: list[BatchHeader] = []
        offset = max(offset, log.local_log_start_offset)
        while offset < log.written_offset:
            found = log.read(offset, max_bytes=4096, max_offset=log.written_offset, **options)
            headers += [header for _, header in iter_headers(self.content(found))]
            assert found.next_offset > offset
            offset = found.next_offset
        return headers


@pytest.fixture
def bench(tmp_path) -> LogBench:
    return LogBench(str(tmp_path))


@pytest.fixture
def log(bench):
    """Segments [0,10) [10,20) [20,30) and an empty active one."""
    log = bench.open()
    bench.fill(log, 3)
    log.sync()
    return log


@pytest.fixture
def full_disk() -> FullDisk:
    """The port to a disk that may be filled."""
    return FullDisk()


@pytest.fixture
def make_batch() -> Callable[..., bytearray]:
    """Builds a batch at a given base offset."""

    def make(base: int = 0, count: int = 1, timestamp_ms: int = NOW_MS, **options) -> bytearray:
        return build_batch([Record(base + i, timestamp_ms + i, b"k", b"value") for i in range(count)], **options)

    return make


@pytest.fixture
def make_segment(files, tmp_path):
    """Makes segments of batches, written and stored."""

    def build(base, batches, *, config=None, cache=None):
        segment = Segment(
            files,
            str(tmp_path),
            base,
            config or LogConfig(index_interval_bytes=100),
            SegmentCache() if cache is None else cache,
        )
        for offset, batch in batches:
            segment.queue(batch, offset, 1000 + offset, 5)
        if batches:
            segment.write_pending()
        segment.store_indexes(final=True)
        return segment

    return build


@pytest.fixture
def files() -> Iterator[RealFilesystem]:
    return RealFilesystem()


def carry_out(swap, steps) -> None:
    """A swap's steps, with the syncs between them."""
    for _ in steps:
        swap.sync()


class Compactor:
    """The cleaner's part of a broker, on the test's own thread."""

    def __init__(self, files) -> None:
        self.files = files
        self.cleaned_offset: int | None = None
        self.map_bytes = 1 << 20
        self.forgettable_below = LONG_MAX
        self.paced: list[int] = []

    def section(self, log: Log, *, now_ms: int, limit_offset: int | None = None) -> Section | None:
        """The segments that may be cleaned."""
        stable = log.first_unstable_offset
        limit = log.written_offset if stable is None else stable
        return cleanable_section(
            log.compaction.cleanable_segments(), log.compaction.policy, cleaned_offset=self.cleaned_offset,
            log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset,
            limit_offset=limit if limit_offset is None else limit_offset, now_ms=now_ms,
        )  # fmt: skip

    def cleaning(self, log: Log, *, now_ms: int, **limits) -> Cleaning | None:
        """A cleaning of that section, due or not."""
        section = self.section(log, now_ms=now_ms, **limits)
        if section is None:
            return None
        job = log.compaction.clean_job(
            section, now_ms=now_ms, forgettable_below=self.forgettable_below, map_bytes=self.map_bytes,
            map_load_factor=1.0,
        )  # fmt: skip
        return Cleaning(job, self.files, self.paced.append)

    def swap(self, log: Log, cleaned: CleanedSegment) -> None:
        """Put a new segment in."""
        swap = log.compaction.begin_replace(cleaned)
        assert swap is not None
        carry_out(swap, swap.stage())
        assert log.compaction.put_in(swap)
        carry_out(swap, swap.retire())
        list(log.compaction.retire(swap))

    def clean(self, log: Log, *, now_ms: int, between: Callable[[], object] = bool, **limits) -> list[CleanedSegment]:
        """All of it; ``between`` is called before and after each swap."""
        cleaning = self.cleaning(log, now_ms=now_ms, **limits)
        if cleaning is None:
            return []
        built = cleaning.build_map()
        done = []
        for number in range(len(built.groups)):
            done.append(cleaning.clean_group(number))
            between()
            if done[-1].changed:
                self.swap(log, done[-1])
            between()
        self.cleaned_offset = built.end_offset
        return done


@pytest.fixture
def compactor(files) -> Compactor:
    return Compactor(files)


@pytest.fixture(scope="session")
def compactor_type() -> type[Compactor]:
    return Compactor


@pytest.fixture(scope="session")
def bench_type() -> type[LogBench]:
    return LogBench


@pytest.fixture(scope="session")
def carry_out_steps() -> Callable[..., None]:
    return carry_out
