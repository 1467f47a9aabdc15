"""One span into staged files."""

from __future__ import annotations

import logging
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from stratalog.spark.backfill.convert import ConvertRequest, convert_task
from stratalog.spark.backfill.plan import PlanLimits, SpanTask, plan_new
from stratalog.spark.ledger.layout import staging_prefix
from stratalog.spark.ledger.ledger import SpanId
from stratalog.spark.ledger.target import open_target
from stratalog.spark.source.planner import DataLoss
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive
from stratalog.tier.stores.opening import provide_store
from stratalog.tier.stores.store import StoreUnavailable
from stratalog.wire.batch import HEADER_BYTES, Record, build_batch, build_control_batch
from stratalog.wire.topic import TopicPartition


def planned(archive: Any, topic: str = "orders") -> tuple[SpanTask, ...]:
    """One span of partition 0."""
    manifest = archive.manifests[topic, 0]
    view = PartitionArchive(TopicPartition(topic, 0), 0, manifest.remote_end, manifest.entries)
    return tuple(plan_new(view, OffsetRange(0, manifest.remote_end), {}, PlanLimits(1 << 40))[0])


def request(archive: Any, **other: Any) -> ConvertRequest:
    url = f"memory:{uuid.uuid4().hex}"
    provide_store(url, archive.store)
    staging = staging_prefix("orders", "000000000001-a")
    return ConvertRequest("orders", url, f"memory:{uuid.uuid4().hex}", staging, 1, **other)


def test_two_attempts_stage_the_same(memory_archive: Any, batches: Any) -> None:
    """Names, bytes, and the description of each."""
    memory_archive.add("orders", 0, *(batches(at, 100) for at in range(0, 300, 100)))
    wanted = request(memory_archive)
    first = convert_task(planned(memory_archive), wanted)
    store = open_target(wanted.target, {}).store
    before = {info.key: store.get(info.key)[0] for info in store.list("")}
    assert convert_task(planned(memory_archive), wanted) == first
    assert {info.key: store.get(info.key)[0] for info in store.list("")} == before
    assert sorted(before) == sorted(wanted.staging + file.path for span in first for file in span.files)
    assert sum(span.rows for span in first) == 300


def test_rewritten_files_have_names_of_their_own(memory_archive: Any, batches: Any) -> None:
    """The number of their run is in them."""
    memory_archive.add("orders", 0, batches(0, 20))
    spans = tuple(replace(span, replaces=span.id, named_by_run=True) for span in planned(memory_archive))
    (span,) = convert_task(spans, request(memory_archive, partitioning="none"))
    assert [file.path for file in span.files] == [
        "orders/orders+0+00000000000000000000+00000000000000000019+r1.parquet"
    ]


def test_an_object_that_is_gone_is_left_out_where_that_is_accepted(memory_archive: Any, batches: Any) -> None:
    """The others of its span become spans of their own; what is gone is in none."""
    entries = memory_archive.add("orders", 0, *(batches(at, 100) for at in range(0, 300, 100)))
    spans = planned(memory_archive)
    memory_archive.store.delete_many([entries[1].key])
    with pytest.raises(DataLoss, match="offsets 100 to 199"):
        convert_task(spans, request(memory_archive))
    found = convert_task(spans, request(memory_archive, fail_on_data_loss=False))
    assert [(span.id.start, span.id.end, span.rows) for span in found] == [(0, 100, 100), (200, 300, 100)]
    assert (
        convert_task((replace(spans[0], replaces=spans[0].id),), request(memory_archive, fail_on_data_loss=False)) == []
    )


def test_a_span_may_have_two_parts_of_one_object(memory_archive: Any, batches: Any) -> None:
    """Each becomes a span where loss is accepted, as do whole objects."""
    entries = memory_archive.add("orders", 0, *(batches(at, 100) for at in (0, 100)))
    (span,) = planned(memory_archive)
    whole, last = span.slices
    parts = (whole._replace(end_offset=40), whole._replace(start_offset=40), last)
    memory_archive.store.delete_many([entries[1].key])
    found = convert_task((replace(span, slices=parts),), request(memory_archive, fail_on_data_loss=False))
    assert [(one.id.start, one.id.end, one.rows, len(one.sources)) for one in found] == [
        (0, 40, 40, 1),
        (40, 100, 60, 1),
    ]


