"""Micro-batches of a stream, decided without an archive."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.source.stream_plan import NO_LIMITS, BatchLimits, Span, batch_ranges, frozen, next_end, record_end
from stratalog.wire.topic import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))
COUNTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400)), max_size=4)
LATE = 1 << 40


class Stub(NamedTuple):
    """The fields of an entry that `record_end` uses."""

    base: int
    end: int
    record_count: int


@pytest.mark.story
@given(steps=st.lists(st.tuples(COUNTS, st.integers(1, 300)), min_size=1, max_size=12))
def test_batches_cover_every_offset_once_and_keep_to_the_limit(steps):
    """While partitions appear and grow between them; asked again, a batch reads what it read before."""
    spans: dict[TopicPartition, Span] = {}
    position: dict[TopicPartition, int] = {}
    read = dict.fromkeys((A, B, C), 0)

    def step(limit):
        nonlocal position
        end = next_end(position, spans, BatchLimits(offsets_max=limit), LATE)
        batch = batch_ranges(position, end, spans)
        assert batch == batch_ranges(dict(position), dict(end), dict(spans))
        assert batch.losses == ()
        for partition, offsets in batch.ranges.items():
            assert offsets.start == read[partition] < offsets.end
            read[partition] = offsets.end
        total = sum(offsets.end - offsets.start for offsets in batch.ranges.values())
        assert total <= limit + len(spans)
        position = end
        return total

    for growth, limit in steps:
        for number, count in growth:
            partition = (A, B, C)[number]
            spans[partition] = Span(0, spans.get(partition, Span(0, 0)).end_offset + count)
        step(limit)
    while step(100):
        pass
    assert position == {partition: span.end_offset for partition, span in spans.items()}
    assert read == {partition: spans.get(partition, Span(0, 0)).end_offset for partition in (A, B, C)}


@pytest.mark.story
@given(
    starts=st.dictionaries(st.sampled_from((A, B, C)), st.integers(0, 100)),
    spans=st.dictionaries(st.sampled_from((A, B, C)), st.tuples(st.integers(0, 100), st.integers(0, 100))),
    limit=st.integers(1, 50),
)
def test_a_stream_that_ends_comes_to_its_end_whatever_is_gone(starts, spans, limit):
    """Also from a checkpoint that knows partitions which are gone, cut at the front, or shorter than they were."""
    found = {partition: Span(low, low + count) for partition, (low, count) in spans.items()}
    still = frozen(found, {partition: span.end_offset for partition, span in found.items()})
    position, batches = dict(starts), 0
    while (end := next_end(position, still, BatchLimits(limit), 0)) != position:
        batch = batch_ranges(position, end, still)
        for partition, offsets in batch.ranges.items():
            assert found[partition].log_start_offset <= offsets.start < offsets.end <= found[partition].end_offset
            assert offsets.start >= position.get(partition, 0)
        position, batches = end, batches + 1
        assert batches < 310
    assert position == {partition: span.end_offset for partition, span in found.items()}


def test_a_limit_is_spread_in_proportion_to_what_waits():
    """As in Spark's Kafka source: the whole part of each share."""
    spans = {A: Span(0, 100), B: Span(0, 310), C: Span(50, 50)}
    assert next_end({A: 0, B: 10, C: 50}, spans, BatchLimits(40), LATE) == {A: 10, B: 40, C: 50}
    assert next_end({A: 0, B: 10, C: 50}, spans, BatchLimits(400), LATE) == {A: 100, B: 310, C: 50}
    assert next_end({A: 0, B: 10, C: 50}, spans, NO_LIMITS, LATE) == {A: 100, B: 310, C: 50}


def test_small_partitions_do_not_starve():
    """A share of less than one offset is one."""
    assert next_end({A: 0, B: 0}, {A: Span(0, 10**12), B: Span(0, 1)}, BatchLimits(10), LATE) == {A: 9, B: 1}


def test_few_records_wait_for_more_or_for_time():
    """No batch starts below the minimum until the delay is over; with enough, at once."""
    spans, limits = {A: Span(0, 30), B: Span(0, 40)}, BatchLimits(None, 50, 1000)
    start = {A: 10, B: 20}
    assert next_end(start, spans, limits, 999) == start
    assert next_end(start, spans, limits, 1000) == {A: 30, B: 40}
    assert next_end(start, {**spans, A: Span(0, 40)}, limits, 0) == {A: 40, B: 40}
    assert next_end(start, {**spans, A: Span(0, 100)}, BatchLimits(60, 50, 1000), 0) == {A: 59, B: 30}


