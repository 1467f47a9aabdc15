"""Avro data to structs."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from stratalog.spark.rows.value_types import ddl_of
from stratalog.spark.values.avro import AvroDecoder, parse_avro_schema
from stratalog.wire.errors import Invalid


def record(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def encoded(schema: Any, row: Any) -> bytes:
    target = BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), row)
    return target.getvalue()


def decoder(reader: Any, writer: Any = None) -> AvroDecoder:
    written = None if writer is None else parse_avro_schema(json.dumps(writer))
    return AvroDecoder(parse_avro_schema(json.dumps(reader)), written)


def decoded(made: AvroDecoder, *values: bytes) -> tuple[list[Any], dict[int, str]]:
    array, errors = made.decode(pa.array(values, pa.binary()))
    assert array.type == made.kind
    return array.to_pylist(), errors


def test_every_type_is_read() -> None:
    """Logical types where Arrow and Spark have them, else what carries them; names that are used again."""
    place = record(field("city", "string"), name="Place")
    schema = record(
        field("a", "boolean"), field("b", "int"), field("c", "long"), field("d", "float"), field("e", "double"),
        field("f", "bytes"), field("g", ["null", "string"]), field("h", {"type": "enum", "name": "E", "symbols": ["X"]}),
        field("i", {"type": "fixed", "name": "F", "size": 2}), field("j", {"type": "array", "items": ["null", "int"]}),
        field("k", {"type": "map", "values": place}), field("l", "Place"), field("m", ["int", "long"]),
        field("n", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
        field("o", {"type": "int", "logicalType": "date"}),
        field("p", {"type": "long", "logicalType": "timestamp-millis"}),
        field("q", {"type": "long", "logicalType": "timestamp-micros"}),
        field("r", {"type": "string", "logicalType": "uuid"}),
        field("s", {"type": "int", "logicalType": "time-millis"}),
    )  # fmt: skip
    moment = datetime(2013, 1, 1, 5, tzinfo=UTC)
    row = {
        "a": True, "b": -1, "c": 2**40, "d": 0.5, "e": 1.25, "f": b"\x00", "g": None, "h": "X", "i": b"ab",
        "j": [1, None], "k": {"home": {"city": "Ulm"}}, "l": {"city": "Bonn"}, "m": 2**40, "n": Decimal("-1.25"),
        "o": date(2020, 2, 29), "p": moment, "q": moment + timedelta(microseconds=1),
        "r": "6f0b5b6a-0b3d-4d8e-8c5d-3f9d1f0f3a11", "s": timedelta(0),
    }  # fmt: skip
    raw = {**row, "s": 5}
    written = json.loads(json.dumps(schema))
    written["fields"][-1]["type"] = "int"
    made = decoder(schema)
    rows, errors = decoded(made, encoded(written, raw))
    assert errors == {}
    assert rows == [{**raw, "k": [("home", {"city": "Ulm"})]}]
    assert ddl_of(made.kind).endswith("`n`:decimal(5,2),`o`:date,`p`:timestamp,`q`:timestamp,`r`:string,`s`:int>")


def test_a_reader_may_know_more_less_and_wider_fields_than_the_writer() -> None:
    """Defaults for new ones, old ones passed over, numbers widened, names by alias."""
    writer = record(field("id", "int"), field("old", "string"), field("name", "string"))
    reader = record(
        field("id", "long"), field("title", "string", aliases=["name"]), field("new", ["null", "int"], default=None)
    )
    rows, errors = decoded(decoder(reader, writer), encoded(writer, {"id": 1, "old": "x", "name": "n"}))
    assert errors == {}
    assert rows == [{"id": 1, "title": "n", "new": None}]


def test_schemas_that_do_not_fit_are_reported_at_their_rows() -> None:
    """A field without a default that the writer lacks."""
    writer = record(field("id", "int"))
    rows, errors = decoded(
        decoder(record(field("id", "int"), field("must", "int")), writer), encoded(writer, {"id": 1})
    )
    assert rows == [None]
    assert "must" in errors[0]


def test_data_against_the_schema_is_null_and_reported() -> None:
    """Cut short, too long, nonsense, empty; the others are there."""
    schema = record(field("id", "long"), field("name", "string"))
    good = encoded(schema, {"id": 1, "name": "abc"})
    rows, errors = decoded(decoder(schema), good, good[:-1], good + b"x", b"\xff" * 12, b"", good)
    assert [row and row["id"] for row in rows] == [1, None, None, None, None, 1]
    assert list(errors) == [1, 2, 3, 4]
    assert errors[2] == "no Avro of this schema: 1 bytes are left over"
    assert all(reason.startswith("no Avro of this schema: ") for reason in errors.values())


def test_a_value_need_not_be_a_record() -> None:
    """Keys often are plain texts or numbers."""
    assert decoded(decoder("string"), encoded("string", "a")) == (["a"], {})
    assert decoded(decoder(["null", "long"]), encoded(["null", "long"], None))[0] == [None]


def test_a_number_that_has_no_room_is_reported() -> None:
    """A decimal of more digits than its schema says."""
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 3}
    wide = {**kind, "precision": 9}
    rows, errors = decoded(decoder(kind), encoded(kind, Decimal(5)), encoded(wide, Decimal(12345)))
    assert rows == [Decimal(5), None]
    assert errors[1].startswith("does not fit its type: ")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (record(field("next", ["null", "Order"])), "'shop.Order' contains itself"),
        (["string", "int"], "union of several types has no column"),
        (["null"], "union of several types has no column"),
        (record(), "'shop.Order' has no field"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, "a decimal|decimal of 50 digits"),
        ("Unknown", "the Avro schema cannot be read"),
        ({"type": "record"}, "the Avro schema cannot be read"),
    ],
)
def test_schemas_without_columns_are_refused(schema: Any, message: str) -> None:
    """When they are read, not at a row."""
    with pytest.raises(Invalid, match=message):
        decoder(schema)


def test_invalid_json_is_no_schema() -> None:
    """And is shown."""
    with pytest.raises(Invalid, match=r"cannot be read: .*: nonsense"):
        parse_avro_schema("nonsense")
