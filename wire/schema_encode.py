"""Compiles the layout of a message into one straight-line encoding function.

The function appends small pieces to a list and joins them once per stretch between records. Runs of fixed-size
values, old length prefixes and empty tag sections go through one precompiled ``pack``. It checks nothing by itself:
when something raises, :mod:`stratalog.wire.schema_explain` looks for the field at fault.

A struct inside a message can be encoded alone, by a generator that pauses on the way: :func:`compile_element_encoder`.
A list whose structs are in bytes already is an :class:`~stratalog.wire.parts.EncodedList`; its bytes go out as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import lru_cache
from struct import Struct as Packer
from struct import error as struct_error
from typing import Any

from stratalog.wire.parts import EncodedList, FileSlice, Part
from stratalog.wire.primitives import SMALL_VARINTS, list_packer, records_length, unsigned_varint
from stratalog.wire.schema_explain import explain
from stratalog.wire.schema_layout import Slot, StructLayout

__all__ = ["PIECES_PER_PAUSE", "compile_element_encoder", "compile_encoder", "encoder_source"]

PIECES_PER_PAUSE = 2048
"""An element's encoder pauses when it has made so many pieces: about half a millisecond of work."""

_varint = lru_cache(maxsize=1024)(unsigned_varint)
"""The lengths of one stream of answers are much alike."""


def compile_encoder(layout: StructLayout, version: int) -> Callable[[Any], list[Part]]:
    """``encode(message) -> parts`` for this layout."""
    source, names = encoder_source(layout, version)
    exec(compile(source, f"<encode {layout.cls.__name__} v{version}>", "exec"), names)  # noqa: S102 - our own text
    encode: Callable[[Any], list[Part]] = names["encode"]
    return encode


def compile_element_encoder(layout: StructLayout, version: int) -> Callable[[Any], Generator[None, None, list[Part]]]:
    """``encode(struct)`` for the layout of a struct that stands in a list of a message.

    It yields now and then, and returns the parts.
    """
    source, names = encoder_source(layout, version, pausing=True)
    exec(compile(source, f"<encode {layout.cls.__name__} v{version}>", "exec"), names)  # noqa: S102 - our own text
    encode: Callable[[Any], Generator[None, None, list[Part]]] = names["encode"]
    return encode


def encoder_source(layout: StructLayout, version: int, *, pausing: bool = False) -> tuple[str, dict[str, Any]]:
    """The text of the function and the names that it uses. ``pausing``: the function is a generator."""
    writer = _Writer(pausing=pausing)
    writer.names["explain"] = lambda message, error: explain(layout, version, message, error)
    writer.function(layout)
    return "\n".join(writer.lines) + "\n", writer.names


def _refused_uuid(value: Any) -> Any:
    raise ValueError(f"a uuid has 16 bytes, not {len(value)}")


def _add_records(parts: list[Part], records: Any) -> None:
    """Append what :func:`records_length` has measured, leaving out empty parts."""
    if not isinstance(records, list | tuple):
        records = (records,)
    for part in records:
        if part.__class__ is FileSlice:
            if part.length:
                parts.append(part)
        elif isinstance(part, list | tuple):
            _add_records(parts, part)
        elif len(part):
            parts.append(part)


