"""Backfills, killed anywhere: no row lost, none doubled."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import structs

from stratalog.spark.backfill import backfill as job
from stratalog.spark.backfill import convert
from stratalog.spark.backfill.backfill import backfill, foresee_backfill
from stratalog.spark.ledger.layout import staging_prefix
from stratalog.spark.ledger.ledger import LedgerConflict
from stratalog.spark.ledger.ledger_store import LedgerStore
from stratalog.spark.ledger.target import Target, open_target
from stratalog.spark.source.planner import DataLoss
from stratalog.tier import open_store
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Invalid

SMALL = {"file_bytes": 1000, "task_bytes": 3000, "run_bytes": 5000}
"""Several spans a partition, several tasks a run, several runs."""


@pytest.fixture
def orders(tmp_path: Path, archive_in: Callable[[str], Any], batches: Callable[..., bytes]) -> Any:
    """Two partitions of three objects over three days, a batch every few hours."""
    builder = archive_in(f"file://{tmp_path / 'archive'}")
    for partition in range(2):
        for index in range(3):
            start_ms = 1_372_900_000_000 + (index * 40 + partition) * 3_600_000
            builder.add("orders", partition, batches(index * 40, 40, timestamp_ms=start_ms, step_ms=1_800_000))
    return builder


def grow(archive: Any, batches: Callable[..., bytes], partition: int = 0) -> None:
    """One more object of forty records."""
    first = archive.manifests["orders", partition].remote_end
    archive.add("orders", partition, batches(first, 40, timestamp_ms=1_373_400_000_000))


def targets(kind: str, tmp_path: Path) -> str:
    return str(tmp_path / "lake") if kind == "directory" else f"memory:{uuid.uuid4().hex}"


def ledger_of(target: str, archive: Any) -> LedgerStore:
    topic_id = archive.manifests["orders", 0].partition.topic_id
    return LedgerStore(open_target(target, {}), "orders", job.uuid_text(topic_id))


def test_the_longest_names_are_converted(tmp_path: Path, archive_in: Callable[[str], Any], rig: Any) -> None:
    """A topic, and a folder made of values, go into a directory: one strange record does not end a backfill."""
    archive = archive_in(f"file://{tmp_path / 'archive'}")
    topic, novel = "t" * 249, b'{"carrier":"%s"}' % (b"A/" * 3000)
    records = [Record(at, 1, None, novel if at == 3 else b'{"carrier":"AA"}') for at in range(5)]
    archive.add(topic, 0, bytes(build_batch(records, leader_epoch=0)))
    target = str(tmp_path / "lake")
    summary = backfill(rig.settings(archive, target, topic, partitioning="value.carrier"), rig.HereRunner())
    assert (summary.rows, summary.files) == (5, 2)
    store = open_store(f"file://{target}")
    assert rig.file_rows(store, rig.visible_keys(store)) == rig.archive_rows(archive, topic)


@pytest.mark.parametrize("kind", ["directory", "store"])
def test_every_row_is_converted_once(kind: str, tmp_path: Path, orders: Any, batches: Any, rig: Any) -> None:
    """First what there is, then what came, then nothing; folders by the day of the record, names by offsets."""
    url = targets(kind, tmp_path)
    wanted = rig.settings(orders, url, **SMALL)
    first = backfill(wanted, rig.HereRunner())
    store = open_target(url, {}).store
    assert rig.target_rows(store) == rig.archive_rows(orders)
    assert first.rows == 240
    assert first.runs > 1
    assert first.files == len(rig.visible_keys(store))
    keys = rig.visible_keys(store)
    assert keys[0].startswith("orders/date=2013-07-04/orders+0+00000000000000000000+0000000000000000")
    assert {key.split("/")[1] for key in keys} == {f"date=2013-07-0{day}" for day in range(4, 9)} - {"date=2013-07-09"}
    grow(orders, batches)
    second = backfill(wanted, rig.HereRunner())
    assert second.rows == 40
    assert rig.target_rows(store) == rig.archive_rows(orders)
    assert backfill(wanted, rig.HereRunner()).runs == 0
    assert not open_target(url, {}).folders(staging_prefix("orders"))
    told = [file for span in ledger_of(url, orders).ledger.spans.values() for file in span.files]
    assert sorted(file.path for file in told) == rig.visible_keys(store)
    assert {file.path: file.crc32c for file in told} == {key: store.head(key).crc32c for key in rig.visible_keys(store)}


def test_files_say_where_their_rows_come_from(tmp_path: Path, orders: Any, rig: Any) -> None:
    """Footers carry topic, partition, offsets and the source objects with their CRCs; columns are encoded as told."""
    backfill(rig.settings(orders, str(tmp_path / "lake")), rig.HereRunner())
    path = min((tmp_path / "lake").rglob("orders+1+*.parquet"))
    footer = pq.ParquetFile(path).metadata
    told = {name.decode(): value.decode() for name, value in footer.metadata.items() if name.startswith(b"stratalog.")}
    entries = orders.manifests["orders", 1].entries
    assert told["stratalog.topic"] == "orders"
    assert (told["stratalog.partition"], told["stratalog.base"], told["stratalog.layout"]) == ("1", "0", "1")
    assert told["stratalog.sources"].splitlines() == [f"{one.key} {one.crc32c:08x}" for one in entries]
    columns = {footer.row_group(0).column(at).path_in_schema: footer.row_group(0).column(at) for at in range(8)}
    assert "DELTA_BINARY_PACKED" in columns["offset"].encodings
    assert columns["value"].compression == "ZSTD"
    assert columns["offset"].statistics.min == 0


class Killed(BaseException):
    """The process is gone."""


class KillingTarget:
    """A target whose ``at``-th call is the last: it dies before or after it was carried out, and so does every later."""

    def __init__(self, inner: Target, at: int, *, after: bool) -> None:
        self.inner = inner
        self.at = at
        self.after = after
        self.calls = 0
        self.died = ""
        self.store: Any = _KillingStore(inner.store, self)
        self.url = inner.url
        self.is_there = inner.is_there

    def call(self, name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.died or (self.calls >= self.at and not self.after):
            self.died = self.died or name
            raise Killed
        result = function(*arguments, **options)
        if self.calls >= self.at:
            self.died = name
            raise Killed
        return result

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return lambda *arguments, **options: self.call(name, found, *arguments, **options)


class _KillingStore:
    def __init__(self, inner: Any, target: KillingTarget) -> None:
        self.inner = inner
        self.target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in {"put", "put_if_absent", "compare_and_swap", "delete_many", "put_large"}:
            return found
        return lambda *arguments, **options: self.target.call(name, found, *arguments, **options)


def kill_at(monkeypatch: pytest.MonkeyPatch, target: Target, at: int, *, after: bool) -> KillingTarget:
    """From now on backfills and their workers die at this call of the target."""
    killing = KillingTarget(target, at, after=after)
    for module in (job, convert):
        monkeypatch.setattr(module, "open_target", lambda url, options: killing)
    return killing


@pytest.mark.story
@pytest.mark.parametrize("kind", ["directory", "store"])
def test_a_kill_at_any_point_loses_no_row_and_doubles_none(
    kind: str, tmp_path: Path, orders: Any, batches: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each call of the target: a plain reader then sees no row twice and none that is not committed,
    and the next backfill makes it whole, also after the archive has grown.
    """
    run_bytes = 6000 if kind == "store" else 60_000  # several commits where they cost no sync
    expected = rig.archive_rows(orders)
    died = set()
    for at in count(1):
        outcomes = []
        for after in (False, True):
            url = targets(kind, tmp_path / f"{at}-{after}")
            target = open_target(url, {})
            wanted = rig.settings(
                orders, url, file_bytes=3000, task_bytes=6000, run_bytes=run_bytes, lease="false", partitioning="none"
            )
            with monkeypatch.context() as patched:
                killing = kill_at(patched, target, at, after=after)
                try:
                    backfill(wanted, rig.HereRunner())
                    outcomes.append("done")
                except Killed:
                    died.add(killing.died)
            ledger = ledger_of(url, orders)
            committed = {file.path for span in ledger.ledger.spans.values() for file in span.files}
            seen = rig.visible_keys(target.store)
            assert set(seen) <= committed
            assert ledger.head.publishing or set(seen) == committed
            rows = rig.file_rows(target.store, seen)
            assert len({row[:2] for row in rows}) == len(rows)
            backfill(wanted, rig.HereRunner())
            assert rig.target_rows(target.store) == expected
            assert not target.folders(staging_prefix("orders"))
        if outcomes == ["done", "done"]:
            break
    names = {"new_path", "stage", "put_if_absent", "compare_and_swap", "publish", "remove_folder"}
    assert names <= died


