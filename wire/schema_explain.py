"""Says which field an encoder could not write; runs only after it has failed."""

from __future__ import annotations

from struct import Struct as Packer
from struct import error as struct_error
from typing import Any

from stratalog.wire.parts import EncodedList
from stratalog.wire.primitives import EncodeError, Scalar, records_length
from stratalog.wire.schema_layout import Slot, StructLayout

__all__ = ["explain"]


def explain(layout: StructLayout, version: int, message: object, error: Exception) -> EncodeError:
    """The error to raise: the first field whose value its wire type cannot hold, or what the encoder met."""
    found = _struct_fault(layout, message, "") or f"{type(error).__name__}: {error}"
    return EncodeError(f"{layout.cls.__name__} v{version} cannot be encoded: {found}")


def _struct_fault(layout: StructLayout, value: Any, path: str) -> str | None:
    for slot in (*layout.slots, *layout.tagged):
        where = f"{path}.{slot.name}" if path else slot.name
        if not hasattr(value, slot.name):
            return f"{path or 'the message'} is a {type(value).__name__}, not a {layout.cls.__name__}"
        inside = getattr(value, slot.name)
        if inside is None and slot.tag is not None and slot.layout is not None:
            continue
        fault = _fault(slot, inside, where)
        if fault is not None:
            return fault
    return None


def _fault(slot: Slot, value: Any, path: str) -> str | None:
    if value is None:
        return None if slot.nullable else f"{path} is None, which this version cannot carry"
    if slot.is_list:
        if isinstance(value, EncodedList):
            return None
        if not isinstance(value, list | tuple):
            return f"{path} is {_short(value)}, not a list"
        element = slot.element()
        faults = (_fault(element, item, f"{path}[{index}]") for index, item in enumerate(value))
        return next((fault for fault in faults if fault is not None), None)
    if slot.layout is not None:
        return _struct_fault(slot.layout, value, path)
    return _scalar_fault(slot.scalar, value, path, compact=slot.compact) if slot.scalar is not None else None


def _scalar_fault(scalar: Scalar, value: Any, path: str, *, compact: bool) -> str | None:
    try:
        if scalar.name == "uuid":
            fits = isinstance(value, bytes) and len(value) == 16
        elif scalar.code:
            Packer(">" + scalar.code.replace("?", "b")).pack(value)
            fits = True
        elif scalar.name == "string":
            fits = len(value.encode()) <= (0x7FFFFFFF if compact else 0x7FFF)
        else:
            records_length(value)
            fits = scalar.name == "records" or isinstance(value, bytes | bytearray | memoryview)
    except (struct_error, AttributeError, TypeError, ValueError, OverflowError) as error:
        return f"{path} is {_short(value)}, which is not a value of type {scalar.name} ({error})"
    return None if fits else f"{path} is {_short(value)}, which is not a value of type {scalar.name}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
