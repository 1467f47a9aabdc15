"""The columns of a row: those of Spark's Kafka source, so that a query moves by changing one word.

Spark's side is kept as type names (DDL), Arrow's as types; a test holds the two equal under PySpark's own conversion.
This file does not import PySpark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from stratalog.spark.rows.value_types import ddl_of
from stratalog.wire.errors import Invalid

__all__ = ["COLUMNS", "DELETE_HORIZON", "HEADERS", "TOMBSTONE", "arrow_schema", "check_columns", "spark_ddl"]

HEADERS: Final = "headers"
TOMBSTONE: Final = "tombstone"
"""Whether a record has no value. Only for our own jobs: readers of rows never get it."""
DELETE_HORIZON: Final = "deleteHorizon"
"""From when on, in ms since 1970, tombstones of the record's batch may go; -1 if no cleaner has looked at it. Ours too."""

_HEADER_STRUCT: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

_SPARK_TYPES: Final[dict[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}

_ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(pa.field("element", _HEADER_STRUCT)),
    TOMBSTONE: pa.bool_(),
    DELETE_HORIZON: pa.int64(),
}

Decoded: TypeAlias = Mapping[str, pa.DataType]
_NONE: Final[Decoded] = {}

COLUMNS: Final = tuple(_SPARK_TYPES)
"""Every column, in the order of Spark's Kafka source."""


def spark_ddl(columns: Sequence[str], decoded: Decoded = _NONE) -> str:
    """The schema of ``columns`` as a DDL string for Spark; ``decoded`` are those of other types than the archive's."""
    return ", ".join(f"`{name}` {_spark_type(name, decoded)}" for name in columns)


def _spark_type(name: str, decoded: Decoded) -> str:
    return ddl_of(decoded[name]) if name in decoded else _SPARK_TYPES[name]


def arrow_schema(columns: Sequence[str], required: Collection[str] = (), decoded: Decoded = _NONE) -> pa.Schema:
    """The Arrow schema of ``columns``; those in ``required`` are declared not nullable, as a user's schema may."""
    types = {**_ARROW_TYPES, **decoded}
    return pa.schema([pa.field(name, types[name], nullable=name not in required) for name in columns])


def check_columns(fields: Sequence[tuple[str, str]], decoded: Decoded = _NONE) -> tuple[str, ...]:
    """The names of a user's ``(column, Spark type name)`` pairs.

    Raises `Invalid` for a column there is none of, for another type than the column has, or for a column given twice.
    """
    for name, type_name in fields:
        if name not in _SPARK_TYPES and name not in decoded:
            raise Invalid(f"there is no column '{name}': the columns of an archive are {', '.join(COLUMNS)}")
        expected = _spark_type(name, decoded).replace("`", "")  # Spark's short names of types quote nothing
        if type_name.replace("`", "") != expected:
            raise Invalid(
                f"column '{name}' has type {expected}, the given schema says {type_name}; read it as {expected} and "
                f"cast it in the query"
            )
    names = tuple(name for name, _ in fields)
    if len(set(names)) < len(names):
        raise Invalid(f"the given schema names a column twice: {', '.join(names)}: leave one out")
    if not names:
        raise Invalid("the given schema has no column: give one at least, or no schema")
    return names
