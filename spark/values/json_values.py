"""JSON documents to Arrow structs by pyarrow's own reader, many at a time; other values are reported by row.

The reader takes documents one behind another, so that a count proves each is one row: every document begins with a
brace and ends with one, which neither nothing nor two halves of one document could.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from stratalog.spark.rows.value_types import ddl_of
from stratalog.spark.values.rows import decode_text, scatter
from stratalog.wire.errors import Invalid

__all__ = ["JsonDecoder"]

_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")
_ROW: Final = re.compile(r" in row (\d+)$")


class JsonDecoder:
    """Decodes JSON objects into the struct ``kind``: unknown fields are passed over, missing ones are null.

    Raises `Invalid` for a type that JSON has no form for.
    """

    def __init__(self, kind: pa.DataType) -> None:
        if not pa.types.is_struct(kind):
            raise Invalid(f"JSON values are objects: their schema is a list of columns or a struct, not {ddl_of(kind)}")
        self.kind = kind
        self._read_as = _readable(kind)
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema(list(self._read_as)), unexpected_field_behavior="ignore"
        )

    def decode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The structs of a binary array without nulls, and what is wrong with those rows that are null in it."""
        text, errors = decode_text(values)
        if not _in_braces(text).all():
            text = pc.utf8_trim_whitespace(text)
        braced = _in_braces(text)
        if braced.all():
            return self._structs(text, np.arange(len(text)), errors), errors
        for row in np.flatnonzero(~braced).tolist():
            errors.setdefault(row, "no JSON of this schema: it is no object in braces")
        good = np.flatnonzero(braced)
        structs = self._structs(text.take(pa.array(good)), good, errors)
        return scatter(structs, good, len(values)), errors

    def _structs(self, text: pa.Array, rows: npt.NDArray[np.int64], errors: dict[int, str]) -> pa.Array:
        """One struct for each text; ``rows`` are their numbers in ``errors``."""
        if not len(text):
            return pa.nulls(0, self.kind)
        made = []
        left = [(0, len(text))]
        while left:
            start, end = left.pop()
            try:
                made.append(self._read(text[start:end]))
            except (ValueError, NotImplementedError) as error:  # pyarrow's are kinds of these
                if end - start == 1:
                    errors[int(rows[start])] = f"no JSON of this schema: {_ROW.sub('', str(error))}"
                    made.append(pa.nulls(1, self.kind))
                else:
                    left += reversed(_divided(start, end, _ROW.search(str(error))))
        return pa.concat_arrays(made)

    def _read(self, text: pa.Array) -> pa.Array:
        """The structs of ``text``. Raises `ValueError` if any of them is not one document of the schema."""
        everything = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text)
        data = pc.binary_join(everything, "\n")[0].as_buffer()
        one_block = pj.ReadOptions(use_threads=False, block_size=data.size + 1)
        table = pj.read_json(pa.BufferReader(data), read_options=one_block, parse_options=self._options)
        if table.num_rows != len(text):
            raise ValueError(f"it holds {table.num_rows} documents")
        columns = [column.combine_chunks() for column in table.select(self._read_as.names).columns]
        struct = pa.StructArray.from_arrays(columns, fields=list(self._read_as))
        return struct if self._read_as == self.kind else struct.cast(self.kind)


def _divided(start: int, end: int, hint: re.Match[str] | None) -> list[tuple[int, int]]:
    """Smaller pieces of the rows ``[start, end)``: about the row that the reader complains of, or two halves."""
    row = start + int(hint[1]) if hint else end
    if row >= end:
        half = (start + end) // 2
        return [(start, half), (half, end)]
    return [piece for piece in ((start, row), (row, row + 1), (row + 1, end)) if piece[0] < piece[1]]


def _in_braces(text: pa.Array) -> npt.NDArray[np.bool_]:
    """Which of the texts begin and end with a brace."""
    _, offsets_buffer, data_buffer = text.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[text.offset : text.offset + len(text) + 1]
    long_enough = np.diff(offsets) > 1
    if data_buffer is None or not long_enough.any():
        return np.zeros(len(text), np.bool_)
    data = np.frombuffer(data_buffer, np.uint8)
    first = data.take(offsets[:-1], mode="clip")
    last = data.take(offsets[1:] - 1, mode="clip")
    braced: npt.NDArray[np.bool_] = long_enough & (first == _OPEN) & (last == _CLOSE)
    return braced


def _readable(kind: pa.DataType) -> pa.DataType:
    """``kind`` with texts for what pyarrow's JSON reader does not read itself: dates."""
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            raise Invalid("a struct without fields cannot be read from JSON")
        return pa.struct([each.with_type(_readable(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_readable(kind.value_type)))
    if pa.types.is_date32(kind):
        return pa.string()
    if pa.types.is_map(kind) or pa.types.is_binary(kind):
        raise Invalid(f"{ddl_of(kind)} cannot be read from JSON: name the fields as a struct, or read a string")
    return kind
