"""The facts that a declaration gives about one field: its type, its versions, its default."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from stratalog.wire.primitives import BLOB, TEXT, Scalar

__all__ = ["ANY_VERSION", "Declared", "FieldSpec", "FieldType", "ListOf", "Nested", "field", "field_spec"]

ANY_VERSION: Final = 32767
"""The largest version there can be: "and every later one"."""

_UNSET: Final = object()


class ListOf(Struct, frozen=True):
    """A list whose elements are all of one type."""

    element: Scalar | Nested


class Nested(Struct, frozen=True):
    """A struct inside a message."""

    cls: type[Any]


FieldType = Scalar | ListOf | Nested


class Declared(Struct, frozen=True, kw_only=True):
    """The right-hand side of a field in a declaration, before its annotation is known."""

    default: object = _UNSET
    since: int = 0
    until: int = ANY_VERSION
    tag: int | None = None
    tagged_since: int = 0
    nullable_since: int = 0
    nullable_until: int = ANY_VERSION
    compact: bool = True
    presence: bool = False


class FieldSpec(Struct, frozen=True, kw_only=True):
    """One field of a struct over all versions.

    ``required``: the constructor has no default for it. ``tag`` counts from version ``tagged_since``; before that
    the field stands in line. ``compact=False`` keeps the old length prefix also in flexible versions. ``presence``:
    a byte before a tagged struct says whether it is there.
    """

    name: str
    type: FieldType
    default: object
    required: bool
    since: int
    until: int
    tag: int | None
    tagged_since: int
    nullable_since: int
    nullable_until: int
    compact: bool
    presence: bool

    def present(self, version: int) -> bool:
        """Whether ``version`` carries the field at all."""
        return self.since <= version <= self.until

    def tagged(self, version: int) -> bool:
        """Whether ``version`` carries it in the tag section."""
        return self.tag is not None and version >= self.tagged_since

    def nullable(self, version: int) -> bool:
        """Whether null may stand on the wire in ``version``."""
        return self.nullable_since <= version <= self.nullable_until


def field(
    default: Any = _UNSET,
    *,
    since: int = 0,
    until: int = ANY_VERSION,
    tag: int | None = None,
    tagged_since: int | None = None,
    nullable_since: int = 0,
    nullable_until: int = ANY_VERSION,
    compact: bool = True,
    presence: bool = False,
) -> Any:
    """Declare an optional field: what a version does not carry, and what the constructor is not given, is ``default``.

    Without ``default`` it is Kafka's: 0, empty text, empty list, the zero uuid, and ``None`` for a type that allows
    it. ``since`` and ``until`` are the first and last version that carry the field. With ``tag`` it is a tagged
    field (KIP-482), from ``tagged_since`` on where that is later than ``since``; a tagged struct is ``None`` when it
    is not sent. With ``presence`` it is always sent: a byte in front of it says whether it is there, which is how Kafka
    writes a tagged struct that may be null and whose default is not null. ``X | None`` may be null in every version unless ``nullable_since``/``nullable_until`` narrow that.
    """
    return Declared(
        default=default,
        since=since,
        until=until,
        tag=tag,
        tagged_since=since if tagged_since is None else tagged_since,
        nullable_since=nullable_since,
        nullable_until=nullable_until,
        compact=compact,
        presence=presence,
    )


def field_spec(owner: str, name: str, annotation: Any, declared: Declared | None, nested: type[Any]) -> FieldSpec:
    """Combine an annotation and its :func:`field`; ``nested`` is the base class of structs. Raises `TypeError`."""
    inner, optional = _strip_none(annotation)
    kind = _field_type(inner, nested)
    if kind is None:
        raise TypeError(f"{owner}.{name}: {annotation!r} is not a wire type")
    given = declared if declared is not None else Declared()
    absent_struct = given.tag is not None and isinstance(kind, Nested)
    if absent_struct and not optional:
        raise TypeError(f"{owner}.{name}: a tagged struct is declared `X | None`, None meaning that it is not sent")
    if absent_struct and given.default is not _UNSET and given.default is not None:
        raise TypeError(f"{owner}.{name}: the default of a tagged struct is None")
    default = given.default if given.default is not _UNSET else _implicit_default(kind, optional=optional)
    nullable = optional and not absent_struct
    return FieldSpec(
        name=name,
        type=kind,
        default=default,
        required=declared is None,
        since=given.since,
        until=given.until,
        tag=given.tag,
        tagged_since=given.tagged_since,
        nullable_since=given.nullable_since if nullable else ANY_VERSION + 1,
        nullable_until=given.nullable_until,
        compact=given.compact,
        presence=given.presence,
    )


def _strip_none(annotation: Any) -> tuple[Any, bool]:
    """``X | None`` is ``(X, True)``; the parts of a union inside ``Annotated`` stay together."""
    if typing.get_origin(annotation) not in {typing.Union, types.UnionType}:
        return annotation, False
    rest = [option for option in typing.get_args(annotation) if option is not type(None)]
    return (rest[0], True) if len(rest) == 1 else (annotation, False)


_PLAIN: Final[Mapping[Any, Scalar]] = {str: TEXT, bytes: BLOB}


def _field_type(annotation: Any, nested: type[Any]) -> FieldType | None:
    if typing.get_origin(annotation) is list:
        element = _element_type(typing.get_args(annotation)[0], nested)
        return None if element is None else ListOf(element)
    return _element_type(annotation, nested)


def _element_type(annotation: Any, nested: type[Any]) -> Scalar | Nested | None:
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, Scalar):
            return extra
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, nested):
        return Nested(annotation)
    return None


def _implicit_default(kind: FieldType, *, optional: bool) -> object:
    if optional:
        return None
    if isinstance(kind, ListOf):
        return []
    if isinstance(kind, Nested):
        return kind.cls
    return kind.default
