"""Declared messages and their codec.

A message is one class for all its versions; annotations give the wire types and :func:`field` the versions::

    class ListOffsetsPartition(Struct):
        partition_index: Int32
        current_leader_epoch: Int32 = field(-1, since=4)
        timestamp: Int64 = field()


    class ListOffsetsRequest(Message, api_key=2, versions=(1, 11), flexible=6):
        replica_id: Int32
        isolation_level: Int8 = field(since=2)
        topics: list[ListOffsetsTopic]

Classes get slots and a keyword-only constructor: a field without ``field()`` must be given, any other has Kafka's
default. :func:`decoder` and :func:`encoder` compile a (class, version) on first use to straight-line Python. Sources:
Kafka's protocol guide; KIP-482 (tagged fields), KIP-893 (nullable structs).
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Generator
from functools import cache
from types import CodeType
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast, dataclass_transform

from stratalog.wire.errors import Invalid
from stratalog.wire.parts import EncodedList, FileSlice, Part
from stratalog.wire.primitives import (
    Bool,
    Buffer,
    DecodeError,
    EncodeError,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    ReceivedRecords,
    Records,
    Uint16,
    Uint32,
    Uuid,
)
from stratalog.wire.schema_constructor import construct
from stratalog.wire.schema_decode import ELEMENTS_MAX, TAGS_MAX, compile_decoder
from stratalog.wire.schema_encode import compile_element_encoder, compile_encoder
from stratalog.wire.schema_fields import ANY_VERSION, Declared, FieldSpec, field, field_spec
from stratalog.wire.schema_layout import StructLayout, struct_layout

__all__ = [
    "ELEMENTS_MAX",
    "TAGS_MAX",
    "Bool",
    "Buffer",
    "DecodeError",
    "Decoder",
    "EncodeError",
    "EncodedList",
    "Encoder",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Message",
    "ReceivedRecords",
    "Records",
    "Struct",
    "Uint16",
    "Uint32",
    "Uuid",
    "decode",
    "decoder",
    "element_encoder",
    "encode",
    "encode_bytes",
    "encoder",
    "field",
    "layout",
]

NO_API_KEY: Final = -1


@dataclass_transform(kw_only_default=True)
class _StructMeta(type):
    """Turns a declaration into a class with slots that knows its :class:`FieldSpec` list."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        if "__slots__" in namespace:  # one of the two base classes
            return super().__new__(mcs, name, bases, namespace)
        if any(getattr(base, "fields_declared", ()) for base in bases):
            raise TypeError(f"{name}: a struct cannot be declared on top of another one with fields")
        # The defaults leave the namespace: a slot cannot have the name of a class attribute.
        declared = {key: namespace.pop(key) for key, value in list(namespace.items()) if isinstance(value, Declared)}
        hints = _annotations(namespace)
        own = [key for key in hints if typing.get_origin(hints[key]) is not ClassVar and hints[key] is not ClassVar]
        specs = tuple(field_spec(name, key, hints[key], declared.get(key), Struct) for key in own)
        namespace |= {"__slots__": tuple(own), "__init__": construct, "fields_declared": specs}
        cls: Any = super().__new__(mcs, name, bases, namespace)
        _set_message_options(cls, **options)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_options: Any) -> None:
        super().__init__(name, bases, namespace)


