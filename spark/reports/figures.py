"""Figures of archived topics: records, bytes, keys, and offsets that no record has, by topic, partition and day.

Each task decodes its slices and adds up, so that Spark gets one row for each key of a day, or for each day, and not one
for each record. Gaps between the records of two tasks are found when all have reported where they began and ended.
The day is that of the record's time, in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stratalog.spark.archive_store import open_archive
from stratalog.spark.source.fetch import ReadRequest, open_quarantine, read_slices
from stratalog.spark.source.options import ReadOptions
from stratalog.spark.source.read_lease import LeaseTicket, keep_lease
from stratalog.tier.planning.slices import SegmentSlice
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = [
    "PARTS",
    "SUMS",
    "Edge",
    "Figures",
    "Keys",
    "Missing",
    "check_grouping",
    "day_text",
    "figures",
    "figures_table",
    "missing_between",
    "sum_slices",
]

_DAY_US: Final = 86_400_000_000
_ROWS_MAX: Final = 1 << 19
_KEY_BYTES_MAX: Final = 32 << 20
"""After so many rows, or bytes of keys, a task hands on what it has added up."""
_NO_DAY: Final = -(1 << 62)
SUMS: Final = ("records", "bytes", "null_keys", "null_values", "missing", "gaps")
"""The sums."""
PARTS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("day", pa.int64()),
        ("key", pa.binary()),
        *((name, pa.int64()) for name in SUMS),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("first_timestamp_us", pa.int64()),
        ("last_timestamp_us", pa.int64()),
        ("last_day", pa.int64()),
    ]
)
"""Partial sums of tasks. Rows with a ``last_day`` are edges: the first and last record of a partition in a task."""


class Keys(StrEnum):
    """How distinct keys are counted."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    NONE = "none"


class Edge(NamedTuple):
    """Where the records of a partition begin and end in one task; days are counted from 1970."""

    first_offset: int
    first_day: int
    last_offset: int
    last_day: int


class Missing(NamedTuple):
    """Offsets that no record has, and in how many runs they lie."""

    offsets: int
    runs: int


class Figures(NamedTuple):
    """One row of the result. ``partition`` and ``day`` are None where they are not told apart; ``keys`` where keys are
    not counted. ``bytes`` are those of keys and values, not compressed. Times are in ms since 1970.

    ``missing_offsets`` have no record that can be read: markers and aborted records of transactions, what compaction
    removed. They count for the day of the record behind them, or before them at the end; ``gaps`` are runs of them.
    """

    topic: str
    partition: int | None
    day: str | None
    records: int
    bytes: int
    keys: int | None
    null_keys: int
    null_values: int
    missing_offsets: int
    gaps: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp: int | None
    last_timestamp: int | None


def check_grouping(by: Sequence[str]) -> tuple[str, ...]:
    """The grouping of figures, besides the topic. Raises `Invalid` for anything but ``partition`` and ``day``."""
    for name in by:
        if name not in {"topic", "partition", "day"}:
            raise Invalid(f"{name!r} is no way to group figures: choose among topic, partition and day")
    return tuple(name for name in ("partition", "day") if name in by)


def day_text(day: int | None) -> str | None:
    """``2026-11-22`` for a day counted from 1970; a number where no calendar has a name for it."""
    if day is None:
        return None
    try:
        return (date(1970, 1, 1) + timedelta(days=day)).isoformat()
    except OverflowError:
        return str(day)


