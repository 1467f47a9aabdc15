"""Protobuf messages to structs."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from stratalog.spark.rows.value_types import ddl_of
from stratalog.spark.values.protobuf import ProtobufDecoder, message_at, message_type, parse_descriptor_set
from stratalog.wire.errors import Invalid

ONE, MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
SCALARS = {
    "double": 1.5, "float": 0.5, "int64": -(2**40), "uint64": 2**64 - 1, "int32": -5, "fixed64": 1, "fixed32": 2**32 - 1,
    "bool": True, "string": "ü", "bytes": b"\x00", "uint32": 2**32 - 1, "sfixed32": -1, "sfixed64": -2, "sint32": -3,
    "sint64": -4,
}  # fmt: skip


def add(message: Any, name: str, kind: str, label: int = ONE, **more: Any) -> None:
    number = len(message.field) + 1
    kind_number = getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}")
    message.field.add(name=name, number=number, type=kind_number, label=label, **more)


@pytest.fixture
def files() -> FileDescriptorSet:
    """``shop.Order`` with a field of every kind, ``shop.Loop``, which contains itself, and ``shop.Empty``."""
    made = FileDescriptorSet()
    imported = ["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"]
    file = made.file.add(name="shop.proto", package="shop", syntax="proto3", dependency=imported)
    order = file.message_type.add(name="Order")
    for kind in SCALARS:
        add(order, f"a_{kind}", kind)
    order.oneof_decl.add(name="_maybe")
    add(order, "maybe", "int32", oneof_index=0, proto3_optional=True)
    add(order, "state", "enum", type_name=".shop.State")
    add(order, "states", "enum", MANY, type_name=".shop.State")
    add(order, "tags", "string", MANY)
    add(order, "place", "message", type_name=".shop.Order.Place")
    add(order, "places", "message", MANY, type_name=".shop.Order.Place")
    add(order, "at", "message", type_name=".google.protobuf.Timestamp")
    add(order, "note", "message", type_name=".google.protobuf.StringValue")
    add(order, "homes", "message", MANY, type_name=".shop.Order.HomesEntry")
    add(order.nested_type.add(name="Place"), "city", "string")
    entry = order.nested_type.add(name="HomesEntry")
    entry.options.map_entry = True
    add(entry, "key", "string")
    add(entry, "value", "message", type_name=".shop.Order.Place")
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="DONE", number=1)
    loop = file.message_type.add(name="Loop")
    add(loop, "next", "message", type_name=".shop.Loop")
    file.message_type.add(name="Empty")
    return made


def decoded(made: ProtobufDecoder, *values: bytes) -> tuple[list[Any], dict[int, str]]:
    array, errors = made.decode(pa.array(values, pa.binary()))
    assert array.type == made.kind
    array.validate(full=True)
    return array.to_pylist(), errors


def test_every_kind_of_field_is_read(files: FileDescriptorSet) -> None:
    """Unsigned numbers as wider types, enums by name, wrappers and times as what they stand for."""
    descriptor = message_type(files)
    made = ProtobufDecoder(descriptor)
    message = message_factory.GetMessageClass(descriptor)(
        **{f"a_{kind}": value for kind, value in SCALARS.items()},
        maybe=0, state=1, states=[0, 7], tags=["x", ""], place={"city": "Ulm"}, places=[{"city": "Bonn"}, {}],
    )  # fmt: skip
    message.at.seconds, message.at.nanos = 5, 6000
    message.note.value = "n"
    message.homes["k"].city = "Hof"
    rows, errors = decoded(made, message.SerializeToString(), b"")
    assert errors == {}
    whole = {f"a_{kind}": value for kind, value in SCALARS.items()}
    whole |= {"a_uint64": Decimal(2**64 - 1), "a_fixed64": Decimal(1)}
    assert rows[0] == whole | {
        "maybe": 0, "state": "DONE", "states": ["NEW", "7"], "tags": ["x", ""], "place": {"city": "Ulm"},
        "places": [{"city": "Bonn"}, {"city": ""}], "at": datetime.fromtimestamp(5.000006, UTC), "note": "n",
        "homes": [("k", {"city": "Hof"})],
    }  # fmt: skip
    absent = {"maybe", "place", "at", "note"}
    assert {name for name, value in rows[1].items() if value is None} == absent
    assert rows[1]["a_string"] == ""
    assert rows[1]["tags"] == []
    assert ddl_of(made.kind).startswith(
        "struct<`a_double`:double,`a_float`:float,`a_int64`:bigint,`a_uint64`:decimal(20,0)"
    )


def test_fields_may_be_new_or_missing(files: FileDescriptorSet) -> None:
    """Fields of a newer program that this schema lacks are passed over."""
    newer = FileDescriptorSet.FromString(files.SerializeToString())
    add(newer.file[0].message_type[0], "added", "string")
    message = message_factory.GetMessageClass(message_type(newer))(added="x", a_int32=3)
    rows, errors = decoded(ProtobufDecoder(message_type(files)), message.SerializeToString())
    assert errors == {}
    assert rows[0]["a_int32"] == 3


def test_a_value_that_is_no_message_is_null_and_reported(files: FileDescriptorSet) -> None:
    """The others are there."""
    made = ProtobufDecoder(message_type(files, "shop.Order.Place"))
    rows, errors = decoded(made, b"\x0a\x03Ulm", b"\x0a\x09Ulm", b"\xff", b"\x0a\x02\xff\xff", b"\x0a\x03Hof")
    assert [row and row["city"] for row in rows] == ["Ulm", None, None, None, "Hof"]
    assert list(errors) == [1, 2, 3]
    assert all(reason.startswith("no Protobuf message of this type: ") for reason in errors.values())


def test_a_descriptor_set_is_bytes_or_base64(files: FileDescriptorSet) -> None:
    """As protoc writes it, or as it stands in an option; the error for any other file says how to make one."""
    data = files.SerializeToString()
    assert parse_descriptor_set(data) == parse_descriptor_set(base64.encodebytes(data)) == files
    for wrong in (b"", b'syntax = "proto3";', b"\xff\xff"):
        with pytest.raises(Invalid, match="--include_imports"):
            parse_descriptor_set(wrong)


def test_messages_are_found_by_name_and_by_place(files: FileDescriptorSet) -> None:
    """The error for a wrong name lists those that are there."""
    assert message_at(files, (0, 0)) == "shop.Order.Place"
    assert message_type(files, "shop.Loop").full_name == message_at(files, [1]) == "shop.Loop"
    with pytest.raises(Invalid, match=r"no Protobuf message 'Order' in the schema, only shop.Order, shop.Loop"):
        message_type(files, "Order")
    with pytest.raises(Invalid, match=r"shop.proto has no message at \[3\]"):
        message_at(files, (3,))


def test_types_without_columns_are_refused(files: FileDescriptorSet) -> None:
    """When the decoder is made."""
    with pytest.raises(Invalid, match=r"'shop.Loop' contains itself"):
        ProtobufDecoder(message_type(files, "shop.Loop"))
    with pytest.raises(Invalid, match=r"'shop.Empty' has no field"):
        ProtobufDecoder(message_type(files, "shop.Empty"))


def test_files_that_lack_an_import_are_refused(files: FileDescriptorSet) -> None:
    """Those of Protobuf itself need not be there."""
    files.file[0].dependency.append("other.proto")
    with pytest.raises(Invalid, match=r"do not fit together: .*--include_imports"):
        message_type(files)
    with_own = FileDescriptorSet(
        file=[descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)]
    )
    assert message_type(with_own).full_name == "google.protobuf.Timestamp"


@pytest.mark.parametrize("seconds", [2**60, -(2**62), 300_000 * 366 * 86400])
def test_a_time_beyond_all_columns_is_null_and_reported(files: FileDescriptorSet, seconds: int) -> None:
    """Its neighbours are read: one record of any producer does not end a stream."""
    descriptor = message_type(files, "shop.Order")
    order = message_factory.GetMessageClass(descriptor)
    far = order()
    far.at.seconds = seconds
    values = [order(a_int32=number).SerializeToString() for number in range(5)]
    values[3:3] = [far.SerializeToString(), b"\xff"]
    rows, errors = decoded(ProtobufDecoder(descriptor), *values)
    assert [row and row["a_int32"] for row in rows] == [0, 1, 2, None, None, 3, 4]
    assert sorted(errors) == [3, 4]
    assert errors[3].startswith("a value of this Protobuf message has no column: ")
