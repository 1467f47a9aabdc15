"""Forecasts of reads, against what the real reader asks of a store that counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stratalog.broker.cold.admission import ColdAdmission
from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.cold.forecast import FetchForecast, forecast_fetch
from stratalog.broker.cold.reader import RemotePartition
from stratalog.tier import open_store
from stratalog.tier.bucket.topics import newest_manifests
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.view import ManifestView
from stratalog.tier.objects.chunk_table import ChunkTable
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.objects.segment_reader import read_object_footer
from stratalog.tier.reading.cache import CacheLimits
from stratalog.tier.reading.fetch_budgets import FetchRates
from stratalog.tier.reading.remote_log import RemoteLog
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch

PARTITION = PartitionId("t", bytes(16), 0)
CACHE_BYTES = 64 << 20
CHUNK_BYTES = 20_000


class Rig:
    """An archive of small chunks behind a store that counts, and the broker's own reader of it."""

    def __init__(self, tmp_path: Any, objects: int, batches: int, *, aborted: bool = False) -> None:
        self.store = CountingStore(MemoryStore())
        self.worker = Worker(self.store)
        self.queue: list[Any] = []
        segments = [self.segment(objects_before * batches, batches) for objects_before in range(objects)]
        lost = (AbortedTransaction(7, 3, 40, 40),) if aborted else ()
        self.manifest: Manifest = archive_log(
            self.store, PARTITION, segments, now_ms=0, chunk_bytes=CHUNK_BYTES, aborted=lost
        )
        self.end = self.manifest.remote_end
        admission = ColdAdmission(
            FetchRates, client_of=str, wake=lambda reader: None, now_ms=lambda: 0, later=lambda seconds, call: None
        )
        limits = CacheLimits(CACHE_BYTES)
        chunks = ChunkFiles(str(tmp_path / "cache"), limits, self.submit, lambda: 0, admission=admission)
        self.remote = RemotePartition(
            PARTITION,
            submit=self.submit,
            chunks=chunks,
            metrics=SimpleNamespace(remote_fetch_errors=0, remote_log_size_bytes=0),  # type: ignore[arg-type]
            wake=lambda: None,
            now_ms=lambda: 0,
        )

    @staticmethod
    def segment(first_batch: int, batches: int) -> bytes:
        """Batches of five records, unequal in size."""
        built = []
        for number in range(first_batch, first_batch + batches):
            value = b"v" * (300 + 137 * (number % 7))
            built.append(build_batch([Record(5 * number + n, 0, None, value) for n in range(5)], leader_epoch=1))
        return b"".join(bytes(one) for one in built)

    def submit(self, command: Any, answered: Any) -> None:
        self.queue.append((command, answered))

    def run(self) -> None:
        while self.queue:
            command, answered = self.queue.pop(0)
            answered(self.worker.execute(command))

    def read(self, start: int, end: int, answer_bytes: int) -> tuple[int, int]:
        """Read for real; GETs and bytes of that, all that was asked for ahead included."""
        self.remote.refresh()
        self.run()
        gets, received = self._gets(), self.store.received_bytes
        offset = start
        while offset < end:
            found = self.remote.read("r", offset, answer_bytes)
            if found is not None:
                offset = found.next_offset
            self.run()
        return self._gets() - gets, self.store.received_bytes - received

    def _gets(self) -> int:
        return sum(self.store.count(name) for name in ("get", "get_range", "get_suffix"))

    def forecast(
        self, start: int, end: int, answer_bytes: int, cache_bytes: int = CACHE_BYTES, **options: Any
    ) -> FetchForecast:
        remote = RemoteLog(PARTITION)
        remote.merge(ManifestView.of(self.manifest, ""))
        return forecast_fetch(remote, start, end, answer_bytes=answer_bytes, cache_bytes=cache_bytes, **options)


def table_of(rig: Rig) -> Any:
    def read(segment: Any) -> ChunkTable:
        chunks = read_object_footer(rig.store.inner, segment.key).chunks
        assert chunks is not None
        return chunks

    return read


