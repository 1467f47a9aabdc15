"""Avro decoded a column at a time: what fastavro makes of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import count
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.values.avro import AvroDecoder
from stratalog.spark.values.avro_columns import GiveUp, decode_columns

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAVES: list[tuple[Any, Any]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=5)),
    ("string", st.text(max_size=70)),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        st.integers(-(10**11), 10**11).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
    ),
]


def named(schema: Any, numbers: Iterator[int]) -> Any:
    """``schema`` with a name of its own for each record."""
    if isinstance(schema, list):
        return [named(each, numbers) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: named(each, numbers) if name != "logicalType" else each for name, each in schema.items()}
    return {**made, "name": f"R{next(numbers)}"} if made["type"] == "record" else made


def parsed(schema: Any) -> Any:
    return fastavro.parse_schema(named(schema, count()))


def record(fields: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """A record of these fields, and its rows."""
    schema = {"type": "record", "fields": [{"name": f"f{at}", "type": kind} for at, (kind, _) in enumerate(fields)]}  # fmt: skip
    return schema, st.fixed_dictionaries({f"f{at}": values for at, (_, values) in enumerate(fields)})


@st.composite
def schemas(draw: Any, depth: int = 2) -> tuple[Any, Any]:
    """A schema, and what makes its values."""
    shape = draw(st.sampled_from(["leaf", "leaf", "null", "array", "map", "record"] if depth else ["leaf"]))
    if shape == "leaf":
        return draw(st.sampled_from(LEAVES))
    if shape == "record":
        return record(draw(st.lists(schemas(depth - 1), min_size=1, max_size=3)))
    kind, values = draw(schemas(depth - 1))
    if shape == "array":
        return {"type": "array", "items": kind}, st.lists(values, max_size=4)
    if shape == "map":
        return {"type": "map", "values": kind}, st.dictionaries(st.text(max_size=3), values, max_size=3)
    return draw(st.sampled_from([["null", kind], [kind, "null"]])), st.none() | values


def encoded(schema: Any, row: Any) -> bytes:
    target = BytesIO()
    fastavro.schemaless_writer(target, schema, row)
    return target.getvalue()


def both(decoder: AvroDecoder, values: list[bytes]) -> None:
    """Columns at a time and row by row it is the same, where it is anything."""
    array = pa.array([b"before", *values], pa.binary())[1:]
    expected, errors = decoder.decode_rows(array)
    try:
        made = decode_columns(array, decoder._columns)
    except GiveUp:
        return
    made.validate(full=True)
    assert errors == {}
    assert made.type == expected.type
    assert repr(made.to_pylist()) == repr(expected.to_pylist())  # not a number is not equal to itself


@pytest.mark.story
@given(st.data())
def test_whole_columns_are_what_fastavro_makes_of_each_row(data: Any) -> None:
    """Any schema out of the usual types, nested; and none of these is given up."""
    fields = data.draw(st.lists(schemas(), min_size=1, max_size=3))
    raw, values = record(fields)
    schema = parsed(raw)
    decoder = AvroDecoder(schema)
    rows = data.draw(st.lists(values, min_size=1, max_size=8))
    binary = [encoded(schema, row) for row in rows]
    assert decoder._columns is not None
    decode_columns(pa.array(binary, pa.binary()), decoder._columns)
    both(decoder, binary)


@pytest.mark.story
@given(st.data())
def test_damage_is_never_turned_into_rows_that_fastavro_would_not_make(data: Any) -> None:
    """Bytes changed, cut off, put in, or nothing but chance."""
    raw, values = record(data.draw(st.lists(schemas(), min_size=1, max_size=2)))
    schema = parsed(raw)
    binary = [encoded(schema, row) for row in data.draw(st.lists(values, min_size=1, max_size=3))]
    victim = bytearray(binary[0])
    at = data.draw(st.integers(0, len(victim)))
    victim[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    for changed in (bytes(victim), data.draw(st.binary(max_size=12))):
        if b"\xff\xff\xff" not in changed:  # fastavro may take minutes for an array that claims so many nulls
            both(AvroDecoder(schema), [changed, *binary[1:]])


def fields(*pairs: tuple[str, Any], **more: Any) -> Any:
    return fastavro.parse_schema(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": kind, **more} for name, kind in pairs]}
    )


def test_schemas_that_drift_are_read_in_columns_too() -> None:
    """Old fields passed over, numbers widened, new ones null; types that are called by their names again."""
    place = {"type": "record", "name": "P", "fields": [{"name": "c", "type": "string"}]}
    kind = {"type": "enum", "name": "K", "symbols": ["A", "B"]}
    written = fields(("id", "int"), ("old", {"type": "array", "items": place}), ("p", "P"), ("k", kind), ("l", "K"))
    wanted = fastavro.parse_schema(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "k", "type": kind},
                {"name": "p", "type": place},
                {"name": "new", "type": ["null", "string"], "default": None},
                {"name": "id", "type": "double"},
                {"name": "l", "type": "K"},
            ],
        }
    )
    decoder = AvroDecoder(wanted, written)
    rows = [{"id": n, "old": [{"c": "x"}] * n, "p": {"c": str(n)}, "k": "AB"[n % 2], "l": "A"} for n in range(5)]
    array = pa.array([encoded(written, row) for row in rows], pa.binary())
    assert decode_columns(array, decoder._columns).to_pylist() == [
        {"k": "AB"[n % 2], "p": {"c": str(n)}, "new": None, "id": float(n), "l": "A"} for n in range(5)
    ]
    both(decoder, array.to_pylist())


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (fields(("a", {"type": "bytes", "logicalType": "decimal", "precision": 4})), None),
        (fields(("a", ["null", "int", "long"])), None),
        (fields(("a", "string")), fields(("a", "bytes"))),
        (fields(("a", "int"), ("b", "int"), default=3), fields(("a", "int"))),
        (fields(("b", "int"), aliases=["a"]), fields(("a", "int"))),
        (fields(("a", {"type": "long", "logicalType": "timestamp-micros"})), fields(("a", "long"))),
        (fields(("a", "int")), {**fields(("a", "int")), "name": "Other"}),
    ],
)
def test_rare_things_are_left_to_fastavro(reader: Any, writer: Any) -> None:
    """When the decoder is made."""
    assert AvroDecoder(reader, writer)._columns is None


def test_arrays_in_blocks_and_with_sizes_are_read() -> None:
    """As other writers put them; long ones are left to fastavro, and so are maps that have a key twice."""
    decoder = AvroDecoder(fields(("a", {"type": "array", "items": "int"})))
    blocks = (
        b"\x02\x02" + b"\x03\x04\x04\x06" + b"\x00"
    )  # one item; then two in four bytes, told as minus two and a size
    assert decode_columns(pa.array([blocks, b"\x00"]), decoder._columns).to_pylist() == [{"a": [1, 2, 3]}, {"a": []}]
    both(decoder, [blocks])
    long = encoded(decoder._reader, {"a": list(range(1100))})
    with pytest.raises(GiveUp):
        decode_columns(pa.array([long]), decoder._columns)
    assert decoder.decode(pa.array([long]))[0].to_pylist() == [{"a": list(range(1100))}]
    twice = b"\x04\x02x\x02\x02x\x04\x00"
    decoder = AvroDecoder(fields(("a", {"type": "map", "values": "int"})))
    assert decoder.decode(pa.array([twice]))[0].to_pylist() == [{"a": [("x", 2)]}]


def test_a_damaged_row_takes_few_others_from_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those about it are decoded row by row, the rest in columns; each keeps its place."""
    decoder = AvroDecoder(fields(("a", "int")))
    slow = []
    rows = AvroDecoder.decode_rows
    monkeypatch.setattr(AvroDecoder, "decode_rows", lambda self, values: slow.append(len(values)) or rows(self, values))
    values = [encoded(decoder._reader, {"a": n}) for n in range(1000)]
    values[700] = b""
    found, errors = decoder.decode(pa.array(values, pa.binary()))
    assert [row and row["a"] for row in found.to_pylist()] == [n if n != 700 else None for n in range(1000)]
    assert list(errors) == [700]
    assert 0 < sum(slow) <= 256
