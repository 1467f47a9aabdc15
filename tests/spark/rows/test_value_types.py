"""Types of decoded values in the notations of Spark, JSON Schema and Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.rows.value_types import TIMESTAMP, ddl_of, parse_ddl, type_of_json_schema
from stratalog.wire.errors import Invalid

SIMPLE = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp"]
NAMES = st.text("abc `:<,Ü", min_size=1, max_size=5)
KINDS = st.recursive(
    st.sampled_from([parse_ddl(name) for name in (*SIMPLE, "timestamp_ntz", "decimal(9,2)")]),
    lambda inner: st.one_of(
        inner.map(lambda kind: pa.list_(pa.field("element", kind))),
        st.tuples(inner, inner).map(lambda pair: pa.map_(*pair)),
        st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(lambda each: pa.struct(list(each.items()))),
    ),
    max_leaves=5,
)


@given(KINDS)
def test_every_type_is_read_back_from_its_ddl(kind: pa.DataType) -> None:
    """Names with spaces, backquotes and signs of the notation itself among them."""
    assert parse_ddl(ddl_of(kind)) == kind


def test_a_list_of_columns_is_a_struct() -> None:
    """With and without colons, in any case, over lines."""
    expected = pa.struct([("a", pa.int32()), ("b c", pa.list_(pa.field("element", pa.string()))), ("d", TIMESTAMP)])
    assert parse_ddl("a INT, `b c` array<string>,\n d Timestamp") == expected
    assert parse_ddl("struct<a: integer, `b c`: array< string >, d: timestamp>") == expected
    assert parse_ddl("a decimal, b numeric(5), c map<string, struct<x:long>>") == pa.struct(
        [
            ("a", pa.decimal128(10, 0)),
            ("b", pa.decimal128(5, 0)),
            ("c", pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
        ]
    )


@pytest.mark.spark
def test_spark_reads_our_ddl_as_the_same_types(spark: Any, in_arrow: Any) -> None:
    """Its own conversion to Arrow is ours."""
    from pyspark.sql.types import StructType, _parse_datatype_string

    ddl = ", ".join(f"`{name}` {name}" for name in SIMPLE)
    ddl += ", e decimal(9,2), f array<struct<x:int>>, g map<string,timestamp>, h timestamp_ntz"
    ours = parse_ddl(ddl)
    theirs = _parse_datatype_string(ddl_of(ours))
    assert isinstance(theirs, StructType)
    assert [field.type for field in in_arrow(theirs)] == [field.type for field in ours]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "position 0: a type is missing"),
        ("a foo", "'foo' is no type that is known"),
        ("a int,", "a name is missing at the end"),
        ("a int b string", "position 5: 'b' was not expected"),
        ("array<int", "'>' is due"),
        ("map<string>", "',' is due"),
        ("a decimal(39)", "1 to 38 digits"),
        ("a decimal(5,6)", "1 to 38 digits"),
        ("a decimal(x)", "'x' is no number"),
        ("a ;", "a type is due, not ';'"),
    ],
)
def test_invalid_ddl_is_refused_with_its_place(text: str, message: str) -> None:
    """A schema is written by hand."""
    with pytest.raises(Invalid, match=message):
        parse_ddl(text)


def test_a_type_that_spark_lacks_is_refused() -> None:
    """Rather than given another one."""
    with pytest.raises(Invalid, match="Spark has no type for time64"):
        ddl_of(pa.struct([("a", pa.time64("us"))]))


def test_a_json_schema_becomes_a_struct() -> None:
    """Null beside a type is nothing; references lead to definitions; formats of dates and times count."""
    document = {
        "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
        "properties": {
            "id": {"type": "integer"},
            "delay": {"type": ["number", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "done": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "from": {"$ref": "#/$defs/place"},
            "to": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]},
            "sum": {"type": ["integer", "number"]},
        },
    }
    place = "struct<city: string>"
    assert type_of_json_schema(document) == parse_ddl(
        f"id bigint, delay double, at timestamp, day date, done boolean, tags array<string>, from {place}, "
        f"to {place}, sum double"
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "# of the JSON Schema has no one type: none is given"),
        ({"type": "object"}, "# of the JSON Schema is an object without properties"),
        ({"properties": {"a": {"type": ["string", "integer"]}}}, "#/a of the JSON Schema has no one type"),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}, "a choice of 2 types"),
        ({"properties": {"a": {"type": "array"}}}, "#/a/items of the JSON Schema describes no type"),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}}, "refers to #/\\$defs/x, which is not in it"),
        ({"properties": {"a": {"$ref": "#"}}, "type": "object"}, "contains itself through #"),
        ({"properties": {"a": {"type": "date"}}}, "unknown type 'date'"),
    ],
)
def test_a_json_schema_without_one_type_is_refused(document: dict[str, Any], message: str) -> None:
    """With the place in the document."""
    with pytest.raises(Invalid, match=message):
        type_of_json_schema(document)