def test_a_worker_that_dies_leaves_nothing_behind(tmp_path: Path, orders: Any, rig: Any) -> None:
    """An object of the archive is damaged in the middle: the error names it, nothing is visible, nothing is staged."""
    entry = orders.manifests["orders", 1].entries[1]
    data, _ = orders.store.get(entry.key)
    orders.store.put(entry.key, data[:900] + bytes([data[900] ^ 1]) + data[901:])
    with pytest.raises(Exception, match=entry.key):
        backfill(rig.settings(orders, str(tmp_path / "lake")), rig.HereRunner())
    store = open_store(f"file://{tmp_path / 'lake'}")
    assert rig.visible_keys(store) == []
    assert list(orders.store.list("leases/")) == []
    orders.store.put(entry.key, data)
    backfill(rig.settings(orders, str(tmp_path / "lake")), rig.HereRunner())
    assert rig.target_rows(store) == rig.archive_rows(orders)
    assert list((tmp_path / "lake").rglob("*.writing")) == []


@pytest.mark.parametrize("kind", ["directory", "store"])
def test_one_of_two_backfills_at_once_fails_clearly(kind: str, tmp_path: Path, orders: Any, rig: Any) -> None:
    """The slower one says what happened; what is there is exact, and running it again finds nothing to do."""
    url = targets(kind, tmp_path)
    wanted = rig.settings(orders, url)

    class Slow(rig.HereRunner):
        def convert(self, *arguments: Any) -> Iterator[Any]:
            spans = list(super().convert(*arguments))
            backfill(wanted, rig.HereRunner())
            yield from spans

    with pytest.raises(LedgerConflict, match="another backfill"):
        backfill(wanted, Slow())
    assert rig.target_rows(open_target(url, {}).store) == rig.archive_rows(orders)
    assert backfill(wanted, rig.HereRunner()).runs == 0


