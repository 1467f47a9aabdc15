"""One struct in one version: the fields that are there, in wire order, with everything a compiler has to know."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stratalog.wire.primitives import Scalar
from stratalog.wire.schema_fields import FieldSpec, ListOf, Nested

__all__ = ["Slot", "StructLayout", "struct_layout"]


class Slot(Struct, frozen=True):
    """One field as a version carries it.

    ``scalar`` is its type or that of its elements, ``layout`` the layout if that is a struct (one of the two is
    set); ``compact``: lengths are varints; ``path`` names the field in errors.
    """

    name: str
    path: str
    is_list: bool
    scalar: Scalar | None
    layout: StructLayout | None
    nullable: bool
    compact: bool
    tag: int | None
    default: object
    presence: bool = False

    def element(self) -> Slot:
        """The slot of one element of a list: never null."""
        return Slot(self.name, self.path, False, self.scalar, self.layout, False, self.compact, None, None)

    @property
    def size_bytes_min(self) -> int:
        """The fewest bytes that a value can occupy; what counts are checked against before anything is allocated."""
        if self.is_list:
            return 1 if self.compact else 4
        if self.layout is not None:
            return 1 if self.nullable else self.layout.size_bytes_min
        if self.scalar is not None and self.scalar.size_bytes:
            return self.scalar.size_bytes
        if self.compact:
            return 1
        return 2 if self.scalar is not None and self.scalar.name == "string" else 4


class StructLayout(Struct, frozen=True):
    """One struct in one version. ``slots`` stand in line, ``tagged`` in the tag section, ``absent`` nowhere."""

    cls: type[Any]
    flexible: bool
    slots: tuple[Slot, ...]
    tagged: tuple[Slot, ...]
    absent: tuple[FieldSpec, ...]

    @property
    def size_bytes_min(self) -> int:
        """The fewest bytes of one such struct; an empty one counts as one byte so that counts stay bounded."""
        return max(1, sum(slot.size_bytes_min for slot in self.slots) + (1 if self.flexible else 0))


def struct_layout(cls: type[Any], version: int, *, flexible: bool, path: str = "") -> StructLayout:
    """The layout of ``cls`` and of everything inside it in ``version``."""
    specs: tuple[FieldSpec, ...] = cls.fields_declared
    present = [spec for spec in specs if spec.present(version)]
    tagged = [spec for spec in present if spec.tagged(version)]
    return StructLayout(
        cls=cls,
        flexible=flexible,
        slots=tuple(_slot(spec, version, flexible, path) for spec in present if not spec.tagged(version)),
        tagged=tuple(_slot(spec, version, flexible, path) for spec in sorted(tagged, key=lambda spec: spec.tag or 0)),
        absent=tuple(spec for spec in specs if not spec.present(version)),
    )


def _slot(spec: FieldSpec, version: int, flexible: bool, path: str) -> Slot:
    kind = spec.type.element if isinstance(spec.type, ListOf) else spec.type
    where = f"{path}.{spec.name}" if path else spec.name
    inside = struct_layout(kind.cls, version, flexible=flexible, path=where) if isinstance(kind, Nested) else None
    return Slot(
        name=spec.name,
        path=where,
        is_list=isinstance(spec.type, ListOf),
        scalar=kind if isinstance(kind, Scalar) else None,
        layout=inside,
        nullable=spec.nullable(version),
        compact=flexible and spec.compact,
        tag=spec.tag if spec.tagged(version) else None,
        default=spec.default,
        presence=spec.presence,
    )
