"""``stratalog consume``: the records of a topic, from wherever they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click
from msgspec import Struct, field

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.command import broker_options, command
from stratalog.cli.output import ExitCode, NotFoundError, json_option, json_text, note, reports_errors
from stratalog.cli.values import FORMAT_HELP, RecordText, parse_time_ms, record_format, record_json
from stratalog.client.client import Client
from stratalog.client.reach import away_sentences, reached_partitions
from stratalog.client.records import fetch, visible_records
from stratalog.wire.batch import Record
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = ["consume"]

EARLIEST: Final = -2
LATEST: Final = -1
FETCH_WAIT_MS: Final = 500
Positions = dict[TopicPartition, int]

EXAMPLES: Final = """
stratalog consume orders
stratalog consume orders --exit --format '%p %o %k: %s\\n'
stratalog consume flights --offset @2013-07-04 --to @2013-07-05 --exit --json
stratalog consume orders --partition 0 --offset -10 --exit
"""


@command("consume", EXAMPLES)
@click.argument("topic")
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only these; may be repeated."
)
@click.option("-o", "--offset", default="earliest", show_default=True, metavar="WHERE",
              help="Where to begin: earliest, latest, an offset, -N for the last N, or @TIME (ms since 1970 or ISO 8601).")  # fmt: skip
@click.option(
    "--to",
    metavar="WHERE",
    help="Where to end, exclusive: an offset, latest or @TIME, but no later than where it ends now. Implies --exit.",
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option(
    "-e", "--exit", "exits", is_flag=True, help="Stop at the end there was at the start, instead of waiting for more."
)
@click.option("-w", "--wait", "wait_seconds", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Give up when no record came for so long (exit code 5).")  # fmt: skip
@click.option("-f", "--format", "record_text", default="%s\\n", show_default=True, metavar="FORMAT", help=FORMAT_HELP)
@click.option("-Z", "--null", default="", metavar="TEXT", help="Text printed for a null key or value.")
@click.option("--isolation", type=click.Choice(["read_committed", "read_uncommitted"]), default="read_committed",
              show_default=True, help="Whether records of open and aborted transactions are left out.")  # fmt: skip
@json_option
@broker_options
@reports_errors
def consume(
    *,
    topic: str,
    partitions: Sequence[int],
    offset: str,
    to: str | None,
    count: int | None,
    exits: bool,
    wait_seconds: float | None,
    record_text: str,
    null: str,
    isolation: str,
    as_json: bool,
    bootstrap: str,
    timeout_seconds: float,
) -> None:
    """Print the records of TOPIC: local, archived and new ones alike, each partition in order.

    With --exit, partitions whose broker does not answer are left out and named; the exit code is 4 then.
    """
    show = _as_json if as_json else record_format(record_text, null.encode())
    with Client(bootstrap, timeout_seconds) as client:
        known = [part.partition for part in client.topic(topic).partitions]
        chosen = [TopicPartition(topic, number) for number in partitions or known]
        away: dict[TopicPartition, str] = {}
        if to is not None or exits:
            chosen, away = reached_partitions(client, chosen)
            for sentence in away_sentences(away):
                note(f"Not read: {sentence}")
        reader = _Reader(client, read_committed=isolation == "read_committed", idle_seconds=wait_seconds)
        reader.positions = reader.find(chosen, offset)
        if to is not None or exits:
            reader.ends = reader.find_ends(chosen, to or "latest")
        if offset.isdecimal():
            reader.check_reached(int(offset))
        taken = 0
        try:
            taken = _print(reader, show, count)
        except KeyboardInterrupt:
            return
    if reader.gave_up:
        note(f"Error: no record of {topic} within {wait_seconds:g} s; {taken} were read")
        raise SystemExit(int(ExitCode.TIMEOUT))
    if away:
        raise SystemExit(int(ExitCode.UNHEALTHY))


def _as_json(topic_partition: TopicPartition, record: Record) -> bytes:
    return json_text(record_json(topic_partition, record)).encode() + b"\n"


def _print(reader: _Reader, show: RecordText, count: int | None) -> int:
    out = sys.stdout.buffer
    taken = 0
    for topic_partition, records in reader.read():
        wanted = records if count is None else records[: count - taken]
        out.write(b"".join([show(topic_partition, record) for record in wanted]))
        out.flush()
        taken += len(wanted)
        if count is not None and taken >= count:
            break
    return taken


class _Reader(Struct):
    """Positions in some partitions, and optionally where each ends."""

    client: Client
    read_committed: bool
    idle_seconds: float | None
    positions: Positions = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] | None = None
    gave_up: bool = False

    def find(self, partitions: Sequence[TopicPartition], where: str) -> Positions:
        """The offset in each partition that a text means. Raises `Invalid` for one that means nothing."""
        if where in ("earliest", "latest"):
            return self._listed(partitions, EARLIEST if where == "earliest" else LATEST)
        if where.startswith("@"):
            ends = self._listed(partitions, LATEST)
            found = self._listed(partitions, max(parse_time_ms(where[1:]), 0))  # below 0 are no times, but ends of logs
            return {one: ends[one] if at < 0 else at for one, at in found.items()}
        if not where.removeprefix("-").isdecimal():
            raise Invalid(f"{where!r} is no place in a log: write earliest, latest, an offset, -N or @TIME")
        number = int(where)
        if number >= 0:
            return dict.fromkeys(partitions, number)
        starts, ends = self._listed(partitions, EARLIEST), self._listed(partitions, LATEST)
        return {one: max(starts[one], ends[one] + number) for one in partitions}

    def find_ends(self, partitions: Sequence[TopicPartition], where: str) -> Positions:
        """The same, where reading ends: no later than where each partition ends now, for no more is waited for."""
        found, ends = self.find(partitions, where), self._listed(partitions, LATEST)
        return {one: min(found[one], ends[one]) for one in partitions}

    def check_reached(self, offset: int) -> None:
        """Raise `NotFoundError` unless ``offset`` is in a partition, or the next of one."""
        # Above the last stable offset there are offsets, too: those of open transactions.
        listed = self.client.list_offsets(dict.fromkeys(self.positions, LATEST), read_committed=False)
        ends = {one: found.offset for one, found in listed.items()}
        if ends and all(end < offset for end in ends.values()):
            shown = ", ".join(f"{one} ends at {end}" for one, end in ends.items())
            raise NotFoundError(f"no partition has come to offset {offset}: {shown}")

    def _listed(self, partitions: Sequence[TopicPartition], timestamp: int) -> Positions:
        found = self.client.list_offsets(dict.fromkeys(partitions, timestamp), read_committed=self.read_committed)
        return {one: listed.offset for one, listed in found.items()}

    def read(self) -> Iterator[tuple[TopicPartition, Sequence[Record]]]:
        """Records batch by batch until every end is reached, or for ever; sets `gave_up` when none came for too long."""
        clock = SystemClock()
        last = clock.monotonic()
        while self._drop_finished():
            for fetched in fetch(
                self.client, self.positions, max_wait_ms=FETCH_WAIT_MS, read_committed=self.read_committed
            ):
                one = fetched.topic_partition
                for after, records in visible_records(fetched, self.positions[one], read_committed=self.read_committed):
                    self.positions[one] = max(self.positions[one], after)
                    if shown := self._before_end(one, records):
                        last = clock.monotonic()
                        yield one, shown
            if self.idle_seconds is not None and clock.monotonic() - last >= self.idle_seconds:
                self.gave_up = True
                return

    def _drop_finished(self) -> bool:
        if self.ends is not None:
            self.positions = {one: at for one, at in self.positions.items() if at < self.ends[one]}
        return bool(self.positions)

    def _before_end(self, one: TopicPartition, records: Sequence[Record]) -> Sequence[Record]:
        if self.ends is None:
            return records
        end = self.ends[one]
        return [record for record in records if record.offset < end]