def compact(archive: Any, batches: Callable[..., bytes]) -> None:
    """The first object of partition 0 now holds every second batch only."""
    manifest = archive.manifests["orders", 0]
    old = manifest.entries[0]
    data = b"".join(batches(at, 10, timestamp_ms=1_372_900_000_000 + at * 1_800_000) for at in (0, 20))
    built = build_segment(
        SegmentRequest(manifest.partition, b"c" * 16, old.base, old.end, old.epoch, [data], compacted=True)
    )
    archive.store.put(built.entry.key, list(built.source))
    archive.write("orders", 0, structs.replace(manifest, entries=(built.entry, *manifest.entries[1:])), [])


@pytest.mark.parametrize("kind", ["directory", "store"])
def test_compacted_spans_are_converted_anew_on_request(
    kind: str, tmp_path: Path, orders: Any, batches: Any, rig: Any
) -> None:
    """By default it is only told. Superseded files are gone, and the new ones have names of their own."""
    url = targets(kind, tmp_path)
    wanted = rig.settings(orders, url)
    backfill(wanted, rig.HereRunner())
    store = open_target(url, {}).store
    before = rig.target_rows(store)
    compact(orders, batches)
    assert backfill(wanted, rig.HereRunner()).stale == 1
    assert rig.target_rows(store) == before
    done = backfill(replace(wanted, rewrite=True), rig.HereRunner())
    assert (done.spans, done.stale) == (1, 0)
    assert done.removed > 0
    assert rig.target_rows(store) == rig.archive_rows(orders)
    assert len(before) - len(rig.target_rows(store)) == 20
    assert any("+r2.parquet" in key for key in rig.visible_keys(store))
    assert backfill(replace(wanted, rewrite=True), rig.HereRunner()).runs == 0


