"""Schemas to read with, from options, files and registries."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from stratalog.spark.rows.value_types import parse_ddl
from stratalog.spark.values.schema_registry import RegisteredSchema, RegistryAccess, SchemaRegistry
from stratalog.spark.values.schemas import ReaderSchema, avro_text, reader_schema, registry_of
from stratalog.wire.errors import Invalid

AVRO = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'


def proto(name: str, message: str, *imports: str) -> FileDescriptorProto:
    file = FileDescriptorProto(name=name, package="t", syntax="proto3", dependency=imports)
    field = file.message_type.add(name=message).field.add(name="a", number=1, label=FieldDescriptorProto.LABEL_OPTIONAL)
    field.type = FieldDescriptorProto.TYPE_INT32
    if imports:
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, ".t.Base"
    return file


def text_of(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_json_is_read_by_ddl_or_by_json_schema() -> None:
    """A brace tells which."""
    assert ReaderSchema("json", "a int").decoder().kind == parse_ddl("a int")
    schema = ' {"properties": {"a": {"type": "integer"}}}'
    assert ReaderSchema("json", schema).decoder().kind == parse_ddl("a bigint")
    with pytest.raises(Invalid, match="the JSON Schema cannot be read"):
        ReaderSchema("json", "{").decoder()


def test_files_hold_what_options_hold() -> None:
    """The bytes that protoc writes for Protobuf."""
    data = FileDescriptorSet(file=[proto("a.proto", "Base")]).SerializeToString()
    assert ReaderSchema.from_bytes("protobuf", data, "t.Base").decoder().kind == parse_ddl("a int")
    assert ReaderSchema.from_bytes("avro", AVRO.encode(), "").decoder().kind == parse_ddl("a int")
    with pytest.raises(Invalid, match="the file of the avro schema is no UTF-8"):
        ReaderSchema.from_bytes("avro", b"\xff", "")


def test_a_registered_schema_must_be_of_the_format() -> None:
    """Anything else would be read as what it is not."""
    assert reader_schema("avro", RegisteredSchema("AVRO", AVRO)).decoder().kind == parse_ddl("a int")
    with pytest.raises(Invalid, match="of the format AVRO, not protobuf"):
        reader_schema("protobuf", RegisteredSchema("AVRO", AVRO))


def test_avro_schemas_that_refer_to_others_are_made_whole() -> None:
    """Each at the first place where it is named, what it needs itself inside of it."""
    place = {"type": "record", "name": "t.Place", "fields": [{"name": "c", "type": "t.City"}]}
    city = {"type": "enum", "name": "t.City", "symbols": ["ULM"]}
    order = {
        "type": "record",
        "name": "t.Order",
        "fields": [{"name": "from", "type": ["null", "t.Place"]}, {"name": "to", "type": "t.Place"}],
    }
    references = (("t.City", json.dumps(city)), ("t.Place", json.dumps(place)))
    made = ReaderSchema("avro", avro_text(RegisteredSchema("AVRO", json.dumps(order), references)))
    inside = pa.struct([("c", pa.string())])
    assert made.decoder().kind == pa.struct([("from", inside), ("to", inside)])
    with pytest.raises(Invalid, match="is no JSON"):
        avro_text(RegisteredSchema("AVRO", "nonsense"))


def test_protobuf_schemas_bring_what_they_import() -> None:
    """Under the names by which it is imported; the error names a file that is no descriptor."""
    main = proto("default", "Order", "base.proto")
    references = (("base.proto", text_of(proto("whatever", "Base"))),)
    made = reader_schema("protobuf", RegisteredSchema("PROTOBUF", text_of(main), references))
    assert made.decoder().kind == parse_ddl("a struct<a:int>")
    with pytest.raises(Invalid, match="neither descriptor nor text"):
        reader_schema("protobuf", RegisteredSchema("PROTOBUF", 'syntax = "proto3";'))


BASE = 'syntax = "proto3"; package t; message Base { int32 a = 1; }'
ORDER = """
syntax = "proto3";
package t;
import "parts/base.proto";
import "google/protobuf/timestamp.proto";
message Order { Base a = 1; google.protobuf.Timestamp at = 2; }  // of 2026
"""


def test_protobuf_schemas_may_be_text(tmp_path: Path) -> None:
    """In an option, in a file with those that it imports, and in a registry with its references."""
    kind = parse_ddl("a struct<a:int>, at timestamp")
    assert ReaderSchema.from_text("protobuf", BASE, "").decoder().kind == parse_ddl("a int")
    (tmp_path / "v1" / "orders").mkdir(parents=True)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "base.proto").write_text(BASE)
    file = tmp_path / "v1" / "orders" / "order.proto"
    file.write_text(ORDER)
    assert ReaderSchema.from_file("protobuf", file, "").decoder().kind == kind
    assert ReaderSchema.from_file("protobuf", file, "t.Base").decoder().kind == parse_ddl("a int")
    registered = RegisteredSchema("PROTOBUF", ORDER, (("parts/base.proto", BASE),))
    assert reader_schema("protobuf", registered).decoder().kind == kind


def test_a_registry_that_knows_text_alone_will_do(registry: Any) -> None:
    """With the schemas that it refers to, which are asked for by subject and version."""
    registry.put(1, BASE, "PROTOBUF", subject="base")
    refers = [{"name": "parts/base.proto", "subject": "base", "version": 1}]
    registry.put(2, ORDER, "PROTOBUF", subject="orders-value", references=refers)
    registered = SchemaRegistry(RegistryAccess(registry.url)).latest("orders-value")
    assert reader_schema("protobuf", registered).decoder().kind == parse_ddl("a struct<a:int>, at timestamp")


def test_files_of_descriptors_are_not_compiled(tmp_path: Path) -> None:
    """They are what protoc has made already; so is the base64 of one in an option."""
    data = FileDescriptorSet(file=[proto("a.proto", "Base")]).SerializeToString()
    (tmp_path / "set").write_bytes(data)
    assert ReaderSchema.from_file("protobuf", tmp_path / "set", "").decoder().kind == parse_ddl("a int")
    assert ReaderSchema.from_text("protobuf", base64.b64encode(data).decode(), "").decoder().kind == parse_ddl("a int")
    (tmp_path / "avro").write_text(AVRO)
    assert ReaderSchema.from_file("avro", tmp_path / "avro", "").decoder().kind == parse_ddl("a int")


def test_the_error_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of JSON needs neither."""
    monkeypatch.setitem(sys.modules, "stratalog.spark.values.avro", None)
    monkeypatch.setitem(sys.modules, "stratalog.spark.values.protobuf", None)
    for name in ("avro", "protobuf"):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'stratalog\[values\]'"):
            ReaderSchema(name, AVRO).decoder()


def test_a_process_has_one_client_for_a_registry() -> None:
    """So that answers of the registry are kept."""
    assert registry_of(RegistryAccess("http://a")) is registry_of(RegistryAccess("http://a"))