def _annotations(namespace: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a class body as what they name; they are kept nowhere else.

    ``typing.get_type_hints`` does the same in five times the time, which a broker with 400 classes feels at its start.
    """
    names = vars(sys.modules[namespace["__module__"]])
    said = namespace.pop("__annotations__", {})
    return {
        key: eval(_expression(hint), names) if isinstance(hint, str) else hint  # noqa: S307 - our own text
        for key, hint in said.items()
    }


@cache
def _expression(text: str) -> CodeType:
    """Few types have many fields: each text is compiled once."""
    return compile(text, "<annotation>", "eval")


def _set_message_options(
    cls: Any, *, api_key: int = NO_API_KEY, versions: tuple[int, int] | None = None, flexible: int | None = None
) -> None:
    if versions is None:
        return
    cls.api_key = api_key
    cls.versions = versions
    cls.flexible_since = ANY_VERSION if flexible is None else flexible


class Struct(metaclass=_StructMeta):
    """A struct inside messages; its versions are those of the message around it."""

    __slots__ = ()

    fields_declared: ClassVar[tuple[FieldSpec, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, spec.name) == getattr(other, spec.name) for spec in self.fields_declared)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        inside = ", ".join(f"{spec.name}={getattr(self, spec.name)!r}" for spec in self.fields_declared)
        return f"{type(self).__name__}({inside})"


class Message(Struct):
    """A request, response or record: ``versions`` are the first and last one, ``flexible`` the first with tags.

    ``api_key`` is the API key, or the record type of a metadata record; -1 where there is none.
    """

    __slots__ = ()

    api_key: ClassVar[int] = NO_API_KEY
    versions: ClassVar[tuple[int, int]] = (0, -1)
    flexible_since: ClassVar[int] = ANY_VERSION


M = TypeVar("M", bound=Message)
_Decoded_co = TypeVar("_Decoded_co", bound=Message, covariant=True)
_Encoded_contra = TypeVar("_Encoded_contra", bound=Message, contravariant=True)


class Decoder(Protocol[_Decoded_co]):
    """A compiled decoder: the message at ``position`` and the position behind it.

    ``elements_max`` bounds the elements of all lists together, ``tags_max`` the unknown tags of one struct.
    Raises `DecodeError`.
    """

    def __call__(
        self, buffer: Buffer, position: int = 0, /, elements_max: int = ELEMENTS_MAX, tags_max: int = TAGS_MAX
    ) -> tuple[_Decoded_co, int]:
        """Decode."""
        ...


class Encoder(Protocol[_Encoded_contra]):
    """A compiled encoder: the parts of a message in wire order; records are parts of their own.

    A value that its version does not carry is left out. Raises `EncodeError`, naming the field.
    """

    def __call__(self, message: _Encoded_contra, /) -> list[Part]:
        """Encode."""
        ...


@cache
def layout(cls: type[Message], version: int) -> StructLayout:
    """The layout of a message in one version. Raises `Invalid` for a version outside ``cls.versions``."""
    first, last = cls.versions
    if not first <= version <= last:
        raise Invalid(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return struct_layout(cls, version, flexible=version >= cls.flexible_since)


@cache
def _compiled_decoder(cls: type[Message], version: int) -> Decoder[Any]:
    return cast("Decoder[Any]", compile_decoder(layout(cls, version), version))


@cache
def _compiled_encoder(cls: type[Message], version: int) -> Encoder[Any]:
    return compile_encoder(layout(cls, version), version)


def decoder(cls: type[M], version: int) -> Decoder[M]:
    """The decoder of one version, compiled once. Raises `Invalid` for a version outside ``cls.versions``."""
    return _compiled_decoder(cls, version)


def encoder(cls: type[M], version: int) -> Encoder[M]:
    """The encoder of one version, compiled once. Raises `Invalid` for a version outside ``cls.versions``."""
    return _compiled_encoder(cls, version)


@cache
def element_encoder(cls: type[Message], version: int, name: str) -> Callable[[Any], Generator[None, None, list[Part]]]:
    """The encoder of the structs in the list ``name`` of a message; it pauses, see `compile_element_encoder`.

    Raises `Invalid` for a version outside ``cls.versions`` and for what is no list of structs in that version.
    """
    found = next((slot for slot in layout(cls, version).slots if slot.name == name), None)
    if found is None or not found.is_list or found.layout is None:
        raise Invalid(f"{cls.__name__} v{version} has no list of structs called {name}")
    return compile_element_encoder(found.layout, version)


def decode(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> M:
    """The message at ``position``; bytes behind it are not looked at. Raises `DecodeError`."""
    return decoder(cls, version)(buffer, position)[0]


def encode(message: Message, version: int) -> list[Part]:
    """The parts of ``message`` in wire order. Raises `EncodeError`."""
    return _compiled_encoder(type(message), version)(message)


def encode_bytes(message: Message, version: int) -> bytes:
    """``message`` as one piece; only for messages without file slices. Raises `EncodeError`."""
    parts = encode(message, version)
    if any(isinstance(part, FileSlice) for part in parts):
        raise EncodeError(f"{type(message).__name__} holds a file slice: send its parts instead of joining them")
    return b"".join(cast("list[bytes]", parts))