def test_a_new_partition_is_read_from_its_beginning():
    """Also where the stream itself started at the end; its first records being gone is a loss."""
    spans = {A: Span(0, 10), B: Span(0, 4)}
    assert next_end({A: 10}, spans, NO_LIMITS, 0) == {A: 10, B: 4}
    assert batch_ranges({A: 10}, {A: 10, B: 4}, spans) == ({B: (0, 4, ())}, ())
    cut = batch_ranges({A: 10}, {A: 10, B: 4}, {**spans, B: Span(3, 4)})
    assert cut.ranges == {B: (3, 4, ())}
    assert [loss.partition(" is new")[0] for loss in cut.losses] == ["orders-1"]
    assert "starts at offset 3 instead of 0" in cut.losses[0]


@pytest.mark.parametrize(
    ("span", "end", "ranges", "message"),
    [
        (Span(20, 30), 30, {A: (20, 30, ())}, "offsets 5 to 19 were removed by retention"),
        (Span(40, 40), 40, {}, "offsets 5 to 39 were removed by retention"),
        (Span(0, 3), 3, {}, "ended at offset 3 when this stream had come to 5"),
        (None, None, {}, "orders-0 is gone from the archive, or from what this stream reads, at offset 5"),
    ],
)
def test_offsets_that_are_gone_are_a_loss(span, end, ranges, message):
    """And the stream goes on behind it, after the report."""
    spans = {} if span is None else {A: span}
    found = next_end({A: 5}, spans, BatchLimits(10), LATE)
    assert found == ({} if end is None else {A: end})
    batch = batch_ranges({A: 5}, found, spans)
    assert batch.ranges == ranges
    assert [message in loss for loss in batch.losses] == [True]
    assert batch_ranges(found, next_end(found, spans, BatchLimits(10), LATE), spans) == ({}, ())


def test_a_batch_out_of_the_checkpoint_is_judged_by_what_is_there_now():
    """Between the two runs its partition may have lost its front, its end, or all."""
    assert batch_ranges({A: 5}, {A: 20}, {A: Span(9, 15)}).ranges == {A: (9, 15, ())}
    front, end = batch_ranges({A: 5}, {A: 20}, {A: Span(9, 15)}).losses
    assert "offsets 5 to 8 were removed" in front
    assert "ends at offset 15, and this stream was to read up to 19" in end
    assert len(batch_ranges({A: 5}, {A: 20}, {}).losses) == 1
    assert batch_ranges({A: 5}, {A: 5}, {}) == ({}, ())


def test_frozen_spans_hide_what_came_later():
    """Newer records, new partitions, and a log start that has moved beyond the end."""
    now = {A: Span(0, 30), B: Span(25, 40), C: Span(0, 1)}
    assert frozen(now, {A: 20, B: 20}) == {A: Span(0, 20), B: Span(20, 20)}


@pytest.mark.story
@given(
    objects=st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 50)), min_size=1, max_size=5),
    count=st.integers(1, 60),
)
def test_holes_are_passed_in_as_many_steps_as_there_are_records(objects, count):
    """The number of steps grows with the records, not with the holes; each step goes on by the limit at least."""
    entries, at = [], 0
    for offset_count, record_count in objects:
        records = min(offset_count, record_count)
        entries.append(Stub(at, at + offset_count, records))
        at += offset_count
    position, steps = 0, 0
    while position < at:
        end = record_end(entries, position, count)
        assert end >= position + count
        position, steps = end, steps + 1
    assert steps <= sum(each.record_count for each in entries) // count + len(entries)


def test_without_holes_records_are_offsets():
    """Over borders of objects, from the middle of one, and behind all that there is."""
    entries = [Stub(0, 100, 100), Stub(100, 150, 50)]
    assert [record_end(entries, begin, 60) for begin in (0, 30, 90, 149, 200)] == [60, 90, 150, 209, 260]


def test_a_limit_asks_how_far_records_reach():
    """Only where it ends a micro-batch inside a partition, and never beyond what the partition has."""
    asked = []

    def reach(partition, begin, count):
        asked.append((partition, begin, count))
        return begin + 10**6

    spans = {A: Span(0, 1000), B: Span(0, 10**9)}
    ends = next_end({A: 1000, B: 5}, spans, BatchLimits(offsets_max=7), LATE, reach)
    assert ends == {A: 1000, B: 1_000_005}
    assert asked == [(B, 5, 7)]
    assert next_end({A: 999, B: 10**9 - 20}, spans, BatchLimits(offsets_max=7), LATE, reach) == {A: 1000, B: 10**9}
