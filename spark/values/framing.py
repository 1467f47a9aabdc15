"""Confluent's wire format: a zero byte, the id of the schema in four bytes, and then the data.

In Protobuf the path of the message in its file comes before the data: a count and indexes as zigzag varints, or one
zero byte for the first message. Rows of one schema are decoded together, whatever their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stratalog.spark.rows.columns import slices
from stratalog.spark.values.rows import Decoder, scatter
from stratalog.spark.values.schema_registry import SchemaNotFound, SchemaRegistry
from stratalog.spark.values.schemas import ReaderSchema, avro_text, reader_schema
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

__all__ = ["FramedDecoder"]

_HEAD_BYTES: Final = 5
_DEPTH_MAX: Final = 32
_VARINT_BYTES_MAX: Final = 5
_CONTINUED: Final = 0x80

Rows = npt.NDArray[np.int64]


class _Writer(NamedTuple):
    """How the rows of one schema are decoded, or why they cannot be.

    An unknown schema may be registered tomorrow, so the answer does not last: streams run for years. ``files`` are
    those of Protobuf, in which the path of the message is looked up: answers by path are not kept, since paths come from the data.
    """

    decoder: Decoder | None
    reason: str = ""
    lasts: bool = True
    files: FileDescriptorSet | None = None


class FramedDecoder:
    """Decodes framed values into the type of ``schema``, whatever schema each of them was written with.

    Raises `Invalid` for a schema that has no type.
    """

    def __init__(self, schema: ReaderSchema, registry: SchemaRegistry) -> None:
        self._schema = schema
        self._registry = registry
        self._own = schema.decoder()
        self.kind = self._own.kind
        self._writers: dict[int, _Writer] = {}

    def decode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The decoded form of a binary array without nulls, and what is wrong with those rows that are null in it.

        Raises `RegistryError` where a schema can neither be had nor be known to be missing.
        """
        errors: dict[int, str] = {}
        _, offsets_buffer, data_buffer = values.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
        starts = offsets[:-1].astype(np.int64)
        ends = offsets[1:].astype(np.int64)
        data = np.frombuffer(data_buffer or b"", np.uint8)
        framed = (ends - starts > _HEAD_BYTES - 1) & (data.take(starts, mode="clip") == 0) if data.size else ends < 0
        for row in np.flatnonzero(~framed).tolist():
            errors[row] = "not in Confluent's wire format: a zero byte and the id of a schema come first"
        parts: list[tuple[Rows, pa.Array]] = []
        rows = np.flatnonzero(framed)
        heads = data[starts[rows, None] + np.arange(1, _HEAD_BYTES)].astype(np.int64)
        ids = heads @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)
        for schema_id in np.unique(ids).tolist():
            group = rows[ids == schema_id]
            for path, among, bodies in self._paths(data, group, starts[group] + _HEAD_BYTES, ends[group], errors):
                content = slices(data_buffer, bodies, ends[among] - bodies)
                parts.append((among, self._decode_group(schema_id, path, content, among, errors)))
        return _joined(parts, len(values), self.kind), errors

    def _decode_group(
        self, schema_id: int, path: tuple[int, ...], content: pa.Array, rows: Rows, errors: dict[int, str]
    ) -> pa.Array:
        """The rows of one writer's schema; their ``rows`` are what errors name them by."""
        writer = self._writers.get(schema_id) or self._writer(schema_id)
        if writer.lasts:
            self._writers[schema_id] = writer
        if writer.files is not None:
            writer = self._message_at(schema_id, writer.files, path)
        if writer.decoder is None:
            errors.update(dict.fromkeys(rows.tolist(), writer.reason))
            return pa.nulls(len(rows), self.kind)
        decoded, wrong = writer.decoder.decode(content)
        errors.update({int(rows[row]): f"{reason} (schema {schema_id})" for row, reason in wrong.items()})
        return decoded

    def _writer(self, schema_id: int) -> _Writer:
        if self._schema.format == "json":
            return _Writer(self._own)  # a document says all there is to know
        try:
            registered = self._registry.schema(schema_id)
            written = reader_schema(self._schema.format, registered)
        except (SchemaNotFound, Invalid) as error:
            return _Writer(None, f"schema {schema_id}: {error}", lasts=isinstance(error, Invalid))
        if self._schema.format == "avro":
            from stratalog.spark.values.avro import AvroDecoder, parse_avro_schema  # noqa: PLC0415 - optional

            try:
                return _Writer(
                    AvroDecoder(parse_avro_schema(self._schema.text), parse_avro_schema(avro_text(registered)))
                )
            except Invalid as error:
                return _Writer(None, f"schema {schema_id}: {error}")
        from stratalog.spark.values.protobuf import parse_descriptor_set  # noqa: PLC0415 - optional

        try:
            return _Writer(self._own, files=parse_descriptor_set(written.text.encode()))
        except Invalid as error:
            return _Writer(None, f"schema {schema_id}: {error}")

    def _message_at(self, schema_id: int, files: FileDescriptorSet, path: tuple[int, ...]) -> _Writer:
        from stratalog.spark.values.protobuf import ProtobufDecoder, message_at  # noqa: PLC0415 - optional

        assert isinstance(self._own, ProtobufDecoder), "the schema that is read with is one of Protobuf"
        try:
            name = message_at(files, path)
        except Invalid as error:
            return _Writer(None, f"schema {schema_id}: {error}")
        if name != self._own.message_name:
            return _Writer(None, f"schema {schema_id}: a message {name}, not {self._own.message_name}")
        return _Writer(self._own)

    def _paths(
        self, data: npt.NDArray[np.uint8], rows: Rows, at: Rows, ends: Rows, errors: dict[int, str]
    ) -> list[tuple[tuple[int, ...], Rows, Rows]]:
        """``(path, rows, where their data begins)``: of Protobuf by the path of the message, of others all in one."""
        if self._schema.format != "protobuf":
            return [((), rows, at)]
        first = (at < ends) & (data.take(at, mode="clip") == 0)
        if first.all():
            return [((0,), rows, at + 1)]
        found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for row, position, end in zip(rows.tolist(), at.tolist(), ends.tolist(), strict=True):
            try:
                path, behind = _message_path(data[position:end].tobytes())
            except (IndexError, ValueError) as error:
                errors[row] = f"no path of a Protobuf message in Confluent's wire format: {error}"
                continue
            found.setdefault(path, []).append((row, position + behind))
        return [(path, *np.array(pairs, np.int64).T.copy()) for path, pairs in found.items()]


def _message_path(data: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes before a message, and how many bytes they take. Raises `IndexError` and `ValueError` for nonsense."""
    count, at = _varint(data, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _DEPTH_MAX:
        raise ValueError(f"{count} indexes")
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        path.append(index)
    return tuple(path), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = data[at + place]
        value |= (byte & (_CONTINUED - 1)) << (7 * place)
        if byte < _CONTINUED:
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise ValueError("a varint of more than five bytes")


def _joined(parts: list[tuple[Rows, pa.Array]], count: int, kind: pa.DataType) -> pa.Array:
    """``count`` rows out of parts with their row numbers, null where no part has the row."""
    if not parts:
        return pa.nulls(count, kind)
    if len(parts) == 1 and len(parts[0][0]) == count:
        return parts[0][1]
    rows = np.concatenate([rows for rows, _ in parts])
    return scatter(pa.concat_arrays([values for _, values in parts]), rows, count)
