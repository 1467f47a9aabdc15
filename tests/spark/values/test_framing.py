"""Values that begin with the id of their schema."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from stratalog.spark.values import protobuf as protobuf_values
from stratalog.spark.values import schema_registry
from stratalog.spark.values.framing import FramedDecoder
from stratalog.spark.values.schema_registry import RegistryAccess, RegistryError, SchemaRegistry
from stratalog.spark.values.schemas import ReaderSchema, reader_schema

OLD = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string", "default": "?"}],
}


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def avro(schema: Any, row: Any) -> bytes:
    target = BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), row)
    return target.getvalue()


def decoded(decoder: FramedDecoder, *values: bytes) -> tuple[list[Any], dict[int, str]]:
    array, errors = decoder.decode(pa.array(values, pa.binary()))
    assert array.type == decoder.kind
    return array.to_pylist(), errors


@pytest.fixture
def client(registry: Any, monkeypatch: pytest.MonkeyPatch) -> SchemaRegistry:
    """Schemas 1 and 70000 of Avro, the older and the newer one."""
    monkeypatch.setattr(schema_registry, "_PAUSES_SECONDS", ())
    registry.put(1, json.dumps(OLD))
    registry.put(70000, json.dumps(NEW))
    return SchemaRegistry(RegistryAccess(registry.url))


def test_each_row_is_read_by_the_schema_that_it_was_written_with(client: SchemaRegistry, registry: Any) -> None:
    """Into one type, in their order; each schema is asked for once."""
    decoder = FramedDecoder(ReaderSchema("avro", json.dumps(NEW)), client)
    values = []
    for number in range(20):
        old = number % 3 == 0
        row = {"id": number} if old else {"id": number, "name": "n"}
        values.append(framed(1 if old else 70000, avro(OLD if old else NEW, row)))
    for _ in range(2):
        rows, errors = decoded(decoder, *values)
        assert errors == {}
        assert rows == [{"id": number, "name": "n" if number % 3 else "?"} for number in range(20)]
    assert sorted(registry.asked) == ["/schemas/ids/1", "/schemas/ids/70000"]
    assert decoded(decoder, *values[:1]) == (rows[:1], {})


def test_unframed_values_and_missing_schemas_are_reported(client: SchemaRegistry) -> None:
    """At their rows; a slice is decoded as what it is a slice of."""
    decoder = FramedDecoder(ReaderSchema("avro", json.dumps(NEW)), client)
    good = framed(1, avro(OLD, {"id": 5}))
    values = [good, b"", b"\0\0\0\0", b'{"id":1}', framed(9, b"x"), framed(1, b"\xff"), good]
    rows, errors = decoder.decode(pa.array([b"before", *values], pa.binary())[1:])
    assert [row and row["id"] for row in rows.to_pylist()] == [5, None, None, None, None, None, 5]
    assert [errors[row].split(":")[0] for row in range(1, 6)] == [
        "not in Confluent's wire format", "not in Confluent's wire format", "not in Confluent's wire format",
        "schema 9", "no Avro of this schema",
    ]  # fmt: skip
    assert errors[5].endswith("(schema 1)")
    assert "schema 9 is not in the schema registry" in errors[4]
    assert decoded(decoder, b"", b"") == ([None, None], decoded(decoder, b"", b"")[1])


def test_a_schema_may_be_registered_later(client: SchemaRegistry, registry: Any) -> None:
    """A stream that saw its rows too early goes on with the next ones."""
    decoder = FramedDecoder(ReaderSchema("avro", json.dumps(NEW)), client)
    value = framed(9, avro(OLD, {"id": 5}))
    assert decoded(decoder, value)[0] == [None]
    registry.put(9, json.dumps(OLD))
    assert decoded(decoder, value) == ([{"id": 5, "name": "?"}], {})


def test_a_registry_that_cannot_be_asked_ends_the_read(client: SchemaRegistry, registry: Any) -> None:
    """Rows must not become null because a network is gone."""
    decoder = FramedDecoder(ReaderSchema("avro", json.dumps(NEW)), client)
    registry.answers["/schemas/ids/1"] = 500
    with pytest.raises(RegistryError, match="gives no answer for schema 1"):
        decoded(decoder, framed(1, b"x"))


def test_json_needs_no_schema_of_its_writer(client: SchemaRegistry, registry: Any) -> None:
    """A document says what is in it."""
    decoder = FramedDecoder(ReaderSchema("json", "id int"), client)
    assert decoded(decoder, framed(5, b'{"id":1}'), framed(6, b'{"id":2}')) == ([{"id": 1}, {"id": 2}], {})
    assert registry.asked == []


@pytest.fixture
def protobuf(client: SchemaRegistry, registry: Any) -> FramedDecoder:
    """Schema 3: messages ``t.A`` with ``t.A.Inner`` in it, and ``t.B``; all have one text. The test reads ``t.B``."""
    file = FileDescriptorProto(name="default", package="t", syntax="proto3")
    first, second = file.message_type.add(name="A"), file.message_type.add(name="B")
    for message in (first, second, first.nested_type.add(name="Inner")):
        kind, label = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.LABEL_OPTIONAL
        message.field.add(name="text", number=1, type=kind, label=label)
    registry.put(3, base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    registry.put(4, json.dumps(OLD))
    return FramedDecoder(reader_schema("protobuf", client.schema(3), "t.B"), client)


def test_the_message_of_protobuf_is_found_by_its_path(protobuf: FramedDecoder) -> None:
    """A row with another message is reported, not misread."""
    text = b"\x0a\x01x"
    rows, errors = decoded(
        protobuf,
        framed(3, b"\x02\x02" + text),  # [1]
        framed(3, b"\x00" + text),  # [0], in short
        framed(3, b"\x04\x00\x00" + text),  # [0, 0]
        framed(3, b"\x02\x0e" + text),  # [7]
        framed(3, b""),
        framed(3, b"\xff\xff\xff\xff\xff\xff"),
        framed(3, b"\x01" + text),  # minus one index
        framed(4, b"\x02\x02" + text),
        framed(3, b"\x02\x02"),
    )
    assert [row and row["text"] for row in rows] == ["x", *[None] * 7, ""]
    assert "schema 3: a message t.A, not t.B" in errors[1]
    assert "a message t.A.Inner, not t.B" in errors[2]
    assert "has no message at [7]" in errors[3]
    for row in (4, 5, 6):
        assert errors[row].startswith("no path of a Protobuf message")
    assert "of the format AVRO, not protobuf" in errors[7]


def test_the_first_message_needs_no_path(client: SchemaRegistry, protobuf: FramedDecoder) -> None:
    """One zero byte, which most rows have."""
    decoder = FramedDecoder(reader_schema("protobuf", client.schema(3)), client)
    assert decoded(decoder, *[framed(3, b"\x00\x0a\x01x")] * 3) == ([{"text": "x"}] * 3, {})


def test_paths_out_of_the_data_are_not_kept(protobuf: FramedDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a schema are parsed once and its paths looked up in them: a producer makes no worker grow."""
    parsed: list[bytes] = []
    parse = protobuf_values.parse_descriptor_set

    def counted(data: bytes) -> Any:
        parsed.append(data)
        return parse(data)

    monkeypatch.setattr(protobuf_values, "parse_descriptor_set", counted)
    _, errors = decoded(protobuf, *(framed(3, bytes([4, 2 * path, 2 * path]) + b"x") for path in range(2, 60)))
    assert len(errors) == 58
    assert (len(parsed), len(protobuf._writers)) == (1, 1)
