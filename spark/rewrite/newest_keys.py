"""The newest offset of each key, as far as one task sees: what a compaction joins over all tasks.

Rows are (partition, key, code): codes are offsets that sort as offsets do and say which tombstones ask for a rewrite
(`stratalog.spark.rewrite.filter`). Only committed records with a key count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stratalog.spark.archive_store import open_archive
from stratalog.spark.rewrite.filter import unread_code
from stratalog.spark.rows.schema import DELETE_HORIZON, TOMBSTONE
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.tier.planning.slices import SegmentSlice

__all__ = ["KeyRequest", "UnreadBatches", "newest", "newest_keys", "read_newest"]

KEY_SCHEMA: Final = pa.schema([("partition", pa.int32()), ("key", pa.binary()), ("code", pa.int64())])
_COLUMNS: Final = ("key", "offset", TOMBSTONE, DELETE_HORIZON)
_ROWS_JOINED: Final = 1 << 18
"""Rows among which a task itself looks for the newest of each key before it passes them on."""
_WORTH: Final = 0.9
"""Where more than this share of rows is left, keys hardly repeat, and looking costs more than it saves."""


_logger = logging.getLogger("stratalog.spark")


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """Settings shared by all tasks of one compaction. ``forgettable_below`` is by partition."""

    archive: str
    now_ms: int
    forgettable_below: Mapping[int, int]
    batch_bytes: int = 2 << 20
    archive_options: Mapping[str, str] = field(default_factory=dict, repr=False)


class UnreadBatches:
    """Notes the batches of a scan that are as their producer sent them and cannot be read; they stay as they stand."""

    def __init__(self) -> None:
        self.base_offsets: list[int] = []
        self._end_offset = -1

    def __call__(self, start_offset: int, end_offset: int, reason: str) -> None:
        """See `stratalog.spark.rows.decode.OnDamage`."""
        if start_offset != self._end_offset:  # a line for each neighbour would be millions
            _logger.warning("batches from offset %d on stay as they stand: %s", start_offset, reason)
        self._end_offset = end_offset
        self.base_offsets.append(start_offset)

    def rows(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Rows (partition, null, code) for them."""
        if self.base_offsets:
            count = len(self.base_offsets)
            codes = pa.array([unread_code(base) for base in self.base_offsets], pa.int64())
            whose = pa.array(np.full(count, partition, np.int32))
            yield pa.RecordBatch.from_arrays([whose, pa.nulls(count, pa.binary()), codes], schema=KEY_SCHEMA)


def newest_keys(slices: Sequence[SegmentSlice], request: KeyRequest) -> Iterator[pa.RecordBatch]:
    """The keys of ``slices`` with the newest code of each, or several of them. Raises what `read_slices` raises."""
    store = open_archive(request.archive, request.archive_options)
    read = ReadRequest(_COLUMNS, batch_bytes=request.batch_bytes)
    for partition in dict.fromkeys(each.partition for each in slices):
        own = [each for each in slices if each.partition == partition]
        unread = UnreadBatches()
        yield from read_newest(read_slices(store, own, read, on_unreadable=unread), partition, request)
        yield from unread.rows(partition)


def read_newest(batches: Iterator[pa.RecordBatch], partition: int, request: KeyRequest) -> Iterator[pa.RecordBatch]:
    """The same for rows of one partition that were read already."""
    waiting: list[pa.Table] = []
    rows = 0
    worth = True
    for batch in batches:
        table = _coded(batch, request.now_ms, request.forgettable_below.get(partition, 0))
        if not worth:
            yield from _passed_on(table, partition)
            continue
        waiting.append(table)
        rows += len(table)
        if rows >= _ROWS_JOINED:
            joined = newest(pa.concat_tables(waiting))
            yield from _passed_on(joined, partition)
            worth = len(joined) < _WORTH * rows
            waiting, rows = [], 0
    if waiting:
        yield from _passed_on(newest(pa.concat_tables(waiting)), partition)


def newest(table: pa.Table) -> pa.Table:
    """One row for each key, with its largest code; those of batches that could not be read stay apart."""
    is_unread = pc.less(table.column("code"), 0)
    if pc.any(is_unread).as_py():
        return pa.concat_tables([newest(table.filter(pc.invert(is_unread))), table.filter(is_unread)])
    found = table.group_by("key", use_threads=False).aggregate([("code", "max")])
    return found.select(["key", "code_max"]).rename_columns(["key", "code"])


def _coded(batch: pa.RecordBatch, now_ms: int, forgettable_below: int) -> pa.Table:
    """Keys and codes of the records that have keys."""
    offsets = batch.column("offset").to_numpy()
    horizons = batch.column(DELETE_HORIZON).to_numpy()
    tombstones = batch.column(TOMBSTONE).to_numpy(zero_copy_only=False)
    due = (horizons <= now_ms) & (offsets < forgettable_below)
    codes = offsets << 1 | (tombstones & ((horizons < 0) | due))
    table = pa.table({"key": batch.column("key"), "code": pa.array(codes.astype(np.int64))})
    return table.filter(pc.is_valid(table.column("key"))) if batch.column("key").null_count else table


def _passed_on(table: pa.Table, partition: int) -> Iterator[pa.RecordBatch]:
    whose = pa.array(np.full(len(table), partition, np.int32))
    whole = pa.table({"partition": whose, "key": table.column("key"), "code": table.column("code")}, schema=KEY_SCHEMA)
    yield from whole.to_batches()
