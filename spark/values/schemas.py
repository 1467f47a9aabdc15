"""The schema that values are read with, wherever it comes from, and the decoder that it makes.

fastavro and protobuf are imported when a schema of theirs is used: who reads JSON need not have them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from stratalog.extras import MissingPackage
from stratalog.spark.rows.value_types import parse_ddl, type_of_json_schema
from stratalog.spark.values.json_values import JsonDecoder
from stratalog.spark.values.proto_text import compile_file, compile_text, proto_text
from stratalog.spark.values.rows import Decoder
from stratalog.spark.values.schema_registry import RegisteredSchema, RegistryAccess, SchemaRegistry
from stratalog.wire.errors import Invalid

__all__ = ["ReaderSchema", "avro_text", "descriptor_set_text", "reader_schema", "registry_of"]

_PACKAGES: Final = {"avro": "fastavro", "protobuf": "protobuf"}


class ReaderSchema(Struct, frozen=True):
    """The type that values are read as. ``text`` is DDL, JSON Schema, an Avro schema or a descriptor set in base64.

    ``message`` names the message of Protobuf, where it is not the first.
    """

    format: str
    text: str = ""
    message: str = ""

    @classmethod
    def from_bytes(cls, format_name: str, data: bytes, message: str) -> ReaderSchema:
        """The schema in a file. Raises `Invalid` for one that is no text, where it must be."""
        if format_name == "protobuf":
            return cls(format_name, base64.b64encode(data).decode("ascii"), message)
        try:
            return cls(format_name, data.decode("utf-8-sig"), message)
        except UnicodeDecodeError as error:
            raise Invalid(f"the file of the {format_name} schema is no UTF-8: {error}") from error

    @classmethod
    def from_file(cls, format_name: str, path: Path, message: str) -> ReaderSchema:
        """The schema in a file, and of Protobuf in those that it imports. Raises `Invalid` and `OSError`."""
        data = path.read_bytes()
        if format_name == "protobuf" and proto_text(data) is not None:
            data = compile_file(path)
        return cls.from_bytes(format_name, data, message)

    @classmethod
    def from_text(cls, format_name: str, text: str, message: str) -> ReaderSchema:
        """The schema in an option. Raises `Invalid`."""
        if format_name == "protobuf" and proto_text(text.encode()) is not None:
            return cls.from_bytes(format_name, compile_text(text), message)
        return cls(format_name, text, message)

    def decoder(self) -> Decoder:
        """A decoder for values of this very schema. Raises `Invalid`, and `MissingPackage`."""
        if self.format == "json":
            return JsonDecoder(_json_type(self.text))
        try:
            return self._decoder_of_package()
        except ModuleNotFoundError as error:
            package = _PACKAGES[self.format]
            message = f"{self.format} values need {package}: pip install 'stratalog[values]'"
            raise MissingPackage(message, name=error.name) from error

    def _decoder_of_package(self) -> Decoder:
        if self.format == "avro":
            from stratalog.spark.values.avro import AvroDecoder, parse_avro_schema  # noqa: PLC0415 - optional

            return AvroDecoder(parse_avro_schema(self.text))
        from stratalog.spark.values.protobuf import (  # noqa: PLC0415 - optional
            ProtobufDecoder,
            message_type,
            parse_descriptor_set,
        )

        return ProtobufDecoder(message_type(parse_descriptor_set(self.text.encode()), self.message))


def _json_type(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return parse_ddl(text)
    try:
        return type_of_json_schema(json.loads(text))
    except json.JSONDecodeError as error:
        raise Invalid(f"the JSON Schema cannot be read: {error}") from error


@lru_cache(maxsize=8)
def registry_of(access: RegistryAccess) -> SchemaRegistry:
    """The registry of this process, which keeps its answers."""
    return SchemaRegistry(access)


def reader_schema(format_name: str, registered: RegisteredSchema, message: str = "") -> ReaderSchema:
    """A schema out of a registry. Raises `Invalid` for one of another format."""
    if registered.kind != format_name.upper():
        raise Invalid(f"the registered schema is of the format {registered.kind}, not {format_name}")
    text = {"avro": avro_text, "protobuf": descriptor_set_text}.get(format_name, lambda each: each.text)(registered)
    return ReaderSchema(format_name, text, message)


def avro_text(registered: RegisteredSchema) -> str:
    """An Avro schema with those that it refers to, each at the first place where it is named. Raises `Invalid`."""
    try:
        known = {name: json.loads(text) for name, text in registered.references}
        return json.dumps(_inlined(json.loads(registered.text), known))
    except json.JSONDecodeError as error:
        raise Invalid(f"the registered Avro schema is no JSON: {error}: {registered.text[:200]}") from error


def _inlined(schema: Any, known: dict[str, Any]) -> Any:
    """``schema`` with what is ``known`` in the place of its name, once: what was put in is taken out of ``known``."""
    if isinstance(schema, str) and schema in known:
        return _inlined(known.pop(schema), known)
    if isinstance(schema, list):
        return [_inlined(each, known) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = dict(schema)
    for name in ("type", "items", "values"):
        if name in made:
            made[name] = _inlined(made[name], known)
    if "fields" in made:
        made["fields"] = [{**each, "type": _inlined(each["type"], known)} for each in made["fields"]]
    return made


def descriptor_set_text(registered: RegisteredSchema) -> str:
    """The descriptor set, in base64, of a Protobuf schema and those that it imports, which come first.

    Registries that do not know ``format=serialized`` give the text, which is compiled. Raises `Invalid` for what is
    neither.
    """
    if proto_text(registered.text.encode()) is not None:
        return base64.b64encode(compile_text(registered.text, registered.references)).decode("ascii")
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - optional
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    files = descriptor_pb2.FileDescriptorSet()
    for name, text in (*registered.references, ("", registered.text)):
        try:
            file = files.file.add()
            file.ParseFromString(base64.b64decode(text, validate=True))
        except (ValueError, DecodeError) as error:
            raise Invalid(
                f"the schema registry gives neither descriptor nor text of the Protobuf schema {name}: {error}"
            ) from error
        if name:
            file.name = name
    return base64.b64encode(files.SerializeToString()).decode("ascii")