class _Writer:
    """Collects the lines of one function. ``pending`` are the values of the pack not yet written.

    ``out`` is the list that pieces go to and ``add`` its bound ``append``: those of the message or, inside a tagged
    field, its own, since its size stands before it.
    """

    def __init__(self, *, pausing: bool) -> None:
        self.pausing = pausing
        self.lines: list[str] = []
        self.pad = " "
        self.pending: list[tuple[str, str]] = []
        self.count = 0
        self.add = "add"
        self.has_records = False
        self.names: dict[str, Any] = {
            "EncodedList": EncodedList,
            "ERRORS": (struct_error, AttributeError, TypeError, ValueError, OverflowError),
            "FileSlice": FileSlice,
            "ONE_PART": frozenset((bytes, bytearray, memoryview, FileSlice)),
            "SMALL": SMALL_VARINTS,
            "add_records": _add_records,
            "list_packer": list_packer,
            "records_length": records_length,
            "refused_uuid": _refused_uuid,
            "varint": _varint,
        }

    def function(self, layout: StructLayout) -> None:
        self.lines.append("def encode(m, /):")
        self.put("parts = []")
        self.put("out = []")
        self.put("add = out.append")
        self.put("try:")
        self.pad += " "
        self.struct(layout, "m")
        self.flush()
        self.put("if out: parts.append(b''.join(out))")
        if self.pausing:
            self.put("if False: yield")  # without a list of structs there is no other pause
        self.put("return parts")
        self.pad = " "
        self.put("except ERRORS as error:")
        self.put(" raise explain(m, error) from error")

    def put(self, line: str) -> None:
        self.lines.append(self.pad + line)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def flush(self) -> None:
        """Write the pending values as one pack."""
        if not self.pending:
            return
        run, self.pending = self.pending, []
        codes = "".join(code for code, _ in run)
        values = ", ".join(value for _, value in run if value)
        if not values:
            self.put(f"{self.add}({bytes(len(codes))!r})")
            return
        pack = f"p_{codes}"
        self.names[pack] = Packer(">" + codes).pack
        self.put(f"{self.add}({pack}({values}))")

    def varint(self, value: str) -> None:
        """Write an unsigned varint; ``value`` is a variable."""
        self.flush()
        self.put(f"{self.add}(SMALL[{value}] if {value} < 128 else varint({value}))")

    def struct(self, layout: StructLayout, name: str) -> None:
        for slot in layout.slots:
            self.value(slot, f"{name}.{slot.name}")
        if layout.tagged:
            self.tags(layout, name)
        elif layout.flexible:
            self.pending.append(("x", ""))

    def value(self, slot: Slot, source: str) -> None:
        """Write the value of the expression ``source``."""
        if slot.is_list:
            self.list_(slot, source)
        elif slot.layout is not None:
            self.nested(slot, slot.layout, source)
        elif slot.scalar is not None and slot.scalar.name == "uuid":
            value = self.fresh("u")
            self.put(f"{value} = {source}")
            self.pending.append(("16s", f"{value} if len({value}) == 16 else refused_uuid({value})"))
        elif slot.scalar is not None and slot.scalar.code:
            # A bool is packed as a number, because "?" would take None for False.
            self.pending.append((slot.scalar.code.replace("?", "b"), source))
        else:
            self.sized(slot, source)

    def nested(self, slot: Slot, layout: StructLayout, source: str) -> None:
        if source.isidentifier() and not slot.nullable:
            self.struct(layout, source)
            return
        name = self.fresh("o")
        if not slot.nullable:
            self.put(f"{name} = {source}")
            self.struct(layout, name)
            return
        self.flush()
        self.put(f"{name} = {source}")
        self.put(f"if {name} is None: {self.add}(b'\\xff')")
        self.put("else:")
        self.pad += " "
        self.pending.append(("b", "1"))
        self.struct(layout, name)
        self.flush()
        self.pad = self.pad[:-1]

    def length(self, slot: Slot, value: str, length: str, code: str) -> str:
        """Write the length prefix of ``value``; ``length`` is the expression of its length.

        Returns the variable of what is written: one more than the length if it is compact, 0 or -1 for None.
        """
        size = self.fresh("n")
        if slot.compact:
            nothing = f"0 if {value} is None else " if slot.nullable else ""
            self.put(f"{size} = {nothing}{length} + 1")
            self.varint(size)
        else:
            nothing = f"-1 if {value} is None else " if slot.nullable else ""
            self.put(f"{size} = {nothing}{length}")
            self.pending.append((code, size))
        return size

    def sized(self, slot: Slot, source: str) -> None:
        """Text, bytes or records."""
        kind = slot.scalar.name if slot.scalar is not None else ""
        value = self.fresh("v")
        self.put(f"{value} = {source}")
        if kind == "string":
            encoded = f"{value}.encode()"
            self.put(f"{value} = None if {value} is None else {encoded}" if slot.nullable else f"{value} = {encoded}")
        length = f"len({value})"
        if kind == "records":
            # A log mostly gives one slice, whose length is known without a call.
            self.put(f"if {value}.__class__ is list and len({value}) == 1: {value} = {value}[0]")
            length = f"({length} if {value}.__class__ in ONE_PART else records_length({value}))"
            length = f"({value}.length if {value}.__class__ is FileSlice else {length})"
        size = self.length(slot, value, length, "h" if kind == "string" else "i")
        self.flush()
        if kind == "records":
            self.put(f"if {size} > {int(slot.compact)}:")
            self.put(" parts.append(b''.join(out))")
            self.put(" out.clear()")
            self.put(f" if {value}.__class__ in ONE_PART: parts.append({value})")
            self.put(f" else: add_records(parts, {value})")
        else:
            condition = f"if {value}: " if slot.nullable else ""
            self.put(f"{condition}{self.add}({value})")

    def list_(self, slot: Slot, source: str) -> None:
        value, element = self.fresh("v"), slot.element()
        self.put(f"{value} = {source}")
        encodable = element.layout is not None and self.add == "add"
        length = (
            f"({value}.row_count if {value}.__class__ is EncodedList else len({value}))"
            if encodable
            else f"len({value})"
        )
        self.length(slot, value, length, "i")
        self.flush()
        if encodable:
            self.put(f"if {value}.__class__ is EncodedList:")
            self.put(" parts.append(b''.join(out))")
            self.put(" out.clear()")
            self.put(f" parts += {value}")
        self.put(f"{'elif' if encodable else 'if'} {value}:")
        self.pad += " "
        if element.scalar is not None and element.scalar.size_bytes and element.scalar.name != "uuid":
            code = element.scalar.code.replace("?", "b")
            self.put(f"{self.add}(list_packer({code!r}, len({value})).pack(*{value}))")
        else:
            item = self.fresh("e")
            self.put(f"for {item} in {value}:")
            self.pad += " "
            self.value(element, item)
            self.flush()
            if self.pausing and encodable:
                self.put(f"if len(out) > {PIECES_PER_PAUSE}:")
                self.put(" parts.append(b''.join(out))")
                self.put(" out.clear()")
                self.put(" yield")
            self.pad = self.pad[:-1]
        self.pad = self.pad[:-1]

    def tags(self, layout: StructLayout, name: str) -> None:
        """Write the tag section: the fields that differ from their default, by ascending tag."""
        self.flush()
        sources = []
        for slot in layout.tagged:
            value = self.fresh("g")
            self.put(f"{value} = {name}.{slot.name}")
            sources.append((slot, value, self.differs(slot, value)))
        self.put("if not (" + " or ".join(f"{differs}" for _, _, differs in sources) + f"): {self.add}(b'\\0')")
        self.put("else:")
        self.pad += " "
        outer, count, section = self.add, self.fresh("c"), self.fresh("s")
        self.put(f"{count} = 0")
        self.put(f"{section} = []")
        for slot, value, differs in sources:
            self.put(f"if {differs}:")
            self.pad += " "
            self.tag(slot, value, section)
            self.put(f"{count} += 1")
            self.pad = self.pad[:-1]
        self.add = outer
        self.put(f"{self.add}(varint({count}))")
        self.put(f"{self.add}(b''.join({section}))")
        self.pad = self.pad[:-1]

    def tag(self, slot: Slot, value: str, section: str) -> None:
        """Write one tagged field into the list ``section``: tag, size, value."""
        inner = self.fresh("i")
        self.put(f"{inner} = []")
        self.put(f"{inner}_add = {inner}.append")
        self.add = f"{inner}_add"
        if slot.presence:
            self.put(f"{self.add}(b'\\0' if {value} is None else b'\\1')")
            self.put(f"if {value} is not None:")
            self.pad += " "
        self.value(slot, value)
        self.flush()
        if slot.presence:
            self.pad = self.pad[:-1]
        self.put(f"{inner} = b''.join({inner})")
        self.put(f"{section}.append(varint({slot.tag}) + varint(len({inner})) + {inner})")

    def differs(self, slot: Slot, value: str) -> str:
        """The expression that is true when ``value`` has to be sent."""
        if slot.presence:
            return "True"
        if slot.is_list and slot.default == []:
            return f"({value} is None or len({value}) > 0)"
        if slot.layout is not None and not slot.is_list:
            inside = " or ".join(self.differs(part, f"{value}.{part.name}") for part in _all_slots(slot.layout))
            return f"({value} is not None and ({inside or 'False'}))"
        if slot.default is None:
            return f"{value} is not None"
        if isinstance(slot.default, int):
            return f"{value} != {slot.default!r}"
        name = self.fresh("d")
        self.names[name] = slot.default
        return f"{value} != {name}"


def _all_slots(layout: StructLayout) -> tuple[Slot, ...]:
    return (*layout.slots, *layout.tagged)
