"""Protobuf messages to Arrow structs: the runtime parses each message, columns are made field by field.

A message type comes out of a file descriptor set (``protoc --include_imports --descriptor_set_out=…``). Fields that it
does not have are passed over, as Protobuf does; absent ones are null where the type knows absence, else its default.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from stratalog.spark.rows.value_types import TIMESTAMP
from stratalog.wire.errors import Invalid

__all__ = ["ProtobufDecoder", "message_at", "message_type", "parse_descriptor_set"]

Objects = Sequence[Any]
Column = Callable[[Objects], pa.Array]
"""Makes an array of objects of one type, None for null."""

_SCALARS: Final = {
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_FIXED64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
}
"""Spark has no unsigned integers: those of 32 bits are bigints, those of 64 bits decimals."""
_GOOGLE: Final = tuple(
    descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for module in (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
)
_MICROSECONDS: Final = 1_000_000
_UNFIT: Final = (ValueError, OverflowError, pa.ArrowException)
"""Raised where a column cannot hold a value: a Timestamp beyond 64 bits of microseconds, say."""
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def parse_descriptor_set(data: bytes) -> descriptor_pb2.FileDescriptorSet:
    """A file descriptor set as protoc writes it, or the base64 of one. Raises `Invalid`."""
    for decoded in _readings(data):
        try:
            found = descriptor_pb2.FileDescriptorSet.FromString(decoded)
        except DecodeError:
            continue
        if any(file.message_type for file in found.file):
            return found
    raise Invalid(
        "the Protobuf schema is no file descriptor set: make one by protoc --include_imports "
        "--descriptor_set_out=FILE NAME.proto"
    )


def _readings(data: bytes) -> Iterable[bytes]:
    yield data
    try:
        yield base64.b64decode(b"".join(data.split()), validate=True)
    except binascii.Error:
        return


def message_type(files: descriptor_pb2.FileDescriptorSet, name: str = "") -> Descriptor:
    """The message ``name`` (with its package), or the first of the last file, which is the one protoc was asked for.

    Raises `Invalid` for a name that is not there, with those that are, and for files that do not fit together.
    """
    pool = _pool(files)
    if not name:
        return pool.FindMessageTypeByName(message_at(files, (0,)))
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError as error:
        there = [".".join(filter(None, (file.package, each.name))) for file in files.file for each in file.message_type]
        raise Invalid(f"there is no Protobuf message '{name}' in the schema, only {', '.join(there)}") from error


def _pool(files: descriptor_pb2.FileDescriptorSet) -> descriptor_pool.DescriptorPool:
    """The files in a pool of their own, with those of Protobuf itself that they import and did not bring."""
    pool = descriptor_pool.DescriptorPool()
    there = {file.name for file in files.file}
    try:
        for file in (*(each for each in _GOOGLE if each.name not in there), *files.file):
            pool.AddSerializedFile(file.SerializeToString())
    except (TypeError, ValueError) as error:
        raise Invalid(f"the Protobuf files do not fit together: {error}; add --include_imports to protoc") from error
    return pool


def message_at(files: descriptor_pb2.FileDescriptorSet, path: Sequence[int]) -> str:
    """The name of a message of the last file by its index, and the indexes of messages inside. Raises `Invalid`."""
    file = files.file[-1]
    names, messages = [file.package] if file.package else [], file.message_type
    for index in path:
        if not 0 <= index < len(messages):
            raise Invalid(f"the Protobuf file {file.name} has no message at {list(path)}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


class ProtobufDecoder:
    """Decodes messages of one type into structs. Raises `Invalid` for types that contain themselves."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._message = message_factory.GetMessageClass(descriptor)
        self.message_name = descriptor.full_name
        self.kind, self._column = _message(descriptor, ())

    def decode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The structs of a binary array without nulls, and what is wrong with those rows that are null in it."""
        errors: dict[int, str] = {}
        messages: list[Message | None] = []
        parse = self._message.FromString
        for row, value in enumerate(values.to_pylist()):
            try:
                messages.append(parse(value))
            except DecodeError as error:
                messages.append(None)
                errors[row] = f"no Protobuf message of this type: {error}"
        made = []
        left = [(0, len(messages))]
        while left:
            start, end = left.pop()
            try:
                made.append(self._column(messages[start:end]))
            except _UNFIT as error:
                if end - start == 1:
                    errors[start] = f"a value of this Protobuf message has no column: {error}"
                    made.append(pa.nulls(1, self.kind))
                else:
                    half = (start + end) // 2
                    left += ((half, end), (start, half))
        return pa.concat_arrays(made), errors


def _message(descriptor: Descriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Column]:
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return TIMESTAMP, lambda objects: pa.array([_microseconds(each) for each in objects], TIMESTAMP)
    if name in _WRAPPERS:
        kind, single = _single(descriptor.fields_by_name["value"], above)
        return kind, lambda objects: single([None if each is None else each.value for each in objects])
    if name in above:
        raise Invalid(f"the Protobuf message '{name}' contains itself: there is no column for that, read it as binary")
    made = [(each.name, *_field(each, (*above, name))) for each in descriptor.fields]
    if not made:
        raise Invalid(f"the Protobuf message '{name}' has no field")
    fields = [pa.field(field, kind) for field, kind, _ in made]

    def column(objects: Objects) -> pa.Array:
        missing = pa.array([each is None for each in objects], pa.bool_())
        arrays = [make(objects) for _, _, make in made]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=missing)

    return pa.struct(fields), column


def _field(field: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Column]:
    """The type of a field, and how its column is made of the messages that have it."""
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(field, above)
    kind, column = _single(field, above)
    if field.is_repeated:
        listed = pa.list_(pa.field("element", kind))

        def repeated(objects: Objects) -> pa.Array:
            rows = [() if each is None else getattr(each, name) for each in objects]
            return pa.ListArray.from_arrays(_offsets(rows), column(list(chain.from_iterable(rows))), type=listed)

        return listed, repeated
    if field.has_presence:
        return kind, lambda objects: column(
            [getattr(each, name) if each is not None and each.HasField(name) else None for each in objects]
        )
    return kind, lambda objects: column([None if each is None else getattr(each, name) for each in objects])


def _single(field: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Column]:
    """The type of one value of ``field``, however often it occurs."""
    if field.message_type is not None:
        return _message(field.message_type, above)
    if field.enum_type is not None:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return pa.string(), lambda objects: pa.array(
            [None if each is None else names.get(each, str(each)) for each in objects], pa.string()
        )
    kind = _SCALARS[field.type]
    return kind, lambda objects: pa.array(objects, kind)


def _map(field: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Column]:
    name, entry = field.name, field.message_type
    assert entry is not None, "a map is a message of keys and values"
    key_kind, keys = _single(entry.fields_by_name["key"], above)
    item_kind, items = _single(entry.fields_by_name["value"], above)
    kind = pa.map_(key_kind, item_kind)

    def column(objects: Objects) -> pa.Array:
        rows = [{} if each is None else getattr(each, name) for each in objects]
        made = keys(list(chain.from_iterable(rows))), items([row[key] for row in rows for key in row])
        return pa.MapArray.from_arrays(_offsets(rows), *made, type=kind)

    return kind, column


def _offsets(rows: Iterable[Sequence[Any] | dict[Any, Any]]) -> pa.Array:
    return pa.array(list(accumulate(map(len, rows), initial=0)), pa.int32())


def _microseconds(moment: Any) -> int | None:
    return None if moment is None else moment.seconds * _MICROSECONDS + moment.nanos // 1000
