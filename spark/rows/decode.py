"""Record batches to Arrow: headers are walked in Python, records are decoded in groups by array code.

A group is some 2 MiB of record bytes of consecutive batches; one group becomes one Arrow batch. Every batch that
yields rows has its CRC-32C checked, unless that of its chunk has been. It skips unneeded work: without the columns of a record (key, value,
offset, timestamp, headers) its bytes are neither decompressed nor looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from stratalog.spark.rows.columns import (
    Positions,
    constant_int32,
    constant_text,
    headers_column,
    int32_column,
    int64_column,
    odd_batches,
    slices,
    timestamp_column,
    varints,
)
from stratalog.spark.rows.kernel import Kernel, chosen_kernel
from stratalog.spark.rows.kernel_columns import record_columns
from stratalog.spark.rows.schema import DELETE_HORIZON, HEADERS, TOMBSTONE, arrow_schema
from stratalog.spark.rows.starts import RECORD_BYTES_MIN, record_starts
from stratalog.wire.batch import HEADER_BYTES, MAGIC, BatchHeader, check_batch, iter_headers
from stratalog.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

__all__ = ["AbortedTransactions", "OnDamage", "Window", "decode_batches"]

AbortedTransactions = Mapping[int, Sequence[tuple[int, int]]]
"""Producer id -> its aborted transactions as (first offset, last offset), both inclusive, ascending and disjoint."""

_Verify: TypeAlias = Callable[[int, BatchHeader, bool], bytes | None]
OnDamage: TypeAlias = Callable[[int, int, str], None]
"""Told of the offsets ``[start, end)`` that are left out, and why."""

_UNCOMPRESSED: Final = Codec.NONE
_GROUP_BATCHES_MAX: Final = 4096
_RECORD_COLUMNS: Final = frozenset({"key", "value", "offset", "timestamp", HEADERS, TOMBSTONE, DELETE_HORIZON})
_FIELD_COLUMNS: Final = frozenset({"key", "value", HEADERS, TOMBSTONE})


class Window(Struct, frozen=True):
    """Which records are rows: offsets in ``[start_offset, end_offset)``, and whose.

    ``aborted`` is None to read uncommitted data too.
    """

    start_offset: int
    end_offset: int
    aborted: AbortedTransactions | None = field(default_factory=dict)

    def skips(self, header: BatchHeader) -> bool:
        """Whether no record of the batch can be a row."""
        if header.is_control or header.base_offset + header.last_offset_delta < self.start_offset:
            return True
        if not self.aborted or not header.is_transactional:
            return False
        return self._is_aborted(header, self.aborted)

    def contains(self, header: BatchHeader) -> bool:
        """Whether every record of the batch lies inside the offsets."""
        first = header.base_offset
        return first >= self.start_offset and first + header.last_offset_delta < self.end_offset

    @staticmethod
    def _is_aborted(header: BatchHeader, aborted: AbortedTransactions) -> bool:
        transactions = aborted.get(header.producer_id, ())
        begun = bisect_right(transactions, header.base_offset, key=itemgetter(0))
        return begun > 0 and header.base_offset <= transactions[begun - 1][1]


class _Group(Struct):
    """Consecutive batches whose records lie in one buffer once ``pieces``, if any, are joined."""

    pieces: list[bytes] = field(default_factory=list)
    headers: list[BatchHeader] = field(default_factory=list)
    bounds: list[tuple[int, int]] = field(default_factory=list)
    size_bytes: int = 0
    trimmed: bool = False

    def alone(self, index: int) -> _Group:
        """A group of only one of its batches."""
        start, end = self.bounds[index]
        if not self.pieces:
            return _Group([], [self.headers[index]], [(start, end)], end - start, self.trimmed)
        piece = self.pieces[index]
        return _Group([piece], [self.headers[index]], [(0, len(piece))], len(piece), self.trimmed)


def decode_batches(
    data: bytes,
    partition: TopicPartition,
    columns: Sequence[str],
    window: Window,
    *,
    batch_bytes: int = 2 << 20,
    required: Collection[str] = (),
    span: tuple[int, int] | None = None,
    checked: bool = False,
    on_damage: OnDamage | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``data``, whole record batches of ``partition``, as Arrow batches of exactly ``columns``.

    With ``span`` only of the bytes ``[start, end)``, which saves a copy of them. ``checked`` says that a CRC over all of
    these bytes has been compared already, so that those of the batches need not be. ``batch_bytes`` is the size of the record bytes behind one Arrow batch; a larger record batch stands alone.
    Raises `Corrupt`, naming the partition and the offset, for bytes that are not record batches; a batch whose bounds
    can be told is left out instead where ``on_damage`` is given, which gets the damage.
    """
    schema = arrow_schema(columns, required)
    kernel = chosen_kernel().kernel

    def decoded(group: _Group) -> pa.RecordBatch | None:
        joined = b"".join(group.pieces) if group.pieces else data
        try:
            arrays, count = _Rows(group, joined, pa.py_buffer(joined), window, kernel).columns(partition, columns)
        except (Corrupt, IndexError, OverflowError) as error:
            raise Corrupt(
                f"{partition}: a record in the batches from offset {group.headers[0].base_offset} up to "
                f"{group.headers[-1].last_offset} is damaged: {error}"
            ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if count else None

    batches = _whole_batches(data, partition, *(span or (0, len(data))))
    verify = partial(_verified, data, partition, checked=checked)
    for group in _groups(batches, verify, columns, window, batch_bytes, on_damage):
        try:
            batch = decoded(group)
        except Corrupt:
            if on_damage is None:
                raise
            yield from _sound_batches(group, decoded, on_damage)
        else:
            if batch is not None:
                yield batch


def _sound_batches(
    group: _Group, decoded: Callable[[_Group], pa.RecordBatch | None], on_damage: OnDamage
) -> Iterator[pa.RecordBatch]:
    """A group with a damaged batch, one batch at a time."""
    for index, header in enumerate(group.headers):
        try:
            batch = decoded(group.alone(index))
        except Corrupt as error:
            on_damage(header.base_offset, header.next_offset, str(error))
            continue
        if batch is not None:
            yield batch


def _groups(
    batches: Iterable[tuple[int, BatchHeader]],
    verify: _Verify,
    columns: Sequence[str],
    window: Window,
    batch_bytes: int,
    on_damage: OnDamage | None,
) -> Iterator[_Group]:
    needs_records = not _RECORD_COLUMNS.isdisjoint(columns)
    group = _Group()
    for position, header in batches:
        if header.base_offset >= window.end_offset:
            break
        if window.skips(header):
            continue
        try:
            piece = verify(position, header, needs_records or not window.contains(header))
        except Corrupt as error:
            if on_damage is None:
                raise
            on_damage(header.base_offset, header.next_offset, str(error))
            continue
        if not header.record_count:  # the cleaner keeps an emptied batch for its producer's sequence number
            continue
        inside = window.contains(header)
        if group.headers and (
            group.size_bytes >= batch_bytes
            or len(group.headers) >= _GROUP_BATCHES_MAX
            or (piece is not None) is not bool(group.pieces)
            or (group.trimmed is inside and not needs_records)  # in a cut batch's group all records are looked at
        ):
            yield group
            group = _Group()
        if piece is None:
            start, end = position + HEADER_BYTES, position + header.size_bytes
        else:
            group.pieces.append(piece)
            start, end = group.size_bytes, group.size_bytes + len(piece)
        group.headers.append(header)
        group.bounds.append((start, end))
        group.size_bytes += end - start
        group.trimmed |= not inside
    if group.headers:
        yield group


def _whole_batches(data: bytes, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    position, header = start, None
    try:
        for position, header in iter_headers(data, start, end):
            yield position, header
    except Corrupt as error:
        raise Corrupt(f"{partition}: {error}") from error
    after = start if header is None else position + header.size_bytes
    if after != end:
        raise Corrupt(f"{partition}: {end - after} bytes behind the last whole batch are no record batch")


def _verified(
    data: bytes, partition: TopicPartition, position: int, header: BatchHeader, decompressed: bool, *, checked: bool
) -> bytes | None:
    """Check the batch; the records of one that is compressed, if they are asked for. Raises `Corrupt`."""
    try:
        if not checked or header.magic != MAGIC:
            check_batch(data, position)
        if header.record_count < 0 or header.last_offset_delta < 0:
            raise Corrupt(f"the batch claims {header.record_count} records up to offset {header.last_offset}")
        codec = header.codec
        if codec is _UNCOMPRESSED or not decompressed or not header.record_count:
            return None
        records = memoryview(data)[position + HEADER_BYTES : position + header.size_bytes]
        return decompress(codec, records, DECOMPRESSED_BYTES_MAX)
    except Corrupt as error:
        raise Corrupt(f"{partition}, offset {header.base_offset}: {error}") from error


class _Rows:
    """Decodes one group."""

    def __init__(self, group: _Group, payload: bytes, buffer: pa.Buffer, window: Window, kernel: Kernel | None) -> None:
        self._group = group
        self._payload = payload
        self._buffer = buffer
        self._window = window
        self._kernel = kernel
        self._counts = np.array([header.record_count for header in group.headers], np.int64)
        self._kept: Positions | None = None

    def columns(self, partition: TopicPartition, columns: Sequence[str]) -> tuple[list[pa.Array], int]:
        """One array per column, and the number of rows."""
        wanted = frozenset(columns)
        made: dict[str, pa.Array] = {}
        if self._group.trimmed or wanted & _RECORD_COLUMNS:
            compiled = self._compiled(wanted)
            made = self._records(wanted) if compiled is None else compiled
        count = int(self._counts.sum()) if self._kept is None else len(self._kept)
        if "topic" in wanted:
            made["topic"] = constant_text(partition.topic, count)
        if "partition" in wanted:
            made["partition"] = constant_int32(partition.partition, count)
        if "timestampType" in wanted:
            made["timestampType"] = self._timestamp_types(count)
        return [made[name] for name in columns], count

    def _compiled(self, wanted: frozenset[str]) -> dict[str, pa.Array] | None:
        """The columns of `_records`, by the kernel; None if there is none, or if it refuses these bytes."""
        if self._kernel is None:
            return None
        group, window = self._group, self._window
        cut = (window.start_offset, window.end_offset) if group.trimmed else None
        columns = partial(record_columns, self._kernel, self._payload, group.headers, group.bounds)
        if cut and columns(None, ()) is None:
            return None  # which records lie in the window cannot be told by offsets that a client made up
        found = columns(cut, wanted)
        if found is None:
            return None
        self._counts = found.rows
        if DELETE_HORIZON in wanted:
            found.arrays[DELETE_HORIZON] = self._delete_horizons()
        return found.arrays

    def _records(self, wanted: frozenset[str]) -> dict[str, pa.Array]:
        payload = np.frombuffer(self._payload, np.uint8)
        starts = record_starts(self._payload, self._group.bounds, self._counts.tolist())
        lengths, bodies = varints(payload, starts)
        if (lengths < RECORD_BYTES_MIN - 1).any():
            raise Corrupt("a record is shorter than the shortest there can be")
        ends = bodies + lengths
        time_deltas, at = varints(payload, bodies + 1)  # a byte of attributes that no version uses comes first
        offset_deltas, at = varints(payload, at)
        offset_deltas = self._numbered(offset_deltas)
        offsets = self._repeat([header.base_offset for header in self._group.headers]) + offset_deltas
        if self._group.trimmed:
            inside = (offsets >= self._window.start_offset) & (offsets < self._window.end_offset)
            self._kept = kept = np.flatnonzero(inside)
            offsets, time_deltas, at, ends = offsets[kept], time_deltas[kept], at[kept], ends[kept]
        made: dict[str, pa.Array] = {}
        if "offset" in wanted:
            made["offset"] = int64_column(offsets)
        if "timestamp" in wanted:
            made["timestamp"] = timestamp_column(self._times(time_deltas))
        if DELETE_HORIZON in wanted:
            made[DELETE_HORIZON] = self._delete_horizons()
        if wanted & _FIELD_COLUMNS:
            self._fields(payload, at, ends, wanted, made)
        return made

    def _numbered(self, deltas: Positions) -> Positions:
        """The offset deltas, in some batches 0, 1, 2 ...: those that a client made up name no record.

        As `stratalog.hot.cleaner.records.opened_batch` has it, so that a rewrite finds at its offset what was read there.
        """
        lasts = np.array([header.last_offset_delta for header in self._group.headers], np.int64)
        odd = odd_batches(deltas, self._counts, lasts)
        if odd is None:
            return deltas
        if (self._counts[odd] > lasts[odd] + 1).any():
            raise Corrupt("a batch has more records than offsets")
        begins = np.cumsum(self._counts) - self._counts
        within = np.arange(len(deltas), dtype=np.int64) - np.repeat(begins, self._counts)
        return np.where(np.repeat(odd, self._counts), within, deltas)

    def _delete_horizons(self) -> pa.Array:
        horizons = [header.base_timestamp if header.has_delete_horizon else -1 for header in self._group.headers]
        return int64_column(self._pick(self._repeat(horizons)))

    def _repeat(self, per_batch: list[int]) -> Positions:
        return np.repeat(np.array(per_batch, np.int64), self._counts)

    def _pick(self, per_record: Positions) -> Positions:
        return per_record if self._kept is None else per_record[self._kept]

    def _times(self, deltas: Positions) -> Positions:
        headers = self._group.headers
        base = [header.max_timestamp if header.is_log_append_time else header.base_timestamp for header in headers]
        append_time = [header.is_log_append_time for header in headers]
        if any(append_time):
            # Under LogAppendTime the batch's largest timestamp is the time of all of its records.
            deltas = np.where(self._pick(np.repeat(np.array(append_time), self._counts)), 0, deltas)
        return self._pick(self._repeat(base)) + deltas

    def _timestamp_types(self, count: int) -> pa.Array:
        kinds = {header.is_log_append_time for header in self._group.headers}
        if len(kinds) == 1:
            return constant_int32(int(kinds.pop()), count)
        per_record = self._pick(self._repeat([header.is_log_append_time for header in self._group.headers]))
        return int32_column(per_record.astype(np.int32))

    def _fields(
        self, payload: np.ndarray, at: Positions, ends: Positions, wanted: frozenset[str], made: dict[str, pa.Array]
    ) -> None:
        key_lengths, keys = varints(payload, at)
        if (key_lengths > ends - keys - 2).any():  # the value's length and the number of headers follow
            raise Corrupt("a key reaches beyond its record")
        at = keys + np.maximum(key_lengths, 0)
        if "key" in wanted:
            made["key"] = slices(self._buffer, keys, key_lengths)
        if wanted.isdisjoint({"value", HEADERS, TOMBSTONE}):
            return
        value_lengths, values = varints(payload, at)
        if (value_lengths > ends - values - 1).any():
            raise Corrupt("a value reaches beyond its record")
        at = values + np.maximum(value_lengths, 0)
        if TOMBSTONE in wanted:
            made[TOMBSTONE] = pa.array(value_lengths < 0)
        if "value" in wanted:
            made["value"] = slices(self._buffer, values, value_lengths)
        if HEADERS in wanted:
            counts, at = varints(payload, at)
            made[HEADERS] = headers_column(payload, self._buffer, at, ends, counts)
