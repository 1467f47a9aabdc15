"""Tiered brokers for fault tests: small segments, quick ticks, and a bucket in memory that fails on demand."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stratalog.broker import housekeeping
from stratalog.broker.settings.config import Flags, load_config
from stratalog.client.admin import alter_topic_configs
from stratalog.client.client import Client
from stratalog.client.records import produce_batches
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.objects.segment_reader import read_object_footer
from stratalog.tier.stores import opening
from stratalog.tier.stores.faulty_store import FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.wire.batch import Record, build_batch, iter_headers, iter_records
from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stratalog.wire.topic import TopicPartition

WAIT_SECONDS = 30
TIERED = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "2000",
    "retention.ms": "-1",
    "local.retention.bytes": "0",
}
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "remote.log.manager.task.retry.backoff.ms": "20",
    "remote.log.manager.task.retry.backoff.max.ms": "100",
    "log.segment.delete.delay.ms": "100",
}
_numbers = itertools.count()


class TieredBroker:
    """A running node with a bucket that the test can look into and spoil, and what was written to it."""

    def __init__(self, node: Any, bucket: FaultyStore) -> None:
        self.node = node
        self.bucket = bucket
        self.memory = bucket.inner
        self._client: tuple[int, Client] | None = None
        self.written: dict[tuple[str, int], list[tuple[int, int, bytes]]] = {}
        """By partition: (offset, timestamp, value) of every acknowledged record."""

    # -- the bucket -------------------------------------------------------------------------------------------------

    def spoil(self, *rules: FaultRule) -> None:
        """From now on the bucket obeys these rules; none: it works."""
        self.bucket.set_rules(rules)

    def partition_id(self, topic: str, partition: int = 0) -> PartitionId:
        """The partition's name in the bucket."""
        return PartitionId(topic, self.node.partition(topic, partition).topic_id, partition)

    def manifest(self, topic: str, partition: int = 0) -> Manifest:
        """The manifest as it stands in the bucket."""
        return read_manifest(self.memory, self.partition_id(topic, partition)).manifest

    def objects(self, topic: str, partition: int = 0) -> list[str]:
        """Keys of the partition's objects."""
        return [one.key for one in self.memory.list(self.partition_id(topic, partition).segments_prefix)]

    def replace(self, key: str, data: bytes) -> None:
        """Put other bytes in an object's place."""
        self.memory.delete_many([key])
        self.memory.put(key, data)

    def check_bucket(self, topic: str, partition: int = 0, *, orphans: bool = True) -> Manifest:
        """The manifest is contiguous, each entry's object is there and right, and no range stands twice."""
        manifest = self.manifest(topic, partition)
        at = manifest.remote_start
        entries = list(iter_entries(self.memory, manifest))
        for entry in entries:
            assert entry.base == at, "the manifest has a gap or an overlap"
            at = entry.end
            assert read_object_footer(self.memory, entry.key).entry == entry or entry.crc32c
            assert self.memory.head(entry.key).size_bytes == entry.size_bytes
        assert at == manifest.remote_end
        named = {entry.key for entry in entries} | {entry.key for entry in manifest.trash}
        left = set(self.objects(topic, partition)) - named
        assert orphans or not left, "the bucket holds objects that no manifest names"
        return manifest

    @property
    def gets(self) -> int:
        """GET requests for bytes of objects so far; manifests and descriptions are read at any time."""
        requests = self.node.run(lambda: dict(self.node.node.tiering._requests))
        return sum(count for name, count in requests.items() if name.startswith("get_"))

    @property
    def client(self) -> Client:
        """One client for all appends of a run of the broker."""
        if self._client is None or self._client[0] != self.node.port:
            self._client = self.node.port, self.node.client()
        return self._client[1]

    # -- topics and records -------------------------------------------------------------------------------------------

    def topic(self, name: str, partition_count: int = 1, **configs: object) -> str:
        """Create a tiered topic with small segments."""
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        tiered = {key: value for key, value in TIERED.items() if key not in named}
        self.node.create(name, partition_count, **tiered, **named)
        self._client = None  # what it knows of a topic of this name may be the past
        self.client.refresh([name])  # a topic that is made again has another id
        return name

    def configure(self, name: str, **configs: object) -> None:
        """Change settings of a topic."""
        alter_topic_configs(
            self.node.client(), name, set_to={key.replace("_", "."): str(value) for key, value in configs.items()}
        )

    def write(
        self,
        topic: str,
        batches: int,
        *,
        partition: int = 0,
        count: int = 5,
        size_bytes: int = 100,
        timestamp_ms: Callable[[int], int] | None = None,
        **options: Any,
    ) -> None:
        """Append batches of ``count`` records each; `written` keeps them. ``timestamp_ms`` makes times of numbers."""
        done = self.written.setdefault((topic, partition), [])
        for _ in range(batches):
            start = done[-1][0] + 1 if done else 0
            now_ms = self.node.node.clock.wall_ms()
            records = [
                Record(n, now_ms if timestamp_ms is None else timestamp_ms(start + n), b"k%d" % (start + n), value)
                for n, value in enumerate((b"%d:" % (start + n)).ljust(size_bytes, b".") for n in range(count))
            ]
            name = TopicPartition(topic, partition)
            answer = produce_batches(self.client, {name: build_batch(records, **options)}, acks=-1)[name]
            assert answer.error_code == 0, answer
            done += [(answer.base_offset + n, one.timestamp_ms, one.value) for n, one in enumerate(records)]

    def roll(self, topic: str, partition: int = 0) -> None:
        """Freeze what is in the active segment."""

        def roll() -> None:
            unified = self.node.partition(topic, partition)
            unified.log.roll()
            unified.partition.directory.sync(unified.partition)

        self.node.run(roll)

    def archived(self, topic: str, partition: int = 0, *, evicted: bool = True) -> None:
        """Wait until everything frozen is in the archive, and off the local disk as far as local retention says."""

        def done() -> bool:
            unified = self.node.partition(topic, partition)
            log = unified.log
            remote_end = 0 if unified.remote is None else unified.remote.end_offset
            frozen = log.active_base_offset
            return remote_end == frozen and (
                not evicted or log.local_log_start_offset == max(frozen, log.log_start_offset)
            )

        self.node.wait_until(done)

    def read(self, topic: str, partition: int = 0, offset: int = 0, **options: Any) -> list[tuple[int, int, bytes]]:
        """Records that a consumer gets from ``offset`` on, in the form of `written`."""
        records = self.node.read(topic, partition, offset, **options)
        return [(one.offset, one.timestamp_ms, one.value) for one in records]

    def check_reads(self, topic: str, partition: int = 0, offset: int = 0) -> None:
        """A consumer gets exactly what was acknowledged, from ``offset`` on."""
        assert self.read(topic, partition, offset) == self.written[topic, partition][offset:]

    def delete_records(self, topic: str, offset: int, partition: int = 0) -> int:
        """DeleteRecords; the low watermark of the answer."""
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
                )
            ],
            timeout_ms=10_000,
        )
        answer = self.node.client().call(request).topics[0].partitions[0]
        assert answer.error_code == 0, answer
        return answer.low_watermark

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int, int, int]:
        """Log start, local log start, remote end, log end."""

        def look() -> tuple[int, int, int, int]:
            unified = self.node.partition(topic, partition)
            remote_end = -1 if unified.remote is None else unified.remote.end_offset
            log = unified.log
            return log.log_start_offset, log.local_log_start_offset, remote_end, log.log_end_offset

        return self.node.run(look)


