"""``stratalog produce``: records from standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final

import click
from msgspec import Struct

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.command import broker_options, command
from stratalog.cli.output import json_option, note, reports_errors, write_json
from stratalog.cli.values import parse_header, parse_json_record, parse_time_ms
from stratalog.client.client import Client
from stratalog.client.records import Delivered, NewRecord, Producer
from stratalog.wire.batch import Header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import KafkaError, StratalogError

__all__ = ["produce"]

READ_BYTES: Final = 256 << 10
ACKS: Final = {"all": -1, "1": 1, "0": 0}

EXAMPLES: Final = """
echo 'hello' | stratalog produce orders
printf 'UA:delayed\\nAA:on time\\n' | stratalog produce flights --key-separator :
echo '{"key": "UA", "value": {"delay": 12}, "headers": {"source": "faa"}}' | stratalog produce flights --input json
stratalog consume orders --exit --json | stratalog produce copies --input json --json
"""


class LineReader(Struct, frozen=True, kw_only=True):
    """How one line of text becomes a record."""

    key: bytes | None
    key_separator: bytes | None
    null: bytes | None
    headers: tuple[Header, ...]
    partition: int | None
    timestamp_ms: int | None
    as_json: bool

    def read(self, line: bytes, number: int, now_ms: int) -> NewRecord:
        """The record of a line. Raises `Invalid` for JSON that is none."""
        time_ms = now_ms if self.timestamp_ms is None else self.timestamp_ms
        if self.as_json:
            fields = parse_json_record(line, number)
            return NewRecord(
                value=fields.get("value"),
                timestamp_ms=fields.get("timestamp", time_ms),
                key=fields.get("key", self.key),
                headers=fields.get("headers", self.headers),
                partition=fields.get("partition", self.partition),
            )
        key, value = self.key, line
        if self.key_separator is not None:
            before, separator, after = line.partition(self.key_separator)
            if separator:
                key, value = before, after
        return NewRecord(self._or_null(value), time_ms, self._or_null(key), self.headers, self.partition)

    def _or_null(self, data: bytes | None) -> bytes | None:
        return None if data is not None and data == self.null else data


def read_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Lines as they arrive: each list holds all that could be read at once, so that nothing waits for a full batch."""
    rest = b""
    while data := _read_some(stream):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _read_some(stream: BinaryIO) -> bytes:
    read: bytes = stream.read1(READ_BYTES) if hasattr(stream, "read1") else stream.read(READ_BYTES)
    return read


@command("produce", EXAMPLES)
@click.argument("topic")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", metavar="TEXT", help="A line is a key, this text, and a value.")
@click.option("-Z", "--null", metavar="TEXT", help="A key or value that is this text is null (a tombstone).")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every record; may be repeated."
)
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), help="The partition; otherwise the key's murmur2 decides."
)
@click.option(
    "-t", "--timestamp", metavar="TIME", help="The time of every record: ms since 1970 or ISO 8601; now if not given."
)
@click.option("-i", "--input", "input_kind", type=click.Choice(["lines", "json"]), default="lines", show_default=True,
              help="A value a line, or a JSON object a line with key, value, headers, timestamp, partition.")  # fmt: skip
@click.option("-z", "--compression", type=click.Choice([codec.name.lower() for codec in Codec]), default="none", show_default=True,
              help="Codec of the batches.")  # fmt: skip
@click.option("-a", "--acks", type=click.Choice(list(ACKS)), default="all", show_default=True,
              help="Replicas that must have a record before it counts as written.")  # fmt: skip
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many records.")
@json_option
@broker_options
@reports_errors
def produce(
    *,
    topic: str,
    key: str | None,
    key_separator: str | None,
    null: str | None,
    headers: Sequence[str],
    partition: int | None,
    timestamp: str | None,
    input_kind: str,
    compression: str,
    acks: str,
    count: int | None,
    as_json: bool,
    bootstrap: str,
    timeout_seconds: float,
) -> None:
    """Write one record for each line of standard input to TOPIC.

    Records are sent as they arrive and answered before the next are read. After an error nothing more is sent; the
    error says which batch was refused, and whether it may be in the log all the same. No record is written twice: with
    acks=all batches have a producer id and sequences wherever the broker gives one.
    """
    reader = LineReader(
        key=None if key is None else key.encode(),
        key_separator=None if not key_separator else key_separator.encode(),
        null=None if null is None else null.encode(),
        headers=tuple(map(parse_header, headers)),
        partition=partition,
        timestamp_ms=None if timestamp is None else parse_time_ms(timestamp),
        as_json=input_kind == "json",
    )
    clock = SystemClock()
    with Client(bootstrap, timeout_seconds) as client:
        # A topic that the broker has just had made may reach it, and get leaders, a moment later.
        client.while_leaders_move([], lambda: client.refresh([topic], create=True))
        codec, timeout_ms = Codec[compression.upper()], int(timeout_seconds * 1000)
        producer = Producer(client, topic, ACKS[acks], codec, timeout_ms, idempotent=True)
        written = 0
        for lines in read_lines(sys.stdin.buffer):
            wanted = lines if count is None else lines[: count - written]
            with _telling(written, len(wanted)):
                records = [reader.read(line, written + index + 1, clock.wall_ms()) for index, line in enumerate(wanted)]
                delivered = producer.send(records)
            written += len(delivered)
            if as_json:
                _write_delivered(delivered)
            if count is not None and written >= count:
                break
    note(f"Wrote {written} records to {topic}.")


@contextmanager
def _telling(written: int, count: int) -> Iterator[None]:
    """If the next ``count`` lines fail, say first where the input may be taken up again without records that come twice."""
    try:
        yield
    except (StratalogError, KafkaError):
        if written:
            note(f"Lines 1 to {written} are written. The error is of the next {count}, and some of these may be.")
        raise


def _write_delivered(delivered: Sequence[Delivered]) -> None:
    for one in delivered:
        write_json(
            {
                "topic": one.topic_partition.topic,
                "partition": one.topic_partition.partition,
                "offset": one.offset,
                "timestamp": one.timestamp_ms,
            }
        )
