"""Forecasts of backfills, against what Spark's reader asks of a store that counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.objects.chunk_table import ChunkTable
from stratalog.tier.objects.segment_reader import read_object_footer
from stratalog.tier.planning.backfill_forecast import forecast_backfill
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive, cut_slices, group_tasks, task_limits
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.topic import TopicPartition

MIB = 1 << 20


def segment(first: int, count: int, value_bytes: int) -> bytes:
    batches = [
        build_batch([Record(first + n, 0, None, b"v" * (value_bytes - 991 * (n % 5)))], leader_epoch=0)
        for n in range(count)
    ]
    return b"".join(bytes(one) for one in batches)


def archive_of(manifest: Manifest, log_start: int = 0) -> PartitionArchive:
    partition = TopicPartition(manifest.partition.topic, manifest.partition.partition)
    return PartitionArchive(partition, log_start, manifest.remote_end, manifest.entries)


@pytest.fixture(scope="module")
def archives() -> tuple[CountingStore, list[PartitionArchive]]:
    """Objects of 20 MiB in chunks of some 1.5 MiB, and small ones that come whole."""
    store = CountingStore(MemoryStore(), log_count=100_000)
    large = [segment(100 * n, 100, 200_000) for n in range(3)]
    first = archive_log(store, PartitionId("large", bytes(16), 0), large, now_ms=0, chunk_bytes=3 * MIB // 2)
    small = [segment(10 * n, 10, 50_000) for n in range(20)]
    second = archive_log(store, PartitionId("small", bytes(16), 0), small, now_ms=0)
    return store, [archive_of(first, 137), archive_of(second)]


def counted(store: CountingStore, archives: list[PartitionArchive], task_bytes: int) -> tuple[int, int, int]:
    """GETs, bytes and tasks of a real read of everything."""
    slices = [
        piece for one in archives for piece in cut_slices(one, OffsetRange(one.log_start_offset, one.end_offset))[0]
    ]
    tasks = group_tasks(slices, task_limits(slices, 2, task_bytes_max=task_bytes))
    requests, received = len(store.requests), store.received_bytes
    for task in tasks:
        for _ in read_slices(store, task, ReadRequest(("offset",))):
            pass
    return len(store.requests) - requests, store.received_bytes - received, len(tasks)


@pytest.mark.parametrize("task_bytes", [256 * MIB, 13 * MIB])
@pytest.mark.parametrize("exact", [False, True])
def test_predicted_equals_counted_within_five_percent(
    archives: tuple[CountingStore, list[PartitionArchive]], task_bytes: int, exact: bool
) -> None:
    """GETs and bytes, whatever the tasks, from manifests alone or with the real chunk tables."""
    store, held = archives

    def table_of(entry: Entry) -> ChunkTable:
        chunks = read_object_footer(store.inner, entry.key).chunks
        assert chunks is not None
        return chunks

    gets, received, task_count = counted(store, held, task_bytes)
    options = {"table_of": table_of} if exact else {}
    forecasts, tasks = forecast_backfill(held, core_count=2, task_bytes=task_bytes, **options)  # type: ignore[arg-type]
    assert tasks == task_count
    assert sum(one.usage.reads for one in forecasts) == pytest.approx(gets, rel=0.05)
    assert sum(one.usage.received_bytes for one in forecasts) == pytest.approx(received, rel=0.05)


def test_every_partition_has_its_share(archives: tuple[CountingStore, list[PartitionArchive]]) -> None:
    """Objects and offsets below the log start are not read."""
    large, small = forecast_backfill(archives[1], core_count=2)[0]
    assert (large.partition.topic, large.start, large.end, large.objects) == ("large", 137, 300, 2)
    assert (small.objects, small.usage.reads) == (20, 20)
    assert small.data_bytes == sum(one.data_bytes for one in archives[1][1].entries)


def test_an_empty_archive_costs_nothing(archives: tuple[CountingStore, list[PartitionArchive]]) -> None:
    """A partition whose first segment is still to come."""
    empty = replace(archives[1][1], entries=(), end_offset=0)
    (forecast,), tasks = forecast_backfill([empty], core_count=2)
    assert (tasks, bool(forecast.usage)) == (0, False)