StartTiered = Callable[..., TieredBroker]


@pytest.fixture
def start_tiered(start_node, monkeypatch) -> StartTiered:
    """Start brokers on a bucket in memory; settings are arguments, ``bucket_url`` takes another bucket, ``cache_bytes`` less than may be set."""
    monkeypatch.setattr(housekeeping, "TICK_SECONDS", 0.02)

    def start(
        *, start: bool = True, bucket_url: str = "", directory: str = "", cache_bytes: int = 0, **settings: str
    ) -> TieredBroker:
        url = bucket_url or f"memory:faults-{time.time_ns()}-{next(_numbers)}"
        store = FaultyStore(MemoryStore(url))
        if url.startswith("memory:"):
            opening._memory_stores[url] = store
        named = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
        node = start_node(directory=directory, start=False, **{key.replace(".", "_"): v for key, v in named.items()})
        data = None if "log.dirs" in node.settings else f"{node.directory}/data"
        flags = Flags(data=data, bucket=url, listen="127.0.0.1:0", http="127.0.0.1:0")

        def config():
            assignments = [f"{name}={value}" for name, value in node.settings.items()]
            found = load_config(assignments=assignments, environment={}, flags=flags, host_name="localhost")
            return replace(found, cache_bytes_max=cache_bytes) if cache_bytes else found

        node.config = config
        return TieredBroker(node.start() if start else node, store)

    return start


@pytest.fixture
def tiered(start_tiered) -> TieredBroker:
    """A running broker with a bucket in memory."""
    return start_tiered()


@pytest.fixture
def headers_of() -> Callable[..., list[Any]]:
    """The batch headers of log bytes."""
    return lambda data: [header for _, header in iter_headers(data)]


@pytest.fixture
def records_of() -> Callable[..., list[Record]]:
    """The records of log bytes, control batches included."""
    return lambda data: [record for at, _ in iter_headers(data) for record in iter_records(data, at)]


@pytest.fixture
def partition_of() -> type[TopicPartition]:
    """Names of partitions."""
    return TopicPartition