def test_a_target_keeps_its_layout_and_its_topic(tmp_path: Path, orders: Any, batches: Any, rig: Any) -> None:
    """Other folders, and a topic of the same name that was created anew, are refused."""
    url = str(tmp_path / "lake")
    backfill(rig.settings(orders, url), rig.HereRunner())
    with pytest.raises(Invalid, match="was filled with layout 1, partitioning date"):
        backfill(rig.settings(orders, url, partitioning="none"), rig.HereRunner())
    del orders.manifests["orders", 0]
    orders.add("orders", 0, batches(0, 10), topic_id=b"n" * 16, claimed_ms=99)
    with pytest.raises(Invalid, match="it was deleted and created again"):
        backfill(rig.settings(orders, url), rig.HereRunner())


def test_topics_are_converted_one_by_one(tmp_path: Path, orders: Any, batches: Any, rig: Any) -> None:
    """A ledger tells partitions apart by their numbers alone."""
    orders.add("refunds", 0, batches(0, 10))
    wanted = rig.settings(orders, str(tmp_path / "lake"), "orders,refunds")
    for work in (foresee_backfill, lambda settings: backfill(settings, rig.HereRunner())):
        with pytest.raises(Invalid, match="one topic at a time: orders, refunds"):
            work(wanted)
    assert not (tmp_path / "lake").exists()


def test_objects_that_are_gone_are_reported_and_converted_once_they_are_back(
    tmp_path: Path, orders: Any, rig: Any
) -> None:
    """One ends the backfill, unless losses are accepted: then all others are converted, and it is once it is back."""
    entry = orders.manifests["orders", 0].entries[1]
    data, _ = orders.store.get(entry.key)
    orders.store.delete_many([entry.key])
    url = str(tmp_path / "lake")
    wanted = rig.settings(orders, url)
    with pytest.raises(DataLoss, match=r"orders-0, offsets 40 to 79, object .* is not in"):
        backfill(wanted, rig.HereRunner())
    assert rig.visible_keys(open_target(url, {}).store) == []
    lenient = replace(wanted, read=replace(wanted.read, fail_on_data_loss=False))
    assert backfill(lenient, rig.HereRunner()).rows == 200
    orders.store.put(entry.key, data)
    assert backfill(wanted, rig.HereRunner()).rows == 40
    assert rig.target_rows(open_target(url, {}).store) == rig.archive_rows(orders)


def test_the_plan_is_reported_before_work_begins(tmp_path: Path, orders: Any, rig: Any) -> None:
    """Requests, bytes, tasks and runs; nothing is written, not even a ledger."""
    url = str(tmp_path / "lake")
    plan = foresee_backfill(rig.settings(orders, url, **SMALL))
    assert plan.offsets == 240
    assert plan.source_bytes == sum(entry.data_bytes for one in orders.manifests.values() for entry in one.entries)
    assert (plan.usage.reads, plan.tasks, plan.runs) == (plan.spans, 6, 2)
    assert not (tmp_path / "lake").exists()


def test_a_small_tail_waits_for_more(tmp_path: Path, orders: Any, batches: Any, rig: Any) -> None:
    """A span below the smallest file is left for later, unless it has waited long enough."""
    url = str(tmp_path / "lake")
    wanted = rig.settings(orders, url)
    backfill(wanted, rig.HereRunner())
    grow(orders, batches)
    manifest = orders.manifests["orders", 0]
    now = structs.replace(manifest.entries[-1], uploaded_ms=4_000_000_000_000)
    orders.write("orders", 0, structs.replace(manifest, entries=(*manifest.entries[:-1], now)), [])
    waiting = replace(wanted, file_bytes_min=1 << 20, file_wait_ms=60_000)
    assert backfill(waiting, rig.HereRunner()).runs == 0
    assert backfill(replace(waiting, file_bytes_min=1), rig.HereRunner()).rows == 40


