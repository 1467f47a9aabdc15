"""The next work of a backfill."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stratalog.spark.backfill.plan import (
    PlanLimits,
    foresee,
    plan_abandoned,
    plan_new,
    plan_rewrites,
    runs_of,
    span_bytes,
    tasks_of,
)
from stratalog.spark.ledger.ledger import Head, Ledger, LedgerConflict, SourceObject, Span, SpanId, covered
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive
from stratalog.wire.topic import TopicPartition

ORDERS = TopicPartition("orders", 2)
KIB = 1 << 10


def entry(base: int, end: int, data_bytes: int = KIB, **other: Any) -> Entry:
    return Entry(
        uuid=base.to_bytes(16, "big"),
        base=base,
        end=end,
        epoch=0,
        key=f"seg/{base}",
        size_bytes=data_bytes + 200,
        data_bytes=data_bytes,
        crc32c=base,
        data_crc32c=0,
        chunks_position=data_bytes,
        chunks_bytes=max(KIB, data_bytes),
        min_timestamp_ms=other.pop("min_ms", 0),
        max_timestamp_ms=other.pop("max_ms", 0),
        max_timestamp_offset=0,
        batch_count=1,
        record_count=end - base,
        **other,
    )


def archive(*entries: Entry, log_start: int = 0) -> PartitionArchive:
    return PartitionArchive(ORDERS, log_start, entries[-1].end, entries)


def whole(view: PartitionArchive) -> OffsetRange:
    return OffsetRange(view.log_start_offset, view.end_offset)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 40)), min_size=1, max_size=20),
    st.integers(1, 60),
    st.sets(st.integers(0, 20), max_size=4),
)
def test_spans_cover_what_is_missing_and_nothing_else(
    sizes: list[tuple[int, int]], span_kib: int, done: set[int]
) -> None:
    """Random sizes of objects give each missing offset to one span, whose sources are the objects it lies in."""
    entries, at = [], 0
    for count, kib in sizes:
        entries.append(entry(at, at + count, kib * KIB))
        at += count
    view = archive(*entries)
    coverage = {2: covered((), [(each.base, each.end) for index, each in enumerate(entries) if index in done])}
    spans, losses = plan_new(view, whole(view), coverage, PlanLimits(span_kib * KIB))
    assert losses == []
    offsets = [offset for span in spans for offset in range(span.id.start, span.id.end)]
    assert offsets == [
        offset for index, each in enumerate(entries) if index not in done for offset in range(each.base, each.end)
    ]
    for span in spans:
        inside = [each for each in entries if each.base < span.id.end and each.end > span.id.start]
        assert span.sources == tuple(SourceObject(each.key, each.crc32c) for each in inside)
        assert span.id.partition == 2
        assert len(span.slices) == 1 or span.source_bytes <= span_kib * KIB
    plan = foresee(spans, [view], PlanLimits(span_kib * KIB, 50 * KIB, 200 * KIB))
    assert plan.offsets == len(offsets)
    assert plan.usage.reads == sum(len(span.slices) for span in spans)


def test_small_objects_become_one_span_and_large_ones_several() -> None:
    """Ten thousand objects of 1 MiB are some dozens of tasks; an object of 1 GiB is divided by offsets."""
    small = archive(*(entry(at * 10, at * 10 + 10, 1 << 20) for at in range(10_000)))
    spans, _ = plan_new(small, whole(small), {}, PlanLimits(256 << 20))
    assert len(tasks_of(spans, PlanLimits(256 << 20))) == len(spans) == 40
    large = archive(entry(0, 1 << 20, 1 << 30))
    spans, _ = plan_new(large, whole(large), {}, PlanLimits(256 << 20))
    assert [(span.id.start, span.id.end) for span in spans] == [(at << 18, at + 1 << 18) for at in range(4)]


def test_spans_end_at_holes() -> None:
    """An offset that the archive does not have is reported, and does not count as converted."""
    view = archive(entry(0, 10), entry(20, 30))
    spans, losses = plan_new(view, whole(view), {}, PlanLimits(1 << 30))
    assert [(span.id.start, span.id.end) for span in spans] == [(0, 10), (20, 30)]
    assert losses == ["orders-2: the manifest has no object for the offsets 10 to 19"]


def test_the_newest_records_may_wait_for_more() -> None:
    """While they are few and young; what lies before them does not wait."""
    view = archive(entry(0, 10, uploaded_ms=50), entry(10, 20, uploaded_ms=100))
    for until_ms, smallest, converted in ((60, 4 * KIB, 10), (101, 4 * KIB, 20), (60, KIB, 20)):
        limits = PlanLimits(KIB, span_bytes_min=smallest, waits_until_ms=until_ms)
        spans, _ = plan_new(view, whole(view), {}, limits)
        assert spans[-1].id.end == converted
    bounded, _ = plan_new(view, OffsetRange(0, 15), {}, PlanLimits(KIB))
    assert [(span.id.start, span.id.end) for span in bounded] == [(0, 10), (10, 15)]


@pytest.mark.parametrize(
    ("total", "cores", "read", "written", "expected"),
    [
        (100 << 30, 2, 0, 0, 512 << 20),
        (100 << 30, 2, 1000, 200, 1280 << 20),
        (100 << 30, 2, 1000, 2000, 256 << 20),
        (1 << 30, 4, 0, 0, 128 << 20),
        (1 << 20, 16, 0, 0, 32 << 20),
    ],
)
def test_spans_fill_a_file_and_keep_every_core_busy(
    total: int, cores: int, read: int, written: int, expected: int
) -> None:
    """By what reading and writing showed so far; no smaller than is worth a task."""
    assert span_bytes(total, cores, 256 << 20, read_bytes=read, written_bytes=written) == expected


def test_only_spans_that_were_compacted_since_are_rewritten() -> None:
    """Merged objects hold the same rows; a span is divided where retention has taken a part of it, in one run."""
    old = archive(entry(0, 10), entry(10, 20), entry(20, 30))
    spans = {
        SpanId(2, start, start + 10): Span(SpanId(2, start, start + 10), (SourceObject(f"seg/{start}", start),), ())
        for start in (0, 10, 20)
    }
    ledger = Ledger(Head("orders", "id"), {**spans, SpanId(3, 0, 10): Span(SpanId(3, 0, 10), (), ())})
    assert plan_rewrites(old, ledger) == []
    merged = archive(structs.replace(entry(0, 20), key="seg/merged"), entry(20, 30))
    assert plan_rewrites(merged, ledger) == []
    compacted = archive(structs.replace(entry(0, 20), key="seg/clean", compacted=True), entry(20, 30))
    found = plan_rewrites(compacted, ledger)
    assert [(*span.id, span.replaces) for span in found] == [(2, 0, 10, (2, 0, 10)), (2, 10, 20, (2, 10, 20))]
    begun = plan_rewrites(structs.replace(compacted, log_start_offset=5), ledger)
    assert [(*span.id, span.replaces) for span in begun] == [
        (2, 5, 10, (2, 0, 10)),
        (2, 0, 5, (2, 0, 10)),
        (2, 10, 20, (2, 10, 20)),
    ]
    assert [len(run) for run in runs_of(begun, 1)] == [2, 1]
    assert plan_rewrites(structs.replace(compacted, log_start_offset=10), ledger) == found[1:]


def test_an_archive_of_an_earlier_state_is_not_followed_back() -> None:
    """A backfill that looked at it before another one saw it go back would bring the rows of the abandoned state back."""
    view = structs.replace(archive(entry(0, 10)), shortened_seq=4)
    ledger = Ledger(Head("orders", "id", shortened={2: 9}), {})
    with pytest.raises(LedgerConflict, match=r"orders-2: another backfill.*after change 9.*after change 4. Run again"):
        plan_abandoned(view, ledger)
    assert plan_abandoned(structs.replace(view, shortened_seq=9), ledger) == ([], [], [])


def test_a_partition_does_not_look_at_the_spans_of_others() -> None:
    """A thousand partitions of a hundred spans each took a minute and a half of each look."""

    class Counted(dict[SpanId, Span]):
        looks = 0

        def items(self) -> Any:
            Counted.looks += 1
            return super().items()

    ids = [SpanId(number, 0, 10) for number in range(20)]
    ledger = Ledger(Head("orders", "id", shortened={2: 3}), Counted({each: Span(each, (), ()) for each in ids}))
    views = [
        structs.replace(archive(entry(0, 10)), partition=TopicPartition("orders", number), shortened_seq=4)
        for number in range(20)
    ]
    assert [(plan_abandoned(view, ledger)[0], plan_rewrites(view, ledger)) for view in views] == [
        ([SpanId(2, 0, 10)] if number == 2 else [], []) for number in range(20)
    ]
    assert Counted.looks == 1


def test_runs_and_tasks_hold_about_as_much_as_asked() -> None:
    """In order; a span that is larger stands alone."""
    view = archive(*(entry(at * 10, at * 10 + 10) for at in range(7)))
    spans, _ = plan_new(view, whole(view), {}, PlanLimits(KIB))
    assert [len(task) for task in tasks_of(spans, PlanLimits(KIB, 3 * KIB))] == [3, 3, 1]
    assert [len(run) for run in runs_of(spans, 100)] == [1] * 7
    assert tasks_of([], PlanLimits(KIB)) == []


def test_every_core_has_work_while_spans_are_small() -> None:
    """Six spans of 30 MiB would fit into one task; a dozen of some KiB do, since each task costs time of its own."""
    view = archive(*(entry(at * 10, at * 10 + 10, 30 << 20) for at in range(6)))
    spans, _ = plan_new(view, whole(view), {}, PlanLimits(30 << 20))
    for core_count, tasks in ((1, [3, 3]), (2, [1] * 6), (16, [1] * 6)):
        limits = PlanLimits(30 << 20, core_count=core_count)
        assert [len(task) for task in tasks_of(spans, limits)] == tasks
        assert foresee(spans, [view], limits).tasks == len(tasks)
    few = archive(*(entry(at * 10, at * 10 + 10) for at in range(12)))
    spans, _ = plan_new(few, whole(few), {}, PlanLimits(KIB))
    assert [len(task) for task in tasks_of(spans, PlanLimits(KIB, core_count=8))] == [12]


def test_days_are_counted_as_files() -> None:
    """By the times that the manifest knows; requests of the target follow."""
    day_ms = 86_400_000
    view = archive(entry(0, 10, min_ms=day_ms, max_ms=3 * day_ms + 5))
    spans, _ = plan_new(view, whole(view), {}, PlanLimits(KIB))
    plan = foresee(spans, [view], PlanLimits(KIB))
    assert (plan.files, plan.runs, plan.target_usage.writes, plan.target_usage.deletes) == (3, 1, 9, 3)
