"""Log compaction: what one core cleans a second, with a map that overflows, and what producers feel of it."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from bench.cell import Cell, Line
from bench.load import Load, LoadResult
from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import BrokerServer
from bench.settings import Settings
from stratalog.broker.runtime.allocator import tune_allocator
from stratalog.broker.workers.cleaner_files import CleanerFilesystem
from stratalog.hot.cleaner.cleaner import CleanedSegment, Cleaning, CleanJob
from stratalog.hot.cleaner.offset_map import SLOT_BYTES
from stratalog.hot.cleaner.plan import CleanableSegment
from stratalog.hot.config import LONG_MAX
from stratalog.hot.segments.segment_indexes import SegmentIndexes
from stratalog.hot.state.producer_snapshot import snapshot_to_bytes
from stratalog.wire.batch import BATCH_HEADER, CRC_START, HEADER_BYTES, LOG_OVERHEAD_BYTES
from stratalog.wire.compression import Codec, compress

__all__ = ["CELLS"]

VOLUME_BYTES: Final = 2 << 30
SMALL_VOLUME_BYTES: Final = 128 << 20
SEGMENT_BYTES: Final = 128 << 20
BATCH_BYTES: Final = 64 << 10
LOAD_FACTOR: Final = 0.9
MAP_SHARE: Final = 0.75
"""The map has room for this part of the keys."""
PARTITION_COUNT: Final = 32
"""Partitions that are compacted while producers write: hard links to the same files, so that it lasts."""
NOW_MS: Final = 1_700_000_000_000
P99_FACTOR: Final = 1.6

LOAD = Load(
    "produce", 16 << 10, connections=6, depth=64, partitions=6, acks=-1, warm_seconds=2,
    requests_per_second=50e6 / (16 << 10),
)  # fmt: skip

_LARGE = Line(
    "compaction-1KiB",
    "MB/s of records on one core: zstd, half of the keys repeated, the map overflows",
    Bound(">=", 50),
)
_SMALL = Line("compaction-100B", "the same with records of 100 bytes, to be known", Bound(">=", 0))
_P99 = Line("compaction-ack-p99", f"ms that ack p99 is above {P99_FACTOR} x that without compaction", Bound("<=", 2.0))


class Written(NamedTuple):
    """The log that `write_log` has written."""

    segments: list[CleanableSegment]
    end_offset: int
    key_count: int
    record_bytes: int
    log_bytes: int


def _varint(value: int) -> bytes:
    zigzag, out = value << 1, bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _batches(volume_bytes: int, record_bytes: int) -> Iterator[tuple[bytearray, int, int, int]]:
    """``(batch, records, uncompressed bytes, keys so far)``: every other record has a key that was there before.

    Values are hexadecimal digits of random bytes: zstd takes them to a half.
    """
    dice = random.Random(7)
    pool = os.urandom(2 << 20).hex().encode()
    keys = offset = written = 0
    count = BATCH_BYTES // record_bytes
    while written < volume_bytes:
        records = []
        for delta in range(count):
            number = dice.randrange(keys) if keys and dice.random() < 0.5 else keys
            keys = max(keys, number + 1)
            at = dice.randrange(len(pool) - record_bytes)
            key = b"user-%012d" % number
            head = b"\0\0" + _varint(delta) + _varint(len(key)) + key + _varint(record_bytes)
            body = head + pool[at : at + record_bytes] + b"\0"
            records.append(_varint(len(body)) + body)
        payload = b"".join(records)
        batch = bytearray(HEADER_BYTES) + compress(Codec.ZSTD, payload)
        fields = [offset, len(batch) - LOG_OVERHEAD_BYTES, 0, 2, 0, Codec.ZSTD, count - 1, NOW_MS, NOW_MS, -1, -1, -1]
        BATCH_HEADER.pack_into(batch, 0, *fields, count)
        fields[4] = crc32c(memoryview(batch)[CRC_START:])
        BATCH_HEADER.pack_into(batch, 0, *fields, count)
        offset += count
        written += len(payload)
        yield batch, count, len(payload), keys


class _SegmentFiles:
    """One segment being written, with its indexes."""

    def __init__(self, folder: Path, base_offset: int) -> None:
        self.path = folder / f"{base_offset:020d}.log"
        self.base_offset = base_offset
        self.size_bytes = 0
        self.indexes = SegmentIndexes.empty(base_offset, 4096)
        self._log = self.path.open("wb")

    def add(self, batch: bytearray, last_offset: int) -> None:
        self.indexes.add_batch(self.size_bytes, len(batch), last_offset, NOW_MS)
        self.size_bytes += self._log.write(batch)

    def close(self, end_offset: int) -> CleanableSegment:
        self._log.close()
        self.indexes.close()
        self.path.with_suffix(".index").write_bytes(self.indexes.offsets.to_bytes())
        self.path.with_suffix(".timeindex").write_bytes(self.indexes.times.to_bytes())
        return CleanableSegment(self.base_offset, end_offset, self.size_bytes, NOW_MS, -1)


def write_log(folder: Path, volume_bytes: int, record_bytes: int) -> Written:
    """A compacted log as producers leave it, ``volume_bytes`` before compression."""
    segments: list[CleanableSegment] = []
    files = _SegmentFiles(folder, 0)
    offset = plain_bytes = keys = 0
    for batch, count, size_bytes, keys in _batches(volume_bytes, record_bytes):  # noqa: B007 - the last one counts
        if files.size_bytes + len(batch) > SEGMENT_BYTES:
            segments.append(files.close(offset))
            files = _SegmentFiles(folder, offset)
        offset += count
        plain_bytes += size_bytes
        files.add(batch, offset - 1)
    segments.append(files.close(offset))
    return Written(segments, offset, keys, plain_bytes, sum(one.size_bytes for one in segments))


def clean_all(folder: Path, written: Written) -> tuple[float, int]:
    """Clean the log from one end to the other, run by run; CPU seconds, and how many runs it took."""
    tune_allocator()
    segments, start, runs = written.segments, 0, 0
    map_bytes = int(written.key_count * MAP_SHARE / LOAD_FACTOR) * SLOT_BYTES + written.end_offset
    began = time.process_time()
    while start < written.end_offset:
        job = CleanJob(
            generation=0,
            directory=str(folder), segments=tuple(segments), first_dirty_offset=start, end_offset=written.end_offset,
            aborted=(), producers=snapshot_to_bytes([]), now_ms=NOW_MS, delete_retention_ms=1,
            forgettable_below=LONG_MAX, segment_bytes=SEGMENT_BYTES, segment_index_bytes=10 << 20,
            index_interval_bytes=4096, map_bytes=map_bytes, map_load_factor=LOAD_FACTOR,
        )  # fmt: skip
        cleaning = Cleaning(job, CleanerFilesystem(), lambda _: None)
        built = cleaning.build_map()
        done = [cleaning.clean_group(number) for number in range(len(built.groups))]
        segments = _swapped(folder, segments, done)
        start, runs = built.end_offset, runs + 1
    return time.process_time() - began, runs


def _swapped(folder: Path, segments: list[CleanableSegment], done: list[CleanedSegment]) -> list[CleanableSegment]:
    """Rename without the care that a broker takes."""
    left = [one for one in segments if one.base_offset >= done[-1].end_offset]
    new = []
    for cleaned in done:
        if cleaned.changed:
            for base_offset, _ in cleaned.replaces:
                (folder / f"{base_offset:020d}.log").unlink()
            for suffix in cleaned.suffixes:
                path = folder / f"{cleaned.base_offset:020d}{suffix}"
                path.with_name(path.name + ".cleaned").replace(path)
        size_bytes = cleaned.size_bytes
        new.append(CleanableSegment(cleaned.base_offset, cleaned.end_offset, size_bytes, NOW_MS, -1))
    return new + left


def _measure_core(settings: Settings) -> list[Outcome]:
    outcomes = []
    for line, volume_bytes, record_bytes in ((_LARGE, VOLUME_BYTES, 1024), (_SMALL, SMALL_VOLUME_BYTES, 100)):
        with settings.folder(settings.memory) as folder:
            written = write_log(folder, volume_bytes, record_bytes)
            seconds, runs = clean_all(folder, written)
        log_rate, record_rate = written.log_bytes / 1e6 / seconds, written.record_bytes / 1e6 / seconds
        print(
            f"  {record_bytes:5} B  {log_rate:.1f} MB/s of the log, {record_rate:.1f} MB/s of records, {runs} runs,"
            f" {seconds * 1e6 / written.end_offset:.2f} us a record",
            file=sys.stderr,
            flush=True,
        )
        outcomes.append(line.outcome(record_rate, log_megabytes_per_second=log_rate, runs=runs))
    return outcomes


# -- what producers feel -----------------------------------------------------------------------------------------------


def _prepare(broker: BrokerServer, folder: Path, written: Written) -> None:
    """Give every partition of ``compacted`` the same segments, and one more, which is active."""
    for number in range(PARTITION_COUNT):
        target = broker.data / f"compacted-{number}"
        for path in target.iterdir():
            if path.suffix in {".log", ".index", ".timeindex", ".snapshot"}:
                path.unlink()
        for path in folder.iterdir():
            (target / path.name).hardlink_to(path)
        (target / f"{written.end_offset:020d}.log").touch()


def _run(settings: Settings, disk: Path, written: Written, load: Load, threads: str) -> LoadResult:
    with settings.folder(settings.disk) as folder:
        cleaner = {"log.cleaner.threads": threads, "log.cleaner.backoff.ms": "100"}
        with BrokerServer.start(folder / "data") as broker:
            broker.create_topic(
                "compacted", PARTITION_COUNT, cleanup_policy="compact", segment_bytes=str(SEGMENT_BYTES)
            )
        _prepare(broker, disk, written)
        with BrokerServer.start(folder / "data", cleaner) as broker:
            broker.create_topic("plain", LOAD.partitions)
            result = load.run(broker, "plain")
            cleanings = broker.metric("stratalog_cleaner_cleanings_total")
        if threads != "0" and not 0 < cleanings < PARTITION_COUNT:
            raise SystemExit(f"{cleanings:.0f} of {PARTITION_COUNT} logs were cleaned: not all the time was measured")
        return result


def _measure_producers(settings: Settings) -> list[Outcome]:
    load = replace(LOAD, seconds=settings.paced_seconds)
    with settings.folder(settings.disk) as disk:
        written = write_log(disk, SEGMENT_BYTES, 1024)

        def run(kind: str, _: int) -> LoadResult:
            result = _run(settings, disk, written, load, "1" if kind == "cleaning" else "0")
            print(
                f"  {kind:8} {result.megabytes_per_second:5.1f} MB/s  p50 {result.p50_us / 1000:.2f}"
                f"  p99 {result.p99_us / 1000:.2f}  max {result.max_us / 1000:.1f} ms",
                file=sys.stderr,
                flush=True,
            )
            return result

        runs = interleaved(("plain", "cleaning"), settings.paced_repetitions, run)
    plain, cleaning = (median(one.p99_us for one in runs[kind]) for kind in ("plain", "cleaning"))
    return [_P99.outcome((cleaning - P99_FACTOR * plain) / 1000, with_compaction_us=cleaning, without_us=plain)]


CELLS = (
    Cell("compaction", (_LARGE, _SMALL), _measure_core),
    Cell("compaction-ack", (_P99,), _measure_producers),
)