def transactional(first: int, producer: int, count: int = 5) -> bytes:
    records = [Record(first + at, 1000 + at, None, b"v%d" % at, ()) for at in range(count)]
    return bytes(build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True))


def test_a_span_without_rows_is_converted_into_no_file(memory_archive: Any) -> None:
    """An aborted transaction and its marker: the offsets are done, and there is nothing to see."""
    marker = bytes(
        build_control_batch(
            0, bytes(6), offset=5, timestamp_ms=1, leader_epoch=0, producer_id=7, producer_epoch=0, transactional=True
        )
    )
    memory_archive.add("orders", 0, transactional(0, 7) + marker, aborted=[AbortedTransaction(7, 0, 5, 6)])
    (span,) = convert_task(planned(memory_archive), request(memory_archive))
    assert (span.files, span.rows, span.id.end) == ((), 0, 6)
    (uncommitted,) = convert_task(planned(memory_archive), request(memory_archive, read_committed=False))
    assert uncommitted.rows == 5


def test_a_failed_staging_leaves_no_file_behind(
    memory_archive: Any, batches: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of the worker is clean after a failure, because the worker may try again and again."""
    memory_archive.add("orders", 0, batches(0, 100, timestamp_ms=0, step_ms=10_000_000))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    wanted = request(memory_archive)
    target = open_target(wanted.target, {})
    stage = type(target).stage
    staged: list[str] = []

    def refused(self: Any, path: Path, key: str) -> tuple[int, int]:
        staged.append(key)
        if len(staged) == 2:
            raise StoreUnavailable("put_large", key, self.url, "the store is away")
        return stage(self, path, key)

    monkeypatch.setattr(type(target), "stage", refused)
    with pytest.raises(StoreUnavailable):
        convert_task(planned(memory_archive), wanted)
    assert list(tmp_path.iterdir()) == []


def test_a_span_leaves_out_what_lies_in_it(memory_archive: Any, batches: Any) -> None:
    """Two spans that share a batch leave out their own parts of it; one that can read its part leaves out none."""
    odd = build_batch([Record(10 + n, 1_000, b"key", b"value") for n in range(10)], leader_epoch=0)
    for number in (0, 2):  # the keys of these reach beyond their records
        odd[HEADER_BYTES + number * (1 + (odd[HEADER_BYTES] >> 1)) + 4] = 100
    odd[17:21] = crc32c(bytes(odd[21:])).to_bytes(4, "big")
    memory_archive.add("orders", 0, batches(0, 10) + bytes(odd) + batches(20, 5))
    (whole,) = planned(memory_archive)
    spans = [
        replace(
            whole,
            id=SpanId(0, start, end),
            slices=tuple(each._replace(start_offset=start, end_offset=end) for each in whole.slices),
        )
        for start, end in ((0, 12), (12, 14), (14, 25))
    ]
    found = convert_task(tuple(spans), request(memory_archive))
    assert [(span.left_out, span.rows) for span in found] == [(((10, 12),), 10), (((12, 14),), 0), ((), 11)]


def test_neighbours_that_are_left_out_are_one_range(
    memory_archive: Any, batches: Any, rewrite_rig: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line, and in one place of the record of the run, which a reader of the ledger opens whole."""
    odd = [rewrite_rig.unreadable_batch(offset) for offset in (0, 1, 2, 5)]
    memory_archive.add("orders", 0, b"".join(odd[:3]) + batches(3, 2) + odd[3])
    with caplog.at_level(logging.WARNING, "stratalog.spark"):
        (span,) = convert_task(planned(memory_archive), request(memory_archive))
    assert (span.left_out, span.rows) == (((0, 3), (5, 6)), 2)
    assert len(caplog.records) == 2