@pytest.mark.parametrize(
    ("objects", "batches", "start", "end", "answer_bytes", "exact"),
    [
        pytest.param(
            *case, exact, marks=() if (number, exact) in {(1, False), (2, True), (3, True)} else pytest.mark.slow
        )
        for number, case in enumerate(
            [
                (6, 700, 0, 1 << 40, 50_000),
                (6, 700, 5_000, 12_000, 50_000),
                (40, 60, 1_000, 1 << 40, 10_000),
                (2, 3_000, 100, 160, 10_000),
                (3, 1_500, 7_000, 1 << 40, 1 << 20),
            ]
        )
        for exact in (False, True)
    ],
)
def test_predicted_equals_counted_within_five_percent(
    tmp_path: Any, objects: int, batches: int, start: int, end: int, answer_bytes: int, exact: bool
) -> None:
    """GETs and bytes, whole and partial reads, with and without the real chunk tables."""
    rig = Rig(tmp_path, objects, batches)
    gets, received = rig.read(start, min(end, rig.end), answer_bytes)
    options = {"table_of": table_of(rig)} if exact else {}
    usage = rig.forecast(start, end, answer_bytes, **options).usage
    assert usage.reads == pytest.approx(gets, rel=0.05, abs=0.99)
    assert usage.received_bytes == pytest.approx(received, rel=0.05)


def test_aborted_transactions_cost_two_gets_more(tmp_path: Any) -> None:
    """For each object that has some in the range."""
    rig = Rig(tmp_path, 3, 200, aborted=True)
    gets, _ = rig.read(0, rig.end, 50_000)
    assert rig.forecast(0, rig.end, 50_000).usage.reads == gets


@pytest.mark.story
def test_read_ahead_is_counted(tmp_path: Any) -> None:
    """A reader that stops half-way has fetched more than it got."""
    rig = Rig(tmp_path, 6, 700)
    half = rig.forecast(0, rig.end // 2, 50_000)
    assert half.end == rig.end // 2
    assert half.ahead_bytes > 0
    assert half.delivered_bytes < half.chunk_bytes
    whole = rig.forecast(0, rig.end, 50_000)
    assert (whole.ahead_bytes, whole.objects) == (0, 6)
    assert whole.delivered_bytes == pytest.approx(sum(one.data_bytes for one in rig.manifest.entries), rel=0.01)


def test_bytes_bound_a_read(tmp_path: Any) -> None:
    """It ends with the answer that reaches them."""
    rig = Rig(tmp_path, 6, 700)
    found = rig.forecast(0, rig.end, 50_000, delivered_bytes_max=400_000)
    assert 400_000 <= found.delivered_bytes <= 450_000
    assert 0 < found.end < rig.end


def test_offsets_outside_the_archive_cost_nothing(tmp_path: Any) -> None:
    """Records below it are gone, records above it are local."""
    rig = Rig(tmp_path, 2, 20)
    found = rig.forecast(rig.end, rig.end + 100, 50_000)
    assert not found.usage
    assert rig.forecast(-5, 5, 1).start == 0


@pytest.mark.story
def test_a_whole_broker_asks_for_what_was_predicted(start_node: Any) -> None:
    """Its own client reads a topic that has left the local disk; the requests are those that the broker counts."""
    broker = start_node(log_flush_offset_checkpoint_interval_ms="100", log_retention_check_interval_ms="100")
    broker.create(
        "t", remote_storage_enable="true", internal_segment_bytes=50_000, retention_ms=-1, local_retention_bytes=0
    )
    for _ in range(60):
        broker.produce("t", *[b"v" * 1000] * 20)
    unified = broker.partition("t")
    broker.wait_until(
        lambda: unified.remote.end_offset == unified.log.first_base_offset == unified.log.active_base_offset > 0
    )
    store = open_store(f"file://{broker.directory}/bucket")
    (manifest,) = newest_manifests(store, ["t"])
    remote = RemoteLog(manifest.partition)
    remote.merge(ManifestView.of(manifest, ""))
    predicted = forecast_fetch(remote, 0, manifest.remote_end, answer_bytes=1 << 20, cache_bytes=1 << 30)

    def gets() -> int:
        return sum(broker.node.tiering._requests[name] for name in ("get_range", "get_suffix"))

    before = gets()
    assert len(broker.values("t")) == 1200
    assert predicted.objects > 15
    assert predicted.tail_gets + predicted.chunk_gets == pytest.approx(gets() - before, rel=0.05)
