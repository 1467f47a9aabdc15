"""The options that say what keys and values are: formats, schemas and the registry they come from. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from stratalog.spark.values.schema_registry import RegistryAccess
from stratalog.wire.errors import Invalid

__all__ = ["ERROR_COLUMNS", "VALUE_OPTIONS", "FieldOptions", "ValueOptions", "parse_value_options"]

FORMATS: Final = ("binary", "string", "json", "avro", "protobuf")
ERROR_COLUMNS: Final = {"key": "keyError", "value": "valueError"}
"""Column -> the column that says why it is null; there is one for each decoded column."""
VALUE_OPTIONS: Final = (
    "keyFormat", "valueFormat", "keySchema", "valueSchema", "keySchemaFile", "valueSchemaFile",
    "keyMessage", "valueMessage", "keySubject", "valueSubject",
    "schemaRegistry", "schemaRegistry.user", "schemaRegistry.password",
)  # fmt: skip
_OF_SCHEMAS: Final = ("Schema", "SchemaFile", "Message", "Subject")


class FieldOptions(Struct, frozen=True):
    """The format of keys or of values. The schema to read with is ``schema``, or is in ``file``, or is ``subject``'s."""

    format: str = "binary"
    schema: str = ""
    file: str = ""
    message: str = ""
    subject: str = ""


class ValueOptions(Struct, frozen=True):
    """The formats of keys and values. With a registry, data with a schema begins with five bytes that name it."""

    key: FieldOptions = FieldOptions()
    value: FieldOptions = FieldOptions()
    registry: RegistryAccess | None = None

    def decoded(self) -> dict[str, FieldOptions]:
        """Column -> its options, where it is not left as bytes."""
        both = {"key": self.key, "value": self.value}
        return {name: field for name, field in both.items() if field.format != "binary"}


def parse_value_options(given: Mapping[str, str], topics: Sequence[str]) -> ValueOptions:
    """The options among ``given`` (names in lower case). ``topics`` are those that are read, where they are known.

    Raises `Invalid` for what does not fit together.
    """
    url = given.get("schemaregistry", "").strip()
    user, password = given.get("schemaregistry.user", ""), given.get("schemaregistry.password", "")
    if not url and (user or password):
        raise Invalid("option 'schemaRegistry.user' needs the option 'schemaRegistry', the URL")
    registry = RegistryAccess(url, user, password) if url else None
    key, value = (_field(given, column, registry, topics) for column in ("key", "value"))
    if registry is not None and not {key.format, value.format} & {"json", "avro", "protobuf"}:
        raise Invalid("option 'schemaRegistry' needs 'keyFormat' or 'valueFormat' to be json, avro or protobuf")
    return ValueOptions(key, value, registry)


def _field(
    given: Mapping[str, str], column: str, registry: RegistryAccess | None, topics: Sequence[str]
) -> FieldOptions:
    format_name = given.get(f"{column}format", "binary").strip().lower()
    if format_name not in FORMATS:
        raise Invalid(f"option '{column}Format' must be one of {', '.join(FORMATS)}, got '{format_name}'")
    schema, file, message, subject = (given.get(f"{column}{name.lower()}", "").strip() for name in _OF_SCHEMAS)
    if format_name in {"binary", "string"}:
        for name, text in zip(_OF_SCHEMAS, (schema, file, message, subject), strict=True):
            if text:
                raise Invalid(f"option '{column}{name}' has no meaning with '{column}Format' {format_name}")
        return FieldOptions(format_name)
    if message and format_name != "protobuf":
        raise Invalid(f"option '{column}Message' has no meaning with '{column}Format' {format_name}")
    if schema and file:
        raise Invalid(f"only one of the options '{column}Schema' and '{column}SchemaFile' can be specified")
    if not schema and not file:
        subject = _subject(column, format_name, subject, registry, topics)
    elif subject:
        raise Invalid(f"option '{column}Subject' has no meaning where the schema to read with is given")
    return FieldOptions(format_name, schema, file, message, subject)


def _subject(
    column: str, format_name: str, subject: str, registry: RegistryAccess | None, topics: Sequence[str]
) -> str:
    """The subject whose newest schema is read with: by default that of the topic, as Confluent's clients name it."""
    if registry is None:
        raise Invalid(
            f"'{column}Format' {format_name} needs one of the options '{column}Schema', '{column}SchemaFile' and "
            f"'schemaRegistry'"
        )
    if subject:
        return subject
    if len(topics) != 1:
        raise Invalid(
            f"option '{column}Subject' must be specified where not exactly one topic is read: the subject whose newest "
            f"schema all of them are read with"
        )
    return f"{topics[0]}-{column}"
