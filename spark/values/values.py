"""Keys and values decoded inside Arrow batches: text, JSON, Avro and Protobuf, with what is wrong in a column beside them.

No row is lost: what cannot be decoded is null, and its column of errors says why. Only a registry that cannot be asked
ends the read, since what it would say is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa
from msgspec import Struct

from stratalog.spark.rows.schema import arrow_schema
from stratalog.spark.values.framing import FramedDecoder
from stratalog.spark.values.options import ERROR_COLUMNS, FieldOptions, ValueOptions
from stratalog.spark.values.rows import Decoder, TextDecoder, decode_rows
from stratalog.spark.values.schema_registry import RegistryAccess
from stratalog.spark.values.schemas import ReaderSchema, reader_schema, registry_of

__all__ = ["ReadColumns", "ValueFormats", "decode_values", "raw_columns", "resolve_values"]


class ValueFormats(Struct, frozen=True):
    """The formats of keys and values, with the schemas to read with; it travels to the tasks.

    ``schemas`` are pairs of a column, ``key`` or ``value``, and its schema.
    """

    schemas: tuple[tuple[str, ReaderSchema], ...]
    registry: RegistryAccess | None = None

    def kinds(self) -> dict[str, pa.DataType]:
        """Column -> its type, for decoded columns and those of their errors. Raises `Invalid` for a wrong schema."""
        kinds = {column: _decoder(schema, self.registry).kind for column, schema in self.schemas}
        return kinds | {ERROR_COLUMNS[column]: pa.string() for column in kinds}


class ReadColumns(Struct, frozen=True):
    """The columns of a read, and the columns of the archive that they are made of; it travels to the tasks.

    Those in ``required`` are declared not nullable. Without ``formats`` nothing is decoded.
    """

    names: tuple[str, ...]
    required: frozenset[str] = frozenset()
    formats: ValueFormats | None = None

    @property
    def raw(self) -> tuple[str, ...]:
        """Columns that are read from the archive."""
        return self.names if self.formats is None else raw_columns(self.names)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches that `decode` gives. Raises `Invalid` for a wrong schema of keys or values."""
        return arrow_schema(self.names, self.required, {} if self.formats is None else self.formats.kinds())

    def decode(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, which have the columns `raw`, with the columns that were asked for. Raises `RegistryError`."""
        if self.formats is None:
            return batches
        return map(partial(decode_values, formats=self.formats, schema=self.schema), batches)


def resolve_values(options: ValueOptions) -> ValueFormats | None:
    """The formats with their schemas, read from files and the registry now; None where all stays bytes.

    Raises `Invalid` for a schema that cannot be read, `RegistryError`, and `OSError` for a file.
    """
    decoded = options.decoded()
    if not decoded:
        return None
    schemas = tuple((column, _schema(field, options.registry)) for column, field in decoded.items())
    return ValueFormats(schemas, options.registry)


def _schema(field: FieldOptions, registry: RegistryAccess | None) -> ReaderSchema:
    if field.format == "string":
        return ReaderSchema("string")
    if field.subject:
        assert registry is not None, "a subject is only parsed with a registry"
        return reader_schema(field.format, registry_of(registry).latest(field.subject), field.message)
    if field.file:
        return ReaderSchema.from_file(field.format, Path(field.file.removeprefix("file://")), field.message)
    return ReaderSchema.from_text(field.format, field.schema, field.message)


@lru_cache(maxsize=64)
def _decoder(schema: ReaderSchema, registry: RegistryAccess | None) -> Decoder:
    if schema.format == "string":
        return TextDecoder()
    return schema.decoder() if registry is None else FramedDecoder(schema, registry_of(registry))


def raw_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of the archive that ``columns`` are made of: an error is made of what it is about."""
    sources = {error: column for column, error in ERROR_COLUMNS.items()}
    return tuple(dict.fromkeys(sources.get(name, name) for name in columns))


def decode_values(batch: pa.RecordBatch, formats: ValueFormats, schema: pa.Schema) -> pa.RecordBatch:
    """``batch``, which has `raw_columns`, with the columns of ``schema``. Raises `RegistryError`."""
    made: dict[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
    for column, reader in formats.schemas:
        if column in made:
            made[column], made[ERROR_COLUMNS[column]] = decode_rows(_decoder(reader, formats.registry), made[column])
    return pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)