@pytest.mark.parametrize("kind", ["directory", "store"])
def test_a_span_that_retention_has_begun_to_remove_is_rewritten_as_well(
    kind: str, tmp_path: Path, orders: Any, batches: Any, rig: Any
) -> None:
    """An erased record does not stay for the rows beside it that only the target has: those come out of its own files."""
    url = targets(kind, tmp_path)
    wanted = rig.settings(orders, url)
    backfill(wanted, rig.HereRunner())
    store = open_target(url, {}).store
    before = rig.target_rows(store)
    compact(orders, batches)
    manifest = structs.replace(orders.manifests["orders", 0], log_start_offset=5)
    orders.write("orders", 0, manifest, [])
    assert backfill(wanted, rig.HereRunner()).stale == 1
    done = backfill(replace(wanted, rewrite=True), rig.HereRunner())
    assert (done.runs, done.spans, done.stale) == (1, 2, 0)
    assert rig.target_rows(store) == [*before[:5], *rig.archive_rows(orders)[5:]]
    assert ledger_of(url, orders).head.coverage == {0: ((0, 120),), 1: ((0, 120),)}
    assert backfill(replace(wanted, rewrite=True), rig.HereRunner()).runs == 0


def test_a_span_is_rewritten_whole_or_not_at_all(tmp_path: Path, orders: Any, batches: Any, rig: Any) -> None:
    """Where one part of it cannot be read, and loss is accepted, its files stay and the next run tries again."""
    url = targets("directory", tmp_path)
    wanted = rig.settings(orders, url, rewrite=True)
    wanted = replace(wanted, read=replace(wanted.read, fail_on_data_loss=False))
    backfill(wanted, rig.HereRunner())
    store = open_target(url, {}).store
    before = rig.target_rows(store)
    compact(orders, batches)
    orders.write("orders", 0, structs.replace(orders.manifests["orders", 0], log_start_offset=5), [])
    key = orders.manifests["orders", 0].entries[0].key
    data = orders.store.get(key)[0]
    orders.store.delete_many([key])
    assert backfill(wanted, rig.HereRunner()).removed == 0
    assert rig.target_rows(store) == before
    orders.store.put(key, data)
    assert backfill(wanted, rig.HereRunner()).removed > 0
    assert rig.target_rows(store) == [*before[:5], *rig.archive_rows(orders)[5:]]


def test_a_batch_that_cannot_be_read_is_left_out_and_told(
    tmp_path: Path, orders: Any, batches: Any, rig: Any, rewrite_rig: Any
) -> None:
    """And nothing else; the next backfill does not begin with it again."""
    expected = rig.archive_rows(orders)
    end = orders.manifests["orders", 0].remote_end
    orders.add("orders", 0, rewrite_rig.unreadable_batch(end) + batches(end + 1, 3))
    target = str(tmp_path / "lake")
    summary = backfill(rig.settings(orders, target), rig.HereRunner())
    assert summary.left_out == [(0, end, end + 1)]
    assert summary.rows == len(expected) + 3
    assert {row[1] for row in rig.target_rows(open_target(target, {}).store) if row[0] == 0} >= {end + 1, end + 3}
    spans = ledger_of(target, orders).ledger.spans.values()
    assert [one for span in spans for one in span.left_out] == [(end, end + 1)]
    assert backfill(rig.settings(orders, target), rig.HereRunner()).runs == 0


def test_a_backfill_begins_at_a_time_beside_a_batch_that_cannot_be_read(
    tmp_path: Path, archive_in: Any, batches: Any, rig: Any, rewrite_rig: Any
) -> None:
    """The batch is left out and told of, be it the first of that time or older."""
    archive = archive_in(f"file://{tmp_path / 'archive'}")
    early, late = batches(0, 10, timestamp_ms=0, step_ms=1), batches(11, 9, timestamp_ms=2000)
    archive.add("orders", 0, early + rewrite_rig.unreadable_batch(10) + late)  # it is of 1000 ms
    for time_ms, left_out in ((500, [(0, 10, 11)]), (1500, [])):
        settings = rig.settings(archive, str(tmp_path / f"lake-{time_ms}"), startingTimestamp=str(time_ms))
        summary = backfill(settings, rig.HereRunner())
        assert (summary.rows, summary.left_out) == (9, left_out)
