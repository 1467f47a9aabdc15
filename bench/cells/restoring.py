"""A bucket without its broker: verifying a large one by its listing, restoring a large and a real one.

The large ones have manifests and pages as an archive of that size has them; objects of four bytes stand for those of
64 MiB. The real one is read back by librdkafka and compared by SHA-256 with what was archived.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bench.archives import json_values
from bench.build import broker_environment
from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome
from bench.servers import BrokerServer
from bench.settings import Settings
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.manifest import Claimant, Manifest
from stratalog.tier.manifests.pages import INLINE_KEPT, MERGED_ENTRIES_MAX, page_ref, page_to_bytes
from stratalog.tier.manifests.parts import totals_of
from stratalog.tier.messages.projection import cluster_projection, topic_projection, write_projection
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch

__all__ = ["CELL"]

VERIFIED_RANGES = 100_000
RESTORED_PARTITIONS = 64
RANGES_PER_PARTITION = 256
RANGE_BYTES = 64 << 20
STAND_IN = b"four"
REAL_SEGMENTS = 160
REAL_SEGMENT_BYTES = 64 << 20
VARIETY = 16
VALUE_BYTES = 1024
RECORDS_PER_BATCH = 1000
TOPIC_ID = bytes(range(16))
CLUSTER = "bench-cluster-00000000"

_VERIFY = Line("verify-100k", "s for a shallow verify of 100,000 ranges in a folder", Bound("<=", 60))
_TEBIBYTE = Line("restore-1TiB", "s to restore manifests of 1 TiB in 64 partitions", Bound("<=", 30))
_REAL = Line("restore-real", "bytes that differ after a restore of 10 GiB", Bound("<=", 0))


def _entries(partition: PartitionId, count: int, size_bytes: int) -> Iterator[Entry]:
    for number in range(count):
        uuid, base = (partition.partition << 64 | number).to_bytes(16, "big"), number * 10
        key = partition.segment_key(base, base + 10, 1, uuid)
        epochs = (LeaderEpoch(1, base),)
        yield Entry(uuid, base, base + 10, 1, key, size_bytes, 2, 0, 0, 0, 0, 0, 1, 1, 1, 10, epochs=epochs)


def _synthetic(store: LocalStore, folder: Path, partition: PartitionId, count: int, size_bytes: int) -> None:
    """A manifest with its pages; with a size of four bytes also the objects."""
    entries = list(_entries(partition, count, size_bytes))
    (folder / partition.segments_prefix).mkdir(parents=True)
    if size_bytes == len(STAND_IN):
        for entry in entries:
            (folder / entry.key).write_bytes(STAND_IN)
    pages = []
    paged = max(0, count - INLINE_KEPT)
    for first in range(0, paged, MERGED_ENTRIES_MAX):
        chunk = entries[first : min(first + MERGED_ENTRIES_MAX, paged)]
        data = page_to_bytes(partition, chunk)
        pages.append(page_ref(partition, chunk, data, 1))
        store.put(pages[-1].key, data)
    manifest = Manifest(
        partition,
        cluster_id=CLUSTER,
        seq=2,
        claimant=Claimant(0, 1, bytes(16)),
        remote_end=entries[-1].end,
        leader_epochs=(LeaderEpoch(1, 0),),
        totals=totals_of(entries),
        pages=tuple(pages),
        entries=tuple(entries[paged:]),
    )
    store.put(partition.manifest_key, to_bytes(manifest))


def _describe(store: LocalStore, partition_count: int) -> None:
    write_projection(store, cluster_projection(CLUSTER, 0))
    configs = {"remote.storage.enable": "true", "retention.ms": "-1"}
    topic = topic_projection("orders", TOPIC_ID, partitions=partition_count, configs=configs, cluster_id=CLUSTER)
    write_projection(store, topic)


def _run(*arguments: str) -> float:
    """The seconds that a command takes, with the start of Python. Raises ``SystemExit`` if it fails."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "stratalog", *arguments],
        env=broker_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments[:2])} ended with {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - started


def _verify(folder: Path) -> float:
    bucket = folder / "verified"
    store = LocalStore(str(bucket), sync=False)
    _describe(store, 1)
    _synthetic(store, bucket, PartitionId("orders", TOPIC_ID, 0), VERIFIED_RANGES, len(STAND_IN))
    return _run("tier", "verify", "--bucket", f"file://{bucket}")


def _restore_synthetic(folder: Path) -> float:
    bucket = folder / "large"
    store = LocalStore(str(bucket), sync=False)
    _describe(store, RESTORED_PARTITIONS)
    for number in range(RESTORED_PARTITIONS):
        _synthetic(store, bucket, PartitionId("orders", TOPIC_ID, number), RANGES_PER_PARTITION, RANGE_BYTES)
    return _run("restore", "--bucket", f"file://{bucket}", "--data", str(folder / "large-data"), "--takeover")


def _restore_real(folder: Path) -> tuple[float, float]:
    """Bytes that differ, and the seconds of the restore alone."""
    bucket = folder / "real"
    store = LocalStore(str(bucket), sync=False)
    _describe(store, 1)
    batches, hashes = _batches()
    end = 0
    for _ in range(REAL_SEGMENTS):
        segment = bytearray()
        while len(segment) < REAL_SEGMENT_BYTES:
            segment += end.to_bytes(8, "big") + batches[end // RECORDS_PER_BATCH % VARIETY][8:]
            end += RECORDS_PER_BATCH
        archive_log(store, PartitionId("orders", TOPIC_ID, 0), [segment], now_ms=1, cluster_id=CLUSTER)
    seconds = _run("restore", "--bucket", f"file://{bucket}", "--data", str(folder / "real-data"), "--takeover")
    with BrokerServer.start(folder / "real-data", bucket=bucket) as broker:
        return _differing(broker.port, end, hashes), seconds


def _batches() -> tuple[list[bytes], list[bytes]]:
    """Batches whose neighbours all differ, and the SHA-256 of the values of each."""
    values = json_values(RECORDS_PER_BATCH * VARIETY, VALUE_BYTES)
    batches, hashes = [], []
    for first in range(0, len(values), RECORDS_PER_BATCH):
        these = values[first : first + RECORDS_PER_BATCH]
        records = [Record(at, 1_700_000_000_000 + first + at, None, value) for at, value in enumerate(these)]
        batches.append(bytes(build_batch(records, leader_epoch=1)))
        hashes.append(hashlib.sha256(b"".join(these)).digest())
    return batches, hashes


def _differing(port: int, end: int, hashes: list[bytes]) -> float:
    """The bytes of the batches whose values are not those that were archived. Raises ``SystemExit`` for a missing one."""
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "bench", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    position = differing = 0
    digest = hashlib.sha256()
    while position < end:
        messages = consumer.consume(1000, 30.0)
        if not messages:
            raise SystemExit(f"nothing came behind offset {position} for 30 s")
        for message in messages:
            if message.error() or message.offset() != position:
                raise SystemExit(f"{message.error()} at offset {message.offset()} instead of {position}")
            digest.update(message.value() or b"")
            position += 1
            if position % RECORDS_PER_BATCH == 0:
                archived = hashes[position // RECORDS_PER_BATCH % VARIETY - 1]
                differing += 0 if digest.digest() == archived else RECORDS_PER_BATCH * VALUE_BYTES
                digest = hashlib.sha256()
    consumer.close()
    return float(differing)


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        verified = _verify(folder)
        restored = _restore_synthetic(folder)
        differing, seconds = _restore_real(folder)
    print(f"  verify {verified:.1f} s, restore {restored:.1f} s and {seconds:.1f} s", file=sys.stderr, flush=True)
    return [
        _VERIFY.outcome(verified),
        _TEBIBYTE.outcome(restored),
        _REAL.outcome(differing, restore_seconds=seconds),
    ]


CELL = Cell("restoring", (_VERIFY, _TEBIBYTE, _REAL), _measure)
