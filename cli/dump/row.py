"""The parts of a dump: rows, and the few kinds of them that every file has."""

from __future__ import annotations

from typing import Any, Final

from stratalog.wire.primitives import Scalar
from stratalog.wire.schema import Struct
from stratalog.wire.schema_fields import FieldType, ListOf, Nested
from stratalog.wire.topic import uuid_text

__all__ = ["PROBLEM", "Row", "message_fields", "problem", "row"]

Row = dict[str, Any]
"""One thing found in a file; ``what`` says which kind of thing."""

PROBLEM: Final = "problem"


def row(what: str, **fields: Any) -> Row:
    """A row; fields keep their order."""
    return {"what": what, **fields}


def problem(reason: str, *, position: int | None = None, offset: int | None = None) -> Row:
    """Something that is not as it must be, at a byte position of the file and an offset of the log where known."""
    return row(PROBLEM, position=position, offset=offset, reason=reason)


def message_fields(message: Struct) -> dict[str, Any]:
    """A message as plain values: nested ones as dicts, uuids as Kafka prints them."""
    return {spec.name: _plain(getattr(message, spec.name), spec.type) for spec in message.fields_declared}


def _plain(value: Any, kind: FieldType) -> Any:
    if value is None:
        return None
    if isinstance(kind, ListOf):
        return [_plain(item, kind.element) for item in value]
    if isinstance(kind, Nested):
        return message_fields(value)
    if isinstance(kind, Scalar) and kind.name == "uuid":
        return uuid_text(value)
    return value
