"""JSON documents to structs."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.rows.value_types import parse_ddl
from stratalog.spark.values.json_values import JsonDecoder
from stratalog.wire.errors import Invalid

FLAT = JsonDecoder(parse_ddl("id bigint, name string, at array<double>"))


def decoded(decoder: JsonDecoder, *values: bytes) -> tuple[list[Any], dict[int, str]]:
    array, errors = decoder.decode(pa.array(values, pa.binary()))
    assert array.type == decoder.kind
    assert len(array) == len(values)
    return array.to_pylist(), errors


def test_every_type_is_read() -> None:
    """Dates and times as ISO 8601, decimals as text or number, structs and arrays inside each other."""
    decoder = JsonDecoder(
        parse_ddl(
            "a boolean, b tinyint, c double, d decimal(5,2), e string, f date, g timestamp, h timestamp_ntz, "
            "i array<struct<x:int,y:array<date>>>"
        )
    )
    document = {
        "a": True, "b": -5, "c": 1.5, "d": "1.25", "e": "ü\u0000\n", "f": "2020-02-29", "g": "2013-01-01T05:00:00+01:00",
        "h": "2013-01-01 05:00:00", "i": [{"x": 1, "y": ["2020-01-01", None]}, None, {}],
    }  # fmt: skip
    rows, errors = decoded(decoder, json.dumps(document).encode())
    assert errors == {}
    assert rows == [
        {
            "a": True, "b": -5, "c": 1.5, "d": Decimal("1.25"), "e": "ü\u0000\n", "f": date(2020, 2, 29),
            "g": datetime(2013, 1, 1, 4, tzinfo=UTC), "h": datetime(2013, 1, 1, 5),  # noqa: DTZ001 - without a zone
            "i": [{"x": 1, "y": [date(2020, 1, 1), None]}, None, {"x": None, "y": None}],
        }
    ]  # fmt: skip


def test_fields_may_be_new_missing_or_null() -> None:
    """New ones are passed over whatever they hold."""
    rows, errors = decoded(FLAT, b'{"id":1,"new":{"x":[1,{}]}}', b"{}", b'{"name":null,"id":3}', b'{"new":"other"}')
    assert errors == {}
    assert [row["id"] for row in rows] == [1, None, 3, None]


BAD = {
    b"": "no object in braces",
    b"null": "no object in braces",
    b"[1]": "no object in braces",
    b"}{": "no object in braces",
    b'{"id":': "no object in braces",
    b'{"id":1}}': "parse error",
    b'{"id":"one"}': "changed from number to string",
    b'{"id":1.5}': "couldn't parse:1.5",
    b'{"id":9223372036854775808}': "couldn't parse",
    b'{"id":1}{"id":2}': "it holds 2 documents",
    b'{"id":1}\n{"id":2}': "it holds 2 documents",
    b'{"name":"\xff"}': "no UTF-8",
    b'{"name":"a\nb"}': "Invalid encoding in string",
    b'{"at":[1,"x"]}': "changed from number to string",
}


@pytest.mark.parametrize(("bad", "message"), BAD.items())
def test_a_document_against_the_schema_is_null_and_reported(bad: bytes, message: str) -> None:
    """And takes no other row with it, before it or behind it."""
    good = [b'{"id":%d}' % number for number in range(5)]
    rows, errors = decoded(FLAT, *good, bad, *good)
    assert list(errors) == [5]
    assert message in errors[5]
    assert "in row" not in errors[5]
    assert [row and row["id"] for row in rows] == [0, 1, 2, 3, 4, None, 0, 1, 2, 3, 4]


def test_documents_over_lines_and_with_spaces_about_are_documents() -> None:
    """As JSON has it."""
    rows, errors = decoded(FLAT, b' \n{\n "id": 1\n}\r\n', b'\t{"id":2} ')
    assert errors == {}
    assert [row["id"] for row in rows] == [1, 2]


def test_a_slice_is_decoded_as_what_it_is_a_slice_of() -> None:
    """Arrow's arrays begin anywhere in their buffers."""
    array = pa.array([b"broken", b'{"id":1}', b"", b'{"id":3}'], pa.binary())
    rows, errors = FLAT.decode(array[1:])
    assert [row and row["id"] for row in rows.to_pylist()] == [1, None, 3]
    assert list(errors) == [1]
    assert len(FLAT.decode(array[:0])[0]) == 0


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abx"), inner, max_size=3)),
    max_leaves=6,
)


@pytest.mark.story
@given(st.lists(st.one_of(VALUES.map(lambda each: json.dumps(each).encode()), st.binary(max_size=6)), max_size=12))
def test_each_row_is_what_it_is_alone(values: list[bytes]) -> None:
    """A row among others has the struct and the error, or none, that it has when decoded alone."""
    decoder = JsonDecoder(parse_ddl("a bigint, b string"))
    rows, errors = decoded(decoder, *values)
    for number, value in enumerate(values):
        alone, wrong = decoded(decoder, value)
        assert rows[number] == alone[0]
        assert errors.get(number) == wrong.get(0)
        assert (alone[0] is None) == bool(wrong)


@pytest.mark.parametrize("ddl", ["string", "a map<string,int>", "a binary", "a array<struct<b:map<string,int>>>"])
def test_types_without_a_form_in_json_are_refused(ddl: str) -> None:
    """When the decoder is made, not at a row."""
    with pytest.raises(Invalid, match="JSON"):
        JsonDecoder(parse_ddl(ddl))
