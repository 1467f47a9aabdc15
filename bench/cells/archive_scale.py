"""Whether an archive's age costs anything: 100,000 ranges of a partition beside 1,000, a million of them at a start."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from bench.archives import TIERED
from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, median
from bench.servers import BrokerServer
from bench.settings import Settings
from stratalog.hot.storage.checkpoint import REMOTE_LOG
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.manifest import NOBODY, Claimant, Manifest, Uploaded, claim, commit
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.pages import INLINE_KEPT, compressed, decompressed, page_ref, page_to_bytes
from stratalog.tier.manifests.parts import PageRef
from stratalog.tier.manifests.view import NO_ENTRIES
from stratalog.tier.messages.commands import Commit, ReadManifest
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_upload import put_segment
from stratalog.tier.reading.remote_log import RemoteLog
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_commands import commit_uploads, read_view
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import uuid_parse

__all__ = ["CELLS"]

FEW = 1_000
MANY = 100_000
COMMITS = 192
"""Timed one by one: each third of them or so moves entries to a page."""
LOOK_UPS = 5_000
AT_ONCE = 2_000
PARTITION_COUNT = 1_000
RANGE_COUNT = 1_000
RANGE_OFFSETS = 1_000
START_MS = 1_700_000_000_000
LOG_START = -2

WRITER = Claimant(0, 0, bytes(16), 1)

_COMMIT = Line("archive-100k-commit", "a commit at 100,000 ranges / at 1,000", Bound("<=", 2.0))
_OFFSET = Line("archive-100k-offset", "an offset look-up at 100,000 ranges / at 1,000", Bound("<=", 2.0))
_TIME = Line("archive-100k-time", "a time look-up at 100,000 ranges / at 1,000", Bound("<=", 2.0))
_START = Line("start-1m-ranges", "s until a broker of 1,000 partitions of 1,000 ranges is ready", Bound("<=", 5.0))


def entry_of(partition: PartitionId, number: int) -> Entry:
    """The range of this number, as large as those of a real topic are in JSON. No object backs it."""
    uuid, base = os.urandom(16), number * RANGE_OFFSETS
    end, at_ms = base + RANGE_OFFSETS, START_MS + number * 1000
    return Entry(
        uuid, base, end, 0, partition.segment_key(base, end, 0, uuid), 67_108_864, 67_000_000, 1 << 31, 1 << 30,
        67_000_000, 544, at_ms, at_ms + 999, end - 1, 65, RANGE_OFFSETS, sealed_ms=at_ms, uploaded_ms=at_ms, broker_id=1,
    )  # fmt: skip


class _Archive:
    """A partition's archive of so many ranges."""

    def __init__(self, folder: Path, range_count: int) -> None:
        self.partition = PartitionId("scale", os.urandom(16), 0)
        self.store = LocalStore(str(folder))
        self.next = 0
        change_manifest(self.store, self.partition, lambda manifest: claim(manifest, WRITER, now_ms=START_MS))
        while self.next < range_count:
            self.commit(min(AT_ONCE, range_count - self.next))
        for _ in range(3):
            self.commit_one()
        self.log = RemoteLog(self.partition)
        self.log.merge(read_view(self.store, ReadManifest(self.partition)).view)  # type: ignore[union-attr]

    def commit(self, count: int) -> None:
        """Commit the next ranges at once."""
        entries = [entry_of(self.partition, self.next + n) for n in range(count)]
        self.next += count
        uploads = tuple(Uploaded(entry, WRITER) for entry in entries)
        commit_uploads(self.store, Commit(self.partition, WRITER, uploads, START_MS, known_end=NO_ENTRIES))

    def commit_one(self) -> None:
        """Commit the next range."""
        self.commit(1)

    def look_up_offsets(self) -> None:
        """Find offsets all over the archive."""
        for number in range(LOOK_UPS):
            index = self.log.find(number * 7919 * 997 % self.log.remote_end)
            self.log.segment(index if index is not None else -1)

    def look_up_times(self) -> None:
        """Find times all over the archive."""
        for number in range(LOOK_UPS):
            if self.log.time_candidate(START_MS + number * 7919 * 997 % (len(self.log) * 1000)) is None:
                raise SystemExit("a time of the archive was not found in it")


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _measure_scale(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.memory) as folder:
        few, many = _Archive(folder / "few", FEW), _Archive(folder / "many", MANY)
        commits = [[_seconds(one.commit_one) for one in (few, many)] for _ in range(COMMITS)]
        offsets = [[_seconds(one.look_up_offsets) for one in (few, many)] for _ in range(2 * settings.repetitions)]
        times = [[_seconds(one.look_up_times) for one in (few, many)] for _ in range(2 * settings.repetitions)]
        size_bytes = many.store.head(many.partition.manifest_key).size_bytes
    return [
        _COMMIT.outcome(
            sum(b for _, b in commits) / sum(a for a, _ in commits),
            median_ratio=_ratio(commits),
            ms=median(b for _, b in commits) * 1e3,
            manifest_bytes=size_bytes,
        ),
        _OFFSET.outcome(_ratio(offsets), us=median(b for _, b in offsets) / LOOK_UPS * 1e6),
        _TIME.outcome(_ratio(times), us=median(b for _, b in times) / LOOK_UPS * 1e6),
    ]


