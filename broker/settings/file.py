"""Read configuration files: Java properties and TOML, both with Kafka's setting names.

Pure text in, `Setting` values out. The meaning of a name, and whether it exists, is decided by
`broker.settings.config`.
"""

from __future__ import annotations

import json
import tomllib

from msgspec import Struct

from stratalog.wire.errors import Invalid

BLANK = " \t\f"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class ConfigFileError(Invalid):
    """A configuration file cannot be read as properties or TOML; the message names file and line."""


class Setting(Struct, frozen=True):
    """One name and its text, with the place it came from (`origin` is for people: a file and line, a variable, a flag)."""

    name: str
    text: str
    origin: str


def parse_config_file(content: bytes, path: str) -> list[Setting]:
    """The settings of one file in the order they stand; `.toml` files are TOML, all others are Java properties.

    Raises:
        ConfigFileError: the content is not of that form.

    """
    if path.endswith(".toml"):
        return parse_toml(content, path)
    return parse_properties(_decode(content), path)


def _decode(content: bytes) -> str:
    # Java reads properties as Latin-1; people write UTF-8. Valid UTF-8 is never meant as Latin-1.
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def parse_properties(content: str, path: str) -> list[Setting]:
    """Settings of a Java properties file (grammar of `java.util.Properties.load`), a later duplicate after the earlier.

    Raises:
        ConfigFileError: a broken unicode escape.

    """
    settings = []
    for line_number, line in _logical_lines(content):
        name, value = _split_property(line)
        origin = f"{path}:{line_number}"
        settings.append(Setting(_unescape(name, origin), _unescape(value, origin), origin))
    return settings


def _logical_lines(content: str) -> list[tuple[int, str]]:
    """Lines with comments and blank ones dropped and continuations joined, each with the number of its first line."""
    lines: list[tuple[int, str]] = []
    natural = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    index = 0
    while index < len(natural):
        first = index + 1
        line = natural[index].lstrip(BLANK)
        index += 1
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1]
            if index == len(natural):
                break
            line += natural[index].lstrip(BLANK)
            index += 1
        lines.append((first, line))
    return lines


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split_property(line: str) -> tuple[str, str]:
    """Name and value of a logical line, both still escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + BLANK:
        end += 2 if line[end] == "\\" else 1
    name, rest = line[:end], line[end:].lstrip(BLANK)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(BLANK)
    return name, rest


def _unescape(text: str, origin: str) -> str:
    if "\\" not in text:
        return text
    characters: list[str] = []
    index = 0
    while index < len(text):
        if text[index] != "\\":
            characters.append(text[index])
            index += 1
            continue
        letter = text[index + 1 : index + 2]
        index += 2
        if letter == "u":
            characters.append(_unicode_escape(text[index : index + 4], origin))
            index += 4
        else:
            characters.append(ESCAPES.get(letter, letter))
    # Two escapes may be the halves of one character outside the basic plane.
    return "".join(characters).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode_escape(digits: str, origin: str) -> str:
    if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise ConfigFileError(f"{origin}: malformed unicode escape \\u{digits}; write four hexadecimal digits")
    return chr(int(digits, 16))


def parse_toml(content: bytes, path: str) -> list[Setting]:
    """Settings of a TOML file: tables and dotted keys spell Kafka's names, lists become comma-separated text.

    Raises:
        ConfigFileError: not TOML, or a value that is no text, number, boolean or list of these.

    """
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigFileError(f"{path}: not TOML: {error}") from error
    return _flatten(table, "", path)


def _flatten(table: dict[str, object], prefix: str, path: str) -> list[Setting]:
    settings: list[Setting] = []
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            settings.extend(_flatten(value, name + ".", path))
        else:
            settings.append(Setting(name, _toml_text(value, name, path), path))
    return settings


def _toml_text(value: object, name: str, path: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list):
        return ",".join(_toml_text(item, name, path) for item in value)
    raise ConfigFileError(
        f"{path}: {name} is a {type(value).__name__}; write text, a number, true, false or a list of these"
    )
