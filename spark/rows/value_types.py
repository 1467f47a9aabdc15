"""Types of decoded keys and values in three notations: Spark's DDL, JSON Schema and Arrow. Pure.

Decoders make Arrow's types; Spark gets them in DDL. A type that Spark lacks is refused, or is read as a
wider type where that loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import pyarrow as pa

from stratalog.wire.errors import Invalid

__all__ = ["TIMESTAMP", "ddl_of", "parse_ddl", "type_of_json_schema"]

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_LOCAL_TIMESTAMP: Final = pa.timestamp("us")

_SIMPLE: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(), "byte": pa.int8(),
    "smallint": pa.int16(), "short": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(),
    "bigint": pa.int64(), "long": pa.int64(),
    "float": pa.float32(), "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": _LOCAL_TIMESTAMP,
}  # fmt: skip
_NAME_OF: Final = {kind: name for name, kind in reversed(_SIMPLE.items())}
_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_0-9]+)|(.))", re.DOTALL)
_DECIMAL_DIGITS_MAX: Final = 38


def parse_ddl(text: str) -> pa.DataType:
    """The type that Spark's DDL describes: ``a int, b array<string>`` or ``struct<a: int, b: array<string>>``.

    Every field may be null. Raises `Invalid`, naming the place, for what is no DDL and for types that it does not know.
    """
    parser = _Ddl(text)
    found = parser.columns() if parser.is_columns() else parser.type()
    parser.expect_end()
    return found


class _Ddl:
    """A recursive descent over the tokens of one text: ``(token, was quoted, position)``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, bool, int]] = []
        for match in _TOKEN.finditer(text.rstrip()):
            quoted = match[1] is not None
            token = match[1].replace("``", "`") if quoted else match[2] or match[3]
            self._tokens.append((token, quoted, match.start()))
        self._at = 0

    def is_columns(self) -> bool:
        """Whether the text is a list of columns: a name, and then neither its end nor the parameters of a type."""
        return len(self._tokens) > 1 and self._tokens[1][0] not in {"<", "("}

    def columns(self) -> pa.DataType:
        fields = [self._field()]
        while self._take(","):
            fields.append(self._field())
        return pa.struct(fields)

    def type(self) -> pa.DataType:
        name = self._name("a type").lower()
        if name == "array":
            return pa.list_(pa.field("element", self._parameters(1)[0]))
        if name == "map":
            key, item = self._parameters(2)
            return pa.map_(key, item)
        if name == "struct":
            self._need("<")
            found = self.columns()
            self._need(">")
            return found
        if name in {"decimal", "dec", "numeric"}:
            return self._decimal()
        if name not in _SIMPLE:
            self._fail(
                f"'{name}' is no type that is known; there are array, decimal, map, struct, {', '.join(_SIMPLE)}"
            )
        return _SIMPLE[name]

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            self._fail(f"'{self._tokens[self._at][0]}' was not expected")

    def _field(self) -> pa.Field:
        name = self._name("a name")
        self._take(":")
        return pa.field(name, self.type())

    def _parameters(self, count: int) -> list[pa.DataType]:
        self._need("<")
        found = [self.type()]
        for _ in range(count - 1):
            self._need(",")
            found.append(self.type())
        self._need(">")
        return found

    def _decimal(self) -> pa.DataType:
        if not self._take("("):
            return pa.decimal128(10, 0)
        digits = self._number()
        scale = self._number() if self._take(",") else 0
        self._need(")")
        if not 0 < digits <= _DECIMAL_DIGITS_MAX or scale > digits:
            self._fail(f"a decimal has 1 to {_DECIMAL_DIGITS_MAX} digits and no more behind the point")
        return pa.decimal128(digits, scale)

    def _number(self) -> int:
        text = self._name("a number")
        if not text.isdecimal():
            self._fail(f"'{text}' is no number")
        return int(text)

    def _name(self, what: str) -> str:
        if self._at == len(self._tokens):
            self._fail(f"{what} is missing at the end")
        token, quoted, _ = self._tokens[self._at]
        if not quoted and not re.fullmatch(r"\w+", token):
            self._fail(f"{what} is due, not '{token}'")
        self._at += 1
        return token

    def _take(self, wanted: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][:2] == (wanted, False):
            self._at += 1
            return True
        return False

    def _need(self, wanted: str) -> None:
        if not self._take(wanted):
            self._fail(f"'{wanted}' is due")

    def _fail(self, reason: str) -> NoReturn:
        place = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        raise Invalid(f"the schema '{self._text}' cannot be read, position {place}: {reason}")


