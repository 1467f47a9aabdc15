"""Avro data to Arrow structs: whole columns at a time where all is as it should be, else row by row by fastavro.

The schema that a row was written with and the one that a program reads with may differ as Avro allows: new fields have
defaults, old ones are passed over, numbers widen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from stratalog.spark.rows.value_types import TIMESTAMP
from stratalog.spark.values.avro_columns import GiveUp, Reader, decode_columns, reader_of
from stratalog.spark.values.rows import array_of
from stratalog.wire.errors import Invalid

__all__ = ["AvroDecoder", "parse_avro_schema"]

Schema = Any
"""A schema as JSON has it: a name, a list for a union, or an object."""

_PRIMITIVES: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_ROWS_MAX: Final = 128
"""So few rows are decoded sooner row by row, among them those about a damaged one."""
_WIDER: Final = ("int", "long", "float", "double")
_DECIMAL_DIGITS_MAX: Final = 38


def parse_avro_schema(text: str) -> Schema:
    """The schema in ``text``, without the logical types that Arrow and Spark have no type for. Raises `Invalid`."""
    try:
        schema = _known_logical_types(json.loads(text))
        return fastavro.parse_schema(schema)
    except (ValueError, SchemaParseException, KeyError, TypeError) as error:
        raise Invalid(f"the Avro schema cannot be read: {error!r}: {text[:200]}") from error


def _known_logical_types(schema: Schema) -> Schema:
    """``schema`` with those logical types alone that we have a type for: the others are read as what carries them."""
    if isinstance(schema, list):
        return [_known_logical_types(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {
        name: _known_logical_types(each) if name in {"type", "items", "values"} else each
        for name, each in schema.items()
    }
    if "fields" in schema:
        kept["fields"] = [_known_logical_types(each) for each in schema["fields"]]
    logical = schema.get("logicalType")
    if logical != "decimal" and (str(schema.get("type")), logical) not in _LOGICAL:
        kept.pop("logicalType", None)
    return kept


class AvroDecoder:
    """Decodes what was written with ``writer`` into the type of ``reader``; both come from `parse_avro_schema`.

    Raises `Invalid` for types that have no column: unions of several types, and those that contain themselves.
    """

    def __init__(self, reader: Schema, writer: Schema | None = None) -> None:
        self._reader = reader
        self._writer = reader if writer is None else writer
        self.kind = _Types().type(reader)
        self._columns: Reader | None
        try:
            self._columns = reader_of(self._reader, self._writer, self.kind, lambda schema: _Types().type(schema))
        except (GiveUp, Invalid):
            self._columns = None

    def decode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The decoded form of a binary array without nulls, and what is wrong with those rows that are null in it."""
        if self._columns is None:
            return self.decode_rows(values)
        errors: dict[int, str] = {}
        made = []
        left = [(0, len(values))]
        while left:
            start, end = left.pop()
            if end - start <= _ROWS_MAX:
                decoded, wrong = self.decode_rows(values[start:end])
                made.append(decoded)
                errors.update({start + row: reason for row, reason in wrong.items()})
                continue
            try:
                made.append(decode_columns(values[start:end], self._columns))
            except GiveUp:
                half = (start + end) // 2
                left += [(half, end), (start, half)]
        return pa.concat_arrays(made), errors

    def decode_rows(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The same, row by row."""
        errors: dict[int, str] = {}
        objects: list[Any] = []
        read, writer, reader = fastavro.schemaless_reader, self._writer, self._reader
        for row, value in enumerate(values.to_pylist()):
            source = BytesIO(value)
            try:
                objects.append(read(source, writer, reader))
            except Exception as error:  # noqa: BLE001 - whatever fastavro stumbles over, the row is kept
                objects.append(None)
                errors[row] = f"no Avro of this schema: {str(error) or type(error).__name__}"
                continue
            left_bytes = len(value) - source.tell()
            if left_bytes:
                objects[row] = None
                errors[row] = f"no Avro of this schema: {left_bytes} bytes are left over"
        return array_of(objects, self.kind, errors), errors


class _Types:
    """Arrow's types for Avro's; ``named`` are those defined so far, ``above`` the records that the walk is inside of."""

    def __init__(self) -> None:
        self._named: dict[str, Schema] = {}
        self._above: list[str] = []

    def type(self, schema: Schema) -> pa.DataType:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        name = schema["type"]
        if not isinstance(name, str) or name in self._named:
            return self.type(name)
        logical = schema.get("logicalType")
        if logical == "decimal":
            return _decimal(schema)
        return _LOGICAL.get((name, logical)) or _PRIMITIVES.get(name) or self._complex(name, schema)

    def _complex(self, name: str, schema: Mapping[str, Any]) -> pa.DataType:
        if name in {"record", "error"}:
            return self._record(schema)
        if name == "array":
            return pa.list_(pa.field("element", self.type(schema["items"])))
        if name == "map":
            return pa.map_(pa.string(), self.type(schema["values"]))
        if name in {"enum", "fixed"}:
            self._named[schema["name"]] = schema
            return pa.string() if name == "enum" else pa.binary()
        raise Invalid(f"the Avro type '{name}' is not known")

    def _record(self, schema: Mapping[str, Any]) -> pa.DataType:
        name = schema["name"]
        if name in self._above:
            raise Invalid(f"the Avro record '{name}' contains itself: there is no column for that, read it as binary")
        self._named[name] = schema
        self._above.append(name)
        fields = [pa.field(each["name"], self.type(each["type"])) for each in schema["fields"]]
        self._above.pop()
        if not fields:
            raise Invalid(f"the Avro record '{name}' has no field")
        return pa.struct(fields)

    def _union(self, schema: list[Schema]) -> pa.DataType:
        left = [each for each in schema if each != "null"]
        if len(left) > 1 and all(each in _WIDER for each in left):
            left = [max(left, key=_WIDER.index)]
        if len(left) != 1:
            raise Invalid(f"an Avro union of several types has no column, read it as binary: {str(schema)[:200]}")
        return self.type(left[0])


def _decimal(schema: Mapping[str, Any]) -> pa.DataType:
    digits = int(schema["precision"])
    if digits > _DECIMAL_DIGITS_MAX:
        raise Invalid(f"an Avro decimal of {digits} digits has no column: at most {_DECIMAL_DIGITS_MAX} have one")
    return pa.decimal128(digits, int(schema.get("scale", 0)))
