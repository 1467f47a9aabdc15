"""Texts of the command line that stand for records: times, headers, JSON lines, and formats for printing."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from stratalog.quantities import parse_duration_ms, parse_size_bytes
from stratalog.wire.batch import Header, Record
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = [
    "FORMAT_HELP",
    "RecordText",
    "headers_json",
    "parse_header",
    "parse_json_record",
    "parse_time_ms",
    "read_text_file",
    "record_format",
    "record_json",
    "time_text",
]

RecordText = Callable[[TopicPartition, Record], bytes]

FORMAT_HELP: Final = (
    "%t topic, %p partition, %o offset, %T time in ms, %k key, %s value, %h headers, %K and %S their sizes in bytes "
    "(-1 for null), %% a percent sign; \\n, \\t and \\0 as usual."
)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TIME_MS_END: Final = 1 << 63
_TOKEN: Final = re.compile(r"%(.?)|\\(.?)|([^%\\]+)", re.DOTALL)


def read_text_file(path: str | Path) -> str:
    """The text of a file that the user has named. Raises `Invalid` for one that is no UTF-8, `OSError`."""
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is no UTF-8: {error}") from error


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970 from a number of them or from ISO 8601; a time without zone is UTC.

    Raises `Invalid`.
    """
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        if not -_TIME_MS_END <= (number := int(text)) < _TIME_MS_END:
            raise Invalid(f"{text!r} is no time: a record holds 64 bits of milliseconds since 1970")
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is no time: write milliseconds since 1970, or 2013-07-04T12:00:00Z") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    whole = moment.replace(microsecond=0)
    return int(whole.timestamp()) * 1000 + moment.microsecond // 1000


def time_text(timestamp_ms: int) -> str:
    """The time that `parse_time_ms` takes, in UTC: ``2013-07-04T12:00:00.000Z``."""
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(microsecond=timestamp_ms % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def setting_value(name: str, text: str) -> str:
    """The value of a setting as Kafka takes it: of names in ``.ms`` and ``.bytes``, ``1d`` and ``2MiB`` become numbers.

    A text that is no number with a unit stays as it is: the broker judges it.
    """
    parse = parse_duration_ms if name.endswith(".ms") else parse_size_bytes if name.endswith(".bytes") else None
    if parse is None:
        return text
    try:
        return str(parse(text))
    except Invalid:
        return text


def parse_header(text: str) -> Header:
    """One ``NAME=VALUE``; without an equals sign the value is null. Raises `Invalid` without a name."""
    name, equals, value = text.partition("=")
    if not name:
        raise Invalid(f"header {text!r} is not NAME=VALUE")
    return Header(name, value.encode() if equals else None)


def parse_json_record(line: bytes, number: int) -> dict[str, Any]:
    """The fields of one JSON line that are given: key, value, headers, timestamp, partition; bytes and types as records
    have them. A line that `record_json` wrote is read back as it was.

    Raises `Invalid` with the line's number.
    """
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict) or not fields.keys() <= _FIELDS.keys():
            raise Invalid(f"the line must be a JSON object whose fields are some of {', '.join(_READ)}")
        return {name: _FIELDS[name](fields[name]) for name in fields if name in _READ}
    except (Invalid, ValueError, TypeError) as error:
        raise Invalid(f"line {number}: {error}") from error
    except RecursionError as error:
        raise Invalid(f"line {number}: its values are nested too deeply") from error


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"]:
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _headers(value: Any) -> tuple[Header, ...]:
    pairs = value.items() if isinstance(value, dict) else value
    return tuple(Header(_header_name(name), _bytes(content)) for name, content in pairs)


def _header_name(value: Any) -> str:
    if isinstance(value, dict):
        return (_bytes(value) or b"").decode("utf-8", "surrogateescape")
    name = str(value)
    name.encode()  # one with half of a surrogate pair is no text
    return name


def _time(value: Any) -> int:
    return parse_time_ms(str(value))


def _partition(value: Any) -> int:
    if isinstance(value, bool | float) or (number := int(value)) < 0:
        raise Invalid(f"{value!r} is no number of a partition")
    return number


def _nothing(_value: Any) -> None:
    return None


_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    "key": _bytes,
    "value": _bytes,
    "headers": _headers,
    "timestamp": _time,
    "partition": _partition,
    "topic": _nothing,
    "offset": _nothing,
}
_READ: Final = ("key", "value", "headers", "timestamp", "partition")


def record_json(topic_partition: TopicPartition, record: Record) -> dict[str, Any]:
    """A record as one JSON object; bytes are left for the writer to show."""
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": headers_json(record.headers),
    }


def headers_json(headers: Sequence[Header]) -> list[list[Any]]:
    """Names and values for JSON. A name that is no UTF-8 is left as bytes, as values are."""
    return [[_name(header), header.value] for header in headers]


def _name(header: Header) -> str | bytes:
    try:
        header.key.encode()
    except UnicodeEncodeError:
        return header.key_bytes
    return header.key


def record_format(text: str, null: bytes = b"") -> RecordText:
    """A function that prints records in a format of kcat's letters. Raises `Invalid` for an unknown letter."""
    pieces: list[RecordText] = []
    for token in _TOKEN.finditer(text):
        letter, escaped, plain = token.groups()
        if plain is not None:
            pieces.append(_constant(plain.encode()))
        elif letter is not None:
            pieces.append(_letter(letter, null))
        elif escaped in _ESCAPES:
            pieces.append(_constant(_ESCAPES[escaped]))
        else:
            raise Invalid(f"format {text!r}: \\{escaped} means nothing; use {FORMAT_HELP}")
    return lambda topic_partition, record: b"".join([piece(topic_partition, record) for piece in pieces])


def _constant(data: bytes) -> RecordText:
    return lambda _topic_partition, _record: data


def _letter(letter: str, null: bytes) -> RecordText:
    letters: dict[str, RecordText] = {
        "t": lambda tp, _: tp.topic.encode(),
        "p": lambda tp, _: b"%d" % tp.partition,
        "o": lambda _, record: b"%d" % record.offset,
        "T": lambda _, record: b"%d" % record.timestamp_ms,
        "k": lambda _, record: null if record.key is None else record.key,
        "s": lambda _, record: null if record.value is None else record.value,
        "K": lambda _, record: b"%d" % _size(record.key),
        "S": lambda _, record: b"%d" % _size(record.value),
        "h": lambda _, record: _header_text(record.headers, null),
        "%": _constant(b"%"),
    }
    if letter not in letters:
        raise Invalid(f"format: %{letter} means nothing; use {FORMAT_HELP}")
    return letters[letter]


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _header_text(headers: Sequence[Header], null: bytes) -> bytes:
    return b",".join(header.key_bytes + b"=" + (null if header.value is None else header.value) for header in headers)
