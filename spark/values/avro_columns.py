"""Avro data to Arrow by array code: one field of all rows at a time, without a Python object per row.

It takes data that are as their schema says and knows the usual types. For anything else, damage or a rare type, it
gives up, and fastavro decodes the batch row by row and finds what is wrong. So there is one meaning of Avro here, that
of fastavro; tests hold the two equal.

Positions only ever move on and never beyond the end of their row. A row is sound if its last field ends where it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stratalog.spark.rows.columns import slices, varints
from stratalog.spark.values.rows import scatter

__all__ = ["GiveUp", "Rows", "decode_columns", "reader_of"]

Positions: TypeAlias = npt.NDArray[np.int64]
Schema: TypeAlias = Any
_ITEMS_MAX: Final = 1024
"""Longest array of a row: items are decoded one after another, each for all rows that have so many."""
_BLOCK_ITEMS_MAX: Final = 1 << 40
_MILLISECONDS: Final = frozenset({"timestamp-millis", "local-timestamp-millis"})
_INTEGERS: Final = frozenset({"int", "long"})
_TEXTS: Final = frozenset({"bytes", "string"})
_FLOATS: Final = {"float": (4, np.dtype("<f4")), "double": (8, np.dtype("<f8"))}
_BOUNDS: Final = {
    "int": (-(1 << 31), (1 << 31) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
    # The years 1 to 9999, as fastavro has them.
    "date": (-719_162, 2_932_896),
    "timestamp-millis": (-62_135_596_800_000, 253_402_300_799_999),
    "timestamp-micros": (-62_135_596_800_000_000, 253_402_300_799_999_999),
    "local-timestamp-millis": (-62_135_596_800_000, 253_402_300_799_999),
    "local-timestamp-micros": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
"""By type or logical type, the smallest and the largest number."""
_NUMBERS: Final = ("int", "long", "float", "double")


class GiveUp(Exception):
    """Left to fastavro: a schema, or data."""


class Rows:
    """Where each of the rows is read next, and where it ends."""

    def __init__(self, buffer: pa.Buffer, at: Positions, ends: Positions) -> None:
        self.buffer = buffer
        self.data = np.frombuffer(buffer, np.uint8)
        self.at = at
        self.ends = ends

    def __len__(self) -> int:
        return len(self.at)

    def move(self, at: Positions) -> None:
        """Go on at ``at``. Raises `GiveUp` where that is beyond the end of a row."""
        if (at > self.ends).any():
            raise GiveUp("a field reaches beyond its row")
        self.at = at

    def varint(self) -> Positions:
        """The next number of each row."""
        values, at = varints(self.data, self.at)
        self.move(at)
        return values

    def some(self, rows: Positions) -> Rows:
        """Those of the rows that have the numbers ``rows``."""
        return Rows(self.buffer, self.at[rows], self.ends[rows])

    def merge(self, rows: Positions, part: Rows) -> None:
        """Go on where ``part``, which was `some`, has arrived."""
        at = self.at.copy()
        at[rows] = part.at
        self.at = at


Reader: TypeAlias = Callable[[Rows], pa.Array]
"""Reads the next value of each row as one array."""


def decode_columns(values: pa.Array, reader: Reader) -> pa.Array:
    """A binary array without nulls, each value read by ``reader``. Raises `GiveUp`, about any row at all."""
    _, offsets_buffer, data_buffer = values.buffers()
    if data_buffer is None:
        raise GiveUp("there are no data")
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    rows = Rows(data_buffer, offsets[:-1], offsets[1:])
    try:
        decoded = reader(rows)
    except (IndexError, OverflowError, pa.ArrowInvalid) as error:
        raise GiveUp(str(error)) from error
    if (rows.at != rows.ends).any():
        raise GiveUp("a row is longer than its fields")
    return decoded


def reader_of(reader: Schema, writer: Schema, kind: pa.DataType, kind_of: Callable[[Schema], pa.DataType]) -> Reader:
    """A reader of ``writer``'s data as ``reader``, whose type is ``kind``; ``kind_of`` gives the types of other schemas.

    Raises `GiveUp` for what is left to fastavro.
    """
    return _Compiler(kind_of).reader(reader, writer, kind)


class _Compiler:
    """Walks both schemas at once, and keeps the named types that each of them has defined so far."""

    def __init__(self, kind_of: Callable[[Schema], pa.DataType]) -> None:
        self._kind_of = kind_of
        self._readers: dict[str, Schema] = {}
        self._writers: dict[str, Schema] = {}

    def reader(self, reader: Schema, writer: Schema, kind: pa.DataType) -> Reader:
        reader, writer = _plain(reader, self._readers), _plain(writer, self._writers)
        if isinstance(writer, list):
            return self._union(reader, writer, kind)
        if isinstance(reader, list):
            left = [each for each in reader if each != "null"]
            return self.reader(left[0] if len(left) == 1 else writer, writer, kind)
        logical = writer.get("logicalType")
        if logical != reader.get("logicalType") or logical == "decimal":
            raise GiveUp("logical types differ, or are decimals")
        if "name" in writer or "name" in reader:
            return self._of_name(reader, writer, kind)
        name, wanted = writer["type"], reader["type"]
        if name == wanted == "array":
            return _listed(self.reader(reader["items"], writer["items"], kind.value_type), kind)
        if name == wanted == "map":
            return _mapped(self.reader(reader["values"], writer["values"], kind.item_type), kind)
        return _scalar(name, wanted, logical, kind)

    def _of_name(self, reader: Mapping[str, Any], writer: Mapping[str, Any], kind: pa.DataType) -> Reader:
        """Types that have names, by which they may be called again."""
        if writer.get("name") != reader.get("name") or writer["type"] != reader["type"]:
            raise GiveUp("the types have different names")
        self._readers[reader["name"]], self._writers[writer["name"]] = reader, writer
        if writer["type"] == "record":
            return self._record(reader, writer, kind)
        if writer["type"] == "enum" and set(writer["symbols"]) <= set(reader["symbols"]):
            return _enumerated(writer["symbols"])
        if writer["type"] == "fixed" and writer["size"] == reader["size"]:
            return _fixed(int(writer["size"]))
        raise GiveUp("the types do not fit as they are")

    def _union(self, reader: Schema, writer: list[Schema], kind: pa.DataType) -> Reader:
        if len(writer) != 2 or "null" not in writer or not (isinstance(reader, list) and "null" in reader):
            raise GiveUp("only a type or null is read here")
        branch = 1 - writer.index("null")
        inside = self.reader(reader, writer[branch], kind)

        def read(rows: Rows) -> pa.Array:
            chosen = rows.varint()
            present = np.flatnonzero(chosen == branch)
            if len(present) == len(rows):
                return inside(rows)
            if not ((chosen == branch) | (chosen == 1 - branch)).all():
                raise GiveUp("a union has no such branch")
            part = rows.some(present)
            values = inside(part) if len(part) else pa.nulls(0, kind)
            rows.merge(present, part)
            return scatter(values, present, len(rows))

        return read

    def _record(self, reader: Mapping[str, Any], writer: Mapping[str, Any], kind: pa.DataType) -> Reader:
        wanted = {each["name"]: each for each in reader["fields"]}
        if any("aliases" in each for each in reader["fields"]):
            raise GiveUp("a field has other names")
        steps = [self._step(each, wanted.get(each["name"]), kind) for each in writer["fields"]]
        written = {each["name"] for each in writer["fields"]}
        for name, each in wanted.items():
            if name not in written and not ("default" in each and each["default"] is None):
                raise GiveUp("a field has a default that is not null")
        fields = list(kind)

        def read(rows: Rows) -> pa.Array:
            made = {name: step(rows) for name, step in steps}
            arrays = [made[each.name] if each.name in made else pa.nulls(len(rows), each.type) for each in fields]
            return pa.StructArray.from_arrays(arrays, fields=fields)

        return read

    def _step(
        self, written: Mapping[str, Any], wanted: Mapping[str, Any] | None, kind: pa.DataType
    ) -> tuple[str, Reader]:
        name = written["name"]
        if wanted is None:
            return name, self.reader(written["type"], written["type"], self._kind_of(written["type"]))
        return name, self.reader(wanted["type"], written["type"], kind.field(name).type)


def _plain(schema: Schema, named: Mapping[str, Schema]) -> Schema:
    """A union as a list, anything else as an object whose type is a word."""
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    while isinstance(schema, Mapping) and not isinstance(schema["type"], str):
        schema = schema["type"]
    return schema


def _scalar(name: str, wanted: str, logical: str | None, kind: pa.DataType) -> Reader:
    """Numbers that are as wide as wanted or widen, texts, booleans, nothing."""
    widens = name in _NUMBERS and wanted in _NUMBERS and _NUMBERS.index(name) <= _NUMBERS.index(wanted)
    if name != wanted and not widens:
        raise GiveUp(f"{name} is not read as {wanted}")
    if name in _INTEGERS:
        return _integer(name, logical, kind)
    if name in _FLOATS:
        return _floating(name, kind)
    if name in _TEXTS:
        return _text(kind)
    if name == "boolean":
        return _boolean
    raise GiveUp(f"{name} is not read here")


def _integer(name: str, logical: str | None, kind: pa.DataType) -> Reader:
    factor = 1000 if logical in _MILLISECONDS else 1
    low, high = _BOUNDS[logical or name]
    plain = pa.int32() if pa.types.is_date32(kind) else pa.int64()

    def read(rows: Rows) -> pa.Array:
        values = rows.varint()
        if (values < low).any() or (values > high).any():
            raise GiveUp("a number has no room in its type")
        return pa.array(values * factor).cast(plain).cast(kind)

    return read


def _floating(name: str, kind: pa.DataType) -> Reader:
    size, stored = _FLOATS[name]
    places = np.arange(size)

    def read(rows: Rows) -> pa.Array:
        at = rows.at
        rows.move(at + size)
        return pa.array(rows.data[at[:, None] + places].view(stored).ravel()).cast(kind)

    return read


def _boolean(rows: Rows) -> pa.Array:
    at = rows.at
    rows.move(at + 1)
    values = rows.data[at]
    if (values > 1).any():
        raise GiveUp("a boolean is neither")
    return pa.array(values == 1)


def _text(kind: pa.DataType) -> Reader:
    def read(rows: Rows) -> pa.Array:
        lengths = rows.varint()
        if (lengths < 0).any():
            raise GiveUp("a length is negative")
        at = rows.at
        rows.move(at + np.minimum(lengths, 1 << 32))
        return slices(rows.buffer, at, lengths).cast(kind)

    return read


def _fixed(size: int) -> Reader:
    def read(rows: Rows) -> pa.Array:
        at = rows.at
        rows.move(at + size)
        return slices(rows.buffer, at, np.full(len(rows), size, np.int64))

    return read


def _enumerated(symbols: list[str]) -> Reader:
    texts = pa.array(symbols, pa.string())

    def read(rows: Rows) -> pa.Array:
        return texts.take(pa.array(rows.varint()))  # out of bounds is an error of pyarrow

    return read


def _items(
    rows: Rows, read_item: Callable[[Rows], list[pa.Array]], empty: list[pa.Array]
) -> tuple[pa.Array, list[pa.Array]]:
    """Offsets of the items of each row, and the arrays that ``read_item`` makes of all items, in the order of the rows."""
    counts = np.zeros(len(rows), np.int64)
    left = _block(rows, np.arange(len(rows)))
    parts: list[list[pa.Array]] = []
    owners: list[Positions] = []
    while True:
        live = np.flatnonzero(left > 0)
        if not len(live):
            break
        if len(parts) >= _ITEMS_MAX:
            raise GiveUp("an array is long")
        part = rows.some(live)
        parts.append(read_item(part))
        owners.append(live)
        rows.merge(live, part)
        counts[live] += 1
        left[live] -= 1
        ended = live[left[live] == 0]
        if len(ended):
            left[ended] = _block(rows, ended)[ended]
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    if not parts:
        return offsets, empty
    # The n-th items of all rows lie together; a stable sort by their rows puts them behind one another.
    order = pa.array(np.argsort(np.concatenate(owners), kind="stable"))
    return offsets, [pa.concat_arrays(arrays).take(order) for arrays in zip(*parts, strict=True)]


def _block(rows: Rows, which: Positions) -> Positions:
    """How many items come next in those rows, zero where there are no more; for all rows, zero in the others."""
    part = rows.some(which)
    counts = part.varint()
    sized = np.flatnonzero(counts < 0)  # then the block's size in bytes follows, for who skips it
    if len(sized):
        inner = part.some(sized)
        inner.varint()
        part.merge(sized, inner)
    rows.merge(which, part)
    if (counts < -_BLOCK_ITEMS_MAX).any() or (counts > _BLOCK_ITEMS_MAX).any():
        raise GiveUp("a block claims more items than there can be")
    found = np.zeros(len(rows), np.int64)
    found[which] = np.abs(counts)
    return found


def _listed(read_item: Reader, kind: pa.DataType) -> Reader:
    def read(rows: Rows) -> pa.Array:
        offsets, (values,) = _items(rows, lambda part: [read_item(part)], [pa.nulls(0, kind.value_type)])
        return pa.ListArray.from_arrays(offsets, values, type=kind)

    return read


def _check_keys(offsets: npt.NDArray[np.int32], keys: pa.Array) -> None:
    """Raise `GiveUp` for a map that has a key twice: fastavro keeps only the last."""
    owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    codes = keys.dictionary_encode().indices.to_numpy()
    if len(np.unique(owners * (len(keys) + 1) + codes)) != len(keys):
        raise GiveUp("a map has a key twice")


def _mapped(read_item: Reader, kind: pa.DataType) -> Reader:
    read_key = _text(pa.string())

    def read(rows: Rows) -> pa.Array:
        empty = [pa.nulls(0, pa.string()), pa.nulls(0, kind.item_type)]
        offsets, (keys, items) = _items(rows, lambda part: [read_key(part), read_item(part)], empty)
        _check_keys(offsets.to_numpy(), keys)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind)

    return read
