"""Compiles the layout of a message into one straight-line decoding function.

Runs of fixed-size values (numbers, uuids, length prefixes, the first byte of a varint, the tag count) are read by
one precompiled ``unpack_from``. Every length is checked against what is left before anything is allocated, and
whatever hostile bytes make the function do ends in a `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Packer
from struct import calcsize
from struct import error as struct_error
from typing import Any, Final, NoReturn

from stratalog.wire.primitives import Buffer, DecodeError, list_packer, read_unsigned_varint
from stratalog.wire.schema_layout import Slot, StructLayout

__all__ = ["ELEMENTS_MAX", "TAGS_MAX", "compile_decoder", "decoder_source"]

ELEMENTS_MAX: Final = 100_000
"""The elements of all lists of one message together, unless the caller says otherwise."""

TAGS_MAX: Final = 64
"""The unknown tags of one struct, unless the caller says otherwise."""


def compile_decoder(layout: StructLayout, version: int) -> Callable[..., tuple[Any, int]]:
    """``decode(buffer, position, elements_max, tags_max) -> (message, next position)`` for this layout."""
    source, names = decoder_source(layout, version)
    exec(compile(source, f"<decode {layout.cls.__name__} v{version}>", "exec"), names)  # noqa: S102 - our own text
    decode: Callable[..., tuple[Any, int]] = names["decode"]
    return decode


def decoder_source(layout: StructLayout, version: int) -> tuple[str, dict[str, Any]]:
    """The text of the function and the names that it uses."""
    writer = _Writer(f"{layout.cls.__name__} v{version}")
    writer.function(layout)
    return "\n".join(writer.lines) + "\n", writer.names


def _bad_length(what: str, path: str, length: int, position: int, size: int) -> NoReturn:
    """``length`` is the number of bytes claimed, -1 for null."""
    if length == -1:
        raise DecodeError(f"{what}: {path} is null at byte {position}")
    raise DecodeError(f"{what}: {path} claims {length} bytes at byte {position} of {size}")


def _bad_count(what: str, path: str, count: int, position: int, size: int) -> NoReturn:
    if count == -1:
        raise DecodeError(f"{what}: {path} is null at byte {position}")
    raise DecodeError(f"{what}: {path} claims {count} elements at byte {position} of {size}, over what is allowed")


def _bad_tags(what: str, path: str, count: int, position: int) -> NoReturn:
    raise DecodeError(f"{what}: {path or 'the message'} carries {count} tagged fields at byte {position}, too many")


def _bad_tag(what: str, path: str, position: int, end: int) -> NoReturn:
    raise DecodeError(f"{what}: the tagged field {path} ends at byte {position}, its size says {end}")


def _skip_tags(where: tuple[str, str], view: memoryview, position: int, count: int, tags_max: int) -> int:
    """Pass over a tag section whose tags are all unknown; ``count`` is the first byte of its count."""
    what, path = where
    if count > 0x7F:
        count, position = read_unsigned_varint(view, position - 1)
    if count > tags_max:
        _bad_tags(what, path, count, position)
    for _ in range(count):
        _, position = read_unsigned_varint(view, position)
        length, position = read_unsigned_varint(view, position)
        if length > len(view) - position:
            _bad_length(what, f"an unknown tag of {path or 'the message'}", length, position, len(view))
        position += length
    return position


def _failure(what: str, position: int, buffer: Buffer, error: Exception) -> DecodeError:
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"{what}: text before byte {position} is not UTF-8: {error.reason}")
    return DecodeError(f"{what}: the message is cut off after byte {position} of {len(buffer)}")


class _Writer:
    """Collects the lines of one function. ``pending`` is the run of fixed-size reads not yet written."""

    def __init__(self, what: str) -> None:
        self.lines: list[str] = []
        self.pad = " "
        self.pending: list[tuple[str, str]] = []
        self.count = 0
        self.what = what
        self.names: dict[str, Any] = {
            "DecodeError": DecodeError,
            "ERRORS": (IndexError, struct_error, UnicodeDecodeError),
            "bad_count": _bad_count,
            "bad_length": _bad_length,
            "bad_tag": _bad_tag,
            "bad_tags": _bad_tags,
            "failure": _failure,
            "list_packer": list_packer,
            "new": object.__new__,
            "skip_tags": _skip_tags,
            "varint": read_unsigned_varint,
            "what": what,
        }

    def function(self, layout: StructLayout) -> None:
        self.lines.append(f"def decode(b, p=0, /, elements_max={ELEMENTS_MAX}, tags_max={TAGS_MAX}):")
        self.put("if type(b) is not memoryview: b = memoryview(b)")
        self.put("size = len(b)")
        self.put("try:")
        self.pad += " "
        message = self.struct(layout, "")
        self.put(f"return {message}, p")
        self.pad = " "
        self.put("except ERRORS as error:")
        self.put(" raise failure(what, p, b, error) from None")

    def put(self, line: str) -> None:
        self.lines.append(self.pad + line)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def constant(self, prefix: str, value: object) -> str:
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def need(self, code: str) -> str:
        """A variable that the next :meth:`flush` reads with format ``code``."""
        name = self.fresh("v")
        self.pending.append((code, name))
        return name

    def flush(self) -> None:
        """Write the pending reads as one."""
        if not self.pending:
            return
        run, self.pending = self.pending, []
        codes = "".join(code for code, _ in run)
        if codes == "B":
            self.put(f"{run[0][1]} = b[p]")
            self.put("p += 1")
            return
        unpack = f"u_{codes.replace('?', 'Z')}"
        self.names[unpack] = Packer(">" + codes).unpack_from
        self.put(f"{', '.join(name for _, name in run)}{',' if len(run) == 1 else ''} = {unpack}(b, p)")
        self.put(f"p += {calcsize('>' + codes)}")

    def struct(self, layout: StructLayout, path: str) -> str:
        """Read one struct; the result is the name of the variable that holds it."""
        values = [(slot.name, self.value(slot)) for slot in layout.slots]
        if layout.flexible:
            tags = self.need("B")
            self.flush()
            values += self.tags(layout, path, tags)
        self.flush()
        values += [(spec.name, self.default(spec.default)) for spec in layout.absent]
        made = self.fresh("o")
        self.put(f"{made} = new({self.constant('cls', layout.cls)})")
        for name, value in values:
            self.put(f"{made}.{name} = {value}")
        return made

    def default(self, default: object) -> str:
        if isinstance(default, list):
            return "[]"
        if isinstance(default, type):
            return self.constant("cls", default) + "()"
        return repr(default) if isinstance(default, int | str | None) else self.constant("default", default)

    def value(self, slot: Slot) -> str:
        """Read one value; the result is a variable, set by the next flush at the latest."""
        if slot.is_list:
            return self.list_(slot)
        if slot.layout is not None:
            return self.nullable_struct(slot, slot.layout) if slot.nullable else self.struct(slot.layout, slot.path)
        scalar = slot.scalar
        if scalar is not None and scalar.code:
            return self.need(scalar.code)
        return self.sized(slot)

    def length(self, slot: Slot, code: str) -> str:
        """Read a length or count; it holds the wire's value, which in compact form is one more than the length."""
        name = self.need("B" if slot.compact else code)
        self.flush()
        if slot.compact:
            self.put(f"if {name} > 127: {name}, p = varint(b, p - 1)")
        return name

    def sized(self, slot: Slot) -> str:
        """Text, bytes or records."""
        kind = slot.scalar.name if slot.scalar is not None else ""
        wire = self.length(slot, "h" if kind == "string" else "i")
        value, end = self.fresh("v"), self.fresh("e")
        self.begin_nullable(slot, wire, value)
        length = f"{wire} - 1" if slot.compact else wire
        self.put(f"{end} = p + {length}")
        self.put(f"if {end} < p or {end} > size: bad_length(what, {slot.path!r}, {length}, p, size)")
        piece = f"b[p:{end}]"
        self.put(f"{value} = " + {"string": f"str({piece}, 'utf-8')", "bytes": f"bytes({piece})"}.get(kind, piece))
        self.put(f"p = {end}")
        self.end_nullable(slot, value)
        return value

    def begin_nullable(self, slot: Slot, wire: str, value: str) -> None:
        if slot.nullable:
            self.put(f"if {wire} == {0 if slot.compact else -1}: {value} = None")
            self.put("else:")
            self.pad += " "

    def end_nullable(self, slot: Slot, _value: str) -> None:
        if slot.nullable:
            self.flush()
            self.pad = self.pad[:-1]

    def list_(self, slot: Slot) -> str:
        wire = self.length(slot, "i")
        value, element = self.fresh("v"), slot.element()
        self.begin_nullable(slot, wire, value)
        if slot.compact:
            self.put(f"{wire} -= 1")
        self.put(f"elements_max -= {wire}")
        smallest = element.size_bytes_min
        self.put(f"if {wire} < 0 or elements_max < 0 or {wire} * {smallest} > size - p:")
        self.put(f" bad_count(what, {slot.path!r}, {wire}, p, size)")
        if element.scalar is not None and element.scalar.size_bytes and element.scalar.name != "uuid":
            self.put(f"{value} = list(list_packer({element.scalar.code!r}, {wire}).unpack_from(b, p))")
            self.put(f"p += {wire} * {element.scalar.size_bytes}")
        else:
            self.put(f"{value} = []")
            self.put(f"for _ in range({wire}):")
            self.pad += " "
            item = self.value(element)
            self.flush()
            self.put(f"{value}.append({item})")
            self.pad = self.pad[:-1]
        self.end_nullable(slot, value)
        return value

    def nullable_struct(self, slot: Slot, layout: StructLayout) -> str:
        """KIP-893: a signed byte says whether the struct follows; below zero it does not."""
        flag = self.need("b")
        self.flush()
        value = self.fresh("v")
        self.put(f"if {flag} < 0: {value} = None")
        self.put("else:")
        self.pad += " "
        inside = self.struct(layout, slot.path)
        self.put(f"{value} = {inside}")
        self.pad = self.pad[:-1]
        return value

    def tagged(self, slot: Slot, value: str, length: str) -> None:
        """Read one tagged field of ``length`` bytes into the variable ``value``.

        Before a struct with a presence byte had one here, it was written without: those begin with another byte.
        """
        if slot.presence:
            self.put(f"if {length} == 1 and not b[p]:")
            self.put(f" {value} = None")
            self.put(" p += 1")
            self.put("else:")
            self.pad += " "
            self.put(f"if {length} and b[p] == 1: p += 1")
        read = self.value(slot)
        self.flush()
        self.put(f"{value} = {read}")
        if slot.presence:
            self.pad = self.pad[:-1]

    def tags(self, layout: StructLayout, path: str, count: str) -> list[tuple[str, str]]:
        """Read a tag section whose count starts with the byte in ``count``; known tags into variables."""
        if not layout.tagged:
            self.put(f"if {count}: p = skip_tags({(self.what, path)!r}, b, p, {count}, tags_max)")
            return []
        values = [(slot.name, self.fresh("v")) for slot in layout.tagged]
        for slot, (_, value) in zip(layout.tagged, values, strict=True):
            self.put(f"{value} = {self.default(slot.default)}")
        outer = self.pad
        self.put(f"if {count}:")
        self.pad += " "
        self.put(f"if {count} > 127: {count}, p = varint(b, p - 1)")
        self.put(f"if {count} > tags_max + {len(values)}: bad_tags(what, {path!r}, {count}, p)")
        tag, length, end = self.fresh("t"), self.fresh("n"), self.fresh("e")
        self.put(f"for _ in range({count}):")
        self.pad += " "
        self.put(f"{tag}, p = varint(b, p)")
        self.put(f"{length}, p = varint(b, p)")
        self.put(f"{end} = p + {length}")
        self.put(f"if {end} > size: bad_length(what, {path + ' tag'!r}, {length}, p, size)")
        for index, (slot, (_, value)) in enumerate(zip(layout.tagged, values, strict=True)):
            self.put(f"{'if' if index == 0 else 'elif'} {tag} == {slot.tag}:")
            self.pad += " "
            self.tagged(slot, value, length)
            self.put(f"if p != {end}: bad_tag(what, {slot.path!r}, p, {end})")
            self.pad = self.pad[:-1]
        self.put(f"else: p = {end}")
        self.pad = outer
        return values