def sum_slices(
    slices: Sequence[SegmentSlice], options: ReadOptions, lease: LeaseTicket | None, *, with_keys: bool
) -> Iterator[pa.RecordBatch]:
    """Partial sums of one task over ``slices``, which follow each other; see `PARTS`. Raises what `read_slices` raises."""
    store = open_archive(options.archive, options.store_options)
    keep_lease(store, lease)
    url = options.bad_records_url
    quarantine = open_quarantine(url, options.store_options) if url else None
    request = ReadRequest(
        ("topic", "partition", "offset", "timestamp", "key", "value"),
        batch_bytes=options.batch_bytes,
        read_committed=options.read_committed,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    summing: _Summing | None = None
    for batch in read_slices(store, slices, request, quarantine):
        if not batch.num_rows:
            continue
        partition = TopicPartition(batch.column(0)[0].as_py(), batch.column(1)[0].as_py())
        if summing is None or summing.partition != partition:
            if summing is not None:
                yield from summing.finish()
            summing = _Summing(partition, with_keys=with_keys)
        yield from summing.add(batch)
    if summing is not None:
        yield from summing.finish()


class _Summing:
    """Adds up the records of one partition, which come in offset order."""

    def __init__(self, partition: TopicPartition, *, with_keys: bool) -> None:
        self.partition = partition
        self._names = ["day", "key"] if with_keys else ["day"]
        self._rows: list[pa.RecordBatch] = []
        self._row_count = self._key_bytes = 0
        self._edge: Edge | None = None

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows in; sums, when there are many."""
        offsets, times_us = batch.column(2).to_numpy(), batch.column(3).cast(pa.int64()).to_numpy()
        keys, values = batch.column(4), batch.column(5)
        days = times_us // _DAY_US
        before = offsets[0] - 1 if self._edge is None else self._edge.last_offset
        missing = np.diff(offsets, prepend=before) - 1
        key_bytes, value_bytes = (pc.fill_null(pc.binary_length(each), 0).cast(pa.int64()) for each in (keys, values))
        columns = {
            "day": pa.array(days),
            "bytes": pc.add(key_bytes, value_bytes),
            "null_keys": keys.is_null().cast(pa.int64()),
            "null_values": values.is_null().cast(pa.int64()),
            "missing": pa.array(missing),
            "gaps": pa.array((missing > 0).astype(np.int64)),
            "offset": pa.array(offsets),
            "timestamp_us": pa.array(times_us),
        }
        if "key" in self._names:
            columns["key"] = keys
            self._key_bytes += keys.nbytes
        self._rows.append(pa.RecordBatch.from_pydict(columns))
        self._row_count += batch.num_rows
        start, first_day = (int(offsets[0]), int(days[0])) if self._edge is None else self._edge[:2]
        self._edge = Edge(start, first_day, int(offsets[-1]), int(days[-1]))
        if self._row_count >= _ROWS_MAX or self._key_bytes >= _KEY_BYTES_MAX:
            yield from self._sums()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The rest, and where the records began and ended."""
        yield from self._sums()
        edge = self._edge
        assert edge is not None
        row = {
            "day": edge.first_day, "first_offset": edge.first_offset, "last_offset": edge.last_offset,
            "last_day": edge.last_day, **dict.fromkeys(SUMS, 0),
        }  # fmt: skip
        yield self._told([{**row, "topic": self.partition.topic, "partition": self.partition.partition}])

    def _sums(self) -> Iterator[pa.RecordBatch]:
        if not self._rows:
            return
        table = pa.Table.from_batches(self._rows)
        self._rows, self._row_count, self._key_bytes = [], 0, 0
        wanted = [("bytes", "count"), *((name, "sum") for name in SUMS[1:])]
        wanted += [(name, kind) for name in ("offset", "timestamp_us") for kind in ("min", "max")]
        found = table.group_by(self._names, use_threads=False).aggregate(wanted)
        count = found.num_rows
        columns = {
            "topic": pa.array([self.partition.topic] * count, pa.string()),
            "partition": pa.array([self.partition.partition] * count, pa.int32()),
            "day": found["day"],
            "key": found["key"] if "key" in self._names else pa.nulls(count, pa.binary()),
            "records": found["bytes_count"],
            **{name: found[f"{name}_sum"] for name in SUMS[1:]},
            "first_offset": found["offset_min"],
            "last_offset": found["offset_max"],
            "first_timestamp_us": found["timestamp_us_min"],
            "last_timestamp_us": found["timestamp_us_max"],
            "last_day": pa.nulls(count, pa.int64()),
        }
        yield from pa.table(columns, schema=PARTS).combine_chunks().to_batches()

    def _told(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(rows, schema=PARTS)


def missing_between(start: int, end: int, edges: Iterable[Edge]) -> dict[int | None, Missing]:
    """By day, what is missing in the offsets ``[start, end)`` of a partition before, between and behind its tasks.

    Under None where no record has any of them.
    """
    found: dict[int | None, Missing] = {}

    def add(day: int | None, count: int) -> None:
        if count > 0:
            before = found.get(day, Missing(0, 0))
            found[day] = Missing(before.offsets + count, before.runs + 1)

    ordered = sorted(edges)
    if not ordered:
        add(None, end - start)
        return found
    add(ordered[0].first_day, ordered[0].first_offset - start)
    for before, after in pairwise(ordered):
        add(after.first_day, after.first_offset - before.last_offset - 1)
    add(ordered[-1].last_day, end - ordered[-1].last_offset - 1)
    return found


def figures(
    sums: Iterable[Mapping[str, Any]],
    missing: Mapping[TopicPartition, Mapping[int | None, Missing]],
    by: Sequence[str],
    keys: Keys,
) -> list[Figures]:
    """The result, sorted, from what was summed of records by topic and ``by``, and what is missing between tasks."""
    more: dict[tuple[str, int | None, int | None], Missing] = {}
    for partition, days in missing.items():
        for day, each in days.items():
            group = _group(partition.topic, partition.partition, day, by)
            before = more.get(group, Missing(0, 0))
            more[group] = Missing(before.offsets + each.offsets, before.runs + each.runs)
    rows: dict[tuple[str, int | None, int | None], Figures] = {}
    for row in sums:
        group = _group(row["topic"], row.get("partition"), row.get("day"), by)
        extra = more.pop(group, Missing(0, 0))
        rows[group] = Figures(
            group[0], group[1], day_text(group[2]), row["records"], row["bytes"],
            None if keys is Keys.NONE else row["keys"], row["null_keys"], row["null_values"],
            row["missing"] + extra.offsets, row["gaps"] + extra.runs, row["first_offset"], row["last_offset"],
            row["first_timestamp_us"] // 1000, row["last_timestamp_us"] // 1000,
        )  # fmt: skip
    for group, extra in more.items():
        no_keys = None if keys is Keys.NONE else 0
        rows[group] = Figures(
            group[0],
            group[1],
            day_text(group[2]),
            0,
            0,
            no_keys,
            0,
            0,
            extra.offsets,
            extra.runs,
            None,
            None,
            None,
            None,
        )
    return [rows[group] for group in sorted(rows, key=_order)]


def figures_table(rows: Sequence[Figures]) -> pa.Table:
    """The result as a table; times have a type of their own."""
    types = {"topic": pa.string(), "partition": pa.int32(), "day": pa.string()}
    types |= dict.fromkeys(("first_timestamp", "last_timestamp"), pa.timestamp("ms", tz="UTC"))
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in Figures._fields])
    return pa.Table.from_pylist([row._asdict() for row in rows], schema=schema)


def _group(topic: str, partition: int | None, day: int | None, by: Sequence[str]) -> tuple[str, int | None, int | None]:
    return topic, partition if "partition" in by else None, day if "day" in by else None


def _order(group: tuple[str, int | None, int | None]) -> tuple[str, int, int]:
    topic, partition, day = group
    return topic, -1 if partition is None else partition, _NO_DAY if day is None else day