def _ratio(pairs: Sequence[Sequence[float]]) -> float:
    return median(many for _, many in pairs) / median(few for few, _ in pairs)


class _Template:
    """The archive of partition 0 of a topic, from which those of the others are made."""

    def __init__(self, topic: str, topic_id: bytes) -> None:
        self.first = PartitionId(topic, topic_id, 0)
        entries = [entry_of(self.first, n) for n in range(RANGE_COUNT)]
        paged, self.inline = entries[:-INLINE_KEPT], entries[-INLINE_KEPT:]
        data = page_to_bytes(self.first, paged)
        self.page = page_ref(self.first, paged, data, 2)
        self.text = decompressed(data, self.page.key)
        newest = self.inline.pop()
        records = [Record(newest.base + n, START_MS, None, b"v") for n in range(RANGE_OFFSETS)]
        self.newest_data = bytes(build_batch(records, leader_epoch=0))
        manifest = claim(Manifest(self.first), WRITER, now_ms=START_MS)
        uploads = [Uploaded(entry, WRITER) for entry in entries]
        # Without a claimant: every claim of the broker is higher.
        self.manifest = replace(commit(manifest, WRITER, uploads, now_ms=START_MS), claimant=NOBODY)

    def write(self, store: LocalStore, number: int) -> None:
        """The page and the manifest of a partition, and the newest object, behind which the log will begin."""
        partition = self.first._replace(partition=number)
        data = compressed(self.text.replace(b'"partition":0,', b'"partition":%d,' % number, 1))
        ref: PageRef = page_ref(partition, [replace(self.inline[0], base=0, end=self.page.end)], data, 2)
        ref = replace(self.page, key=ref.key, size_bytes=ref.size_bytes, crc32c=ref.crc32c)
        inline = tuple(
            replace(one, key=partition.segment_key(one.base, one.end, one.epoch, one.uuid)) for one in self.inline
        )
        base, end = inline[-1].end, self.manifest.remote_end
        request = SegmentRequest(partition, os.urandom(16), base, end, 0, [self.newest_data])
        newest = put_segment(store, build_segment(request))
        manifest = replace(self.manifest, partition=partition, pages=(ref,), entries=(*inline, newest))
        store.put(ref.key, data)
        store.put(partition.manifest_key, to_bytes(manifest))


def _measure_start(settings: Settings) -> list[Outcome]:
    seconds, gets = [], 0.0
    with settings.folder(settings.disk) as folder:
        data = folder / "data"
        with BrokerServer.start(data) as broker:
            broker.create_topic("old", PARTITION_COUNT, **TIERED)
            bucket = broker.bucket
        _write_archives(bucket, data)
        (data / REMOTE_LOG).unlink(missing_ok=True)
        with BrokerServer.start(data) as broker:
            _wait_taken_over(broker)  # the archive wins: each log goes on where its archive ends
        for _ in range(settings.repetitions):
            with BrokerServer.start(data) as broker:
                seconds.append(broker.ready_seconds)
                if broker.offsets("old", PARTITION_COUNT, LOG_START) != [0] * PARTITION_COUNT:
                    raise SystemExit("the log start is not that of the archive")
                gets = max(gets, broker.metric("stratalog_tier_gets_total"))
            print(f"  ready after {seconds[-1]:.2f} s", file=sys.stderr, flush=True)
    return [_START.outcome(median(seconds), gets=gets)]


def _write_archives(bucket: str, data: Path) -> None:
    metadata = (data / "old-0" / "partition.metadata").read_text()
    topic_id = next(line.split(": ")[1] for line in metadata.splitlines() if line.startswith("topic_id"))
    template = _Template("old", uuid_parse(topic_id))
    store = LocalStore(bucket.removeprefix("file://"), sync=False)
    for number in range(PARTITION_COUNT):
        template.write(store, number)


def _wait_taken_over(broker: BrokerServer) -> None:
    deadline = time.monotonic() + 300
    expected = PARTITION_COUNT * RANGE_COUNT * RANGE_OFFSETS
    while _end_offsets(broker) != expected:
        if time.monotonic() > deadline:
            raise SystemExit(f"the logs have not all begun where their archives end: see {broker.data}.log")
        time.sleep(0.5)


def _end_offsets(broker: BrokerServer) -> int:
    """The sum of all log ends; 0 while some partition waits for its archive."""
    try:
        return broker.record_count("old", PARTITION_COUNT)
    except KafkaError:
        return 0


CELLS = (
    Cell("archive-scale", (_COMMIT, _OFFSET, _TIME), _measure_scale),
    Cell("start-archive", (_START,), _measure_start),
)
