"""Keys and values decoded inside the batches of a read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stratalog.spark.rows.value_types import parse_ddl
from stratalog.spark.values.options import parse_value_options
from stratalog.spark.values.values import ReadColumns, ValueFormats, decode_values, raw_columns, resolve_values
from stratalog.wire.errors import Invalid

AVRO = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}


def resolved(**options: str) -> ValueFormats:
    found = resolve_values(parse_value_options({name.lower(): value for name, value in options.items()}, ["orders"]))
    assert found is not None
    return pickle.loads(pickle.dumps(found))  # as it comes to a task


def test_bytes_stay_bytes() -> None:
    """No schema is resolved."""
    assert resolve_values(parse_value_options({}, [])) is None


def test_schemas_come_from_options_files_and_registries(registry: Any, tmp_path: Path) -> None:
    """The types are there before a row is read."""
    registry.put(1, json.dumps(AVRO), subject="orders-value")
    file = tmp_path / "key.avsc"
    file.write_text('"string"')
    assert resolved(keyFormat="string", valueFormat="json", valueSchema="a int").kinds() == {
        "key": pa.string(),
        "value": parse_ddl("a int"),
        "keyError": pa.string(),
        "valueError": pa.string(),
    }
    for name in (str(file), file.as_uri()):
        assert resolved(keyFormat="avro", keySchemaFile=name).kinds()["key"] == pa.string()
    assert resolved(valueFormat="avro", schemaRegistry=registry.url).kinds()["value"] == parse_ddl("id int")
    with pytest.raises(FileNotFoundError):
        resolved(valueFormat="avro", valueSchemaFile=str(tmp_path / "none"))
    with pytest.raises(Invalid, match="no type that is known"):
        resolved(valueFormat="json", valueSchema="a foo").kinds()


def test_an_error_is_made_of_what_it_is_about() -> None:
    """So that is read, once."""
    assert raw_columns(["offset", "valueError"]) == ("offset", "value")
    assert raw_columns(["key", "value", "valueError", "keyError"]) == ("key", "value")


def test_a_batch_gets_the_columns_that_were_asked_for() -> None:
    """Rows that cannot be decoded are null, and told."""
    formats = resolved(keyFormat="string", valueFormat="json", valueSchema="a int")
    batch = pa.RecordBatch.from_pydict(
        {
            "offset": pa.array([1, 2, 3]),
            "value": pa.array([b'{"a":1}', b"x", None], pa.binary()),
            "key": pa.array([b"k", b"\xff", None], pa.binary()),
        }
    )
    kinds = formats.kinds() | {"offset": pa.int64()}
    wanted = pa.schema([(name, kinds[name]) for name in ("valueError", "key", "value", "offset")])
    made = decode_values(batch, formats, wanted)
    assert made.schema == wanted
    assert made.to_pylist() == [
        {"valueError": None, "key": "k", "value": {"a": 1}, "offset": 1},
        {"valueError": "no JSON of this schema: it is no object in braces", "key": None, "value": None, "offset": 2},
        {"valueError": None, "key": None, "value": None, "offset": 3},
    ]
    only = pa.schema([("offset", pa.int64())])
    assert decode_values(batch.select(["offset"]), formats, only).to_pylist() == [
        {"offset": 1},
        {"offset": 2},
        {"offset": 3},
    ]


def test_without_formats_batches_pass_as_they_are() -> None:
    """And with them the archive is asked for what they are made of."""
    batch = pa.RecordBatch.from_pydict({"offset": pa.array([1])})
    plain = ReadColumns(("offset",), frozenset({"offset"}))
    assert (plain.raw, next(plain.decode(iter([batch])))) == (("offset",), batch)
    assert not plain.schema.field("offset").nullable
    wanted = ReadColumns(("valueError",), formats=resolved(valueFormat="json", valueSchema="a int"))
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"{}", b""], pa.binary())})
    assert wanted.raw == ("value",)
    (made,) = wanted.decode(iter([batch]))
    assert made.schema == wanted.schema
    assert made["valueError"].null_count == 1