def ddl_of(kind: pa.DataType) -> str:
    """``kind`` in Spark's DDL. Raises `Invalid` for a type that Spark does not have."""
    if pa.types.is_struct(kind):
        inside = ",".join(f"`{each.name.replace('`', '``')}`:{ddl_of(each.type)}" for each in kind)
        return f"struct<{inside}>"
    if pa.types.is_list(kind):
        return f"array<{ddl_of(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{ddl_of(kind.key_type)},{ddl_of(kind.item_type)}>"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    name = _NAME_OF.get(kind)
    if name is None:
        raise Invalid(f"Spark has no type for {kind}")
    return name


def type_of_json_schema(document: Mapping[str, Any]) -> pa.DataType:
    """The type of what a JSON Schema describes: objects, arrays, strings, numbers and what may also be null.

    Integers are bigints, numbers doubles, strings of the format ``date-time`` timestamps and of ``date`` dates. Raises
    `Invalid` for what has no one type (``oneOf``, ``patternProperties`` and so on), naming the place in the document.
    """
    return _JsonSchema(document).type(document, "#", ())


class _JsonSchema:
    """References lead anywhere in ``root``, but never back to where they come from."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def type(self, node: Any, place: str, above: tuple[str, ...]) -> pa.DataType:
        if not isinstance(node, Mapping):
            raise Invalid(f"{place} of the JSON Schema describes no type: {node!r}")
        if "$ref" in node:
            return self._referred(str(node["$ref"]), place, above)
        for word in ("oneOf", "anyOf"):
            if word in node:
                return self.type(self._one(node[word], f"{place}/{word}"), place, above)
        names = self._names(node)
        if len(names) != 1:
            raise Invalid(f"{place} of the JSON Schema has no one type: {', '.join(names) or 'none is given'}")
        return self._named(names[0], node, place, above)

    @staticmethod
    def _one(choices: Any, place: str) -> Any:
        """A choice without its null."""
        left = [each for each in choices if not (isinstance(each, Mapping) and each.get("type") == "null")]
        if len(left) != 1:
            raise Invalid(f"{place} of the JSON Schema is a choice of {len(left)} types: read such values as string")
        return left[0]

    @staticmethod
    def _names(node: Mapping[str, Any]) -> list[str]:
        given = node.get("type", "object" if "properties" in node else [])
        names = [given] if isinstance(given, str) else list(given)
        if {"integer", "number"} <= set(names):
            names.remove("integer")
        return [name for name in names if name != "null"]

    def _named(self, name: str, node: Mapping[str, Any], place: str, above: tuple[str, ...]) -> pa.DataType:
        if name == "object":
            properties = node.get("properties")
            if not properties:
                raise Invalid(f"{place} of the JSON Schema is an object without properties: read such values as string")
            return pa.struct(
                [pa.field(each, self.type(kind, f"{place}/{each}", above)) for each, kind in properties.items()]
            )
        if name == "array":
            return pa.list_(pa.field("element", self.type(node.get("items"), f"{place}/items", above)))
        if name == "string":
            return {"date-time": TIMESTAMP, "date": pa.date32()}.get(str(node.get("format")), pa.string())
        kinds = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
        if name not in kinds:
            raise Invalid(f"{place} of the JSON Schema has the unknown type '{name}'")
        return kinds[name]

    def _referred(self, reference: str, place: str, above: tuple[str, ...]) -> pa.DataType:
        if reference in above:
            raise Invalid(f"{place} of the JSON Schema contains itself through {reference}: read such values as string")
        node: Any = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            node = node.get(part) if isinstance(node, Mapping) else None
        if not reference.startswith("#") or node is None:
            raise Invalid(f"{place} of the JSON Schema refers to {reference}, which is not in it")
        return self.type(node, reference, (*above, reference))
