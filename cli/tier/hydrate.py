"""``stratalog tier hydrate``: have a broker fetch a range of the archive ahead of its readers, and keep it."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

import click

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.command import broker_options, command
from stratalog.cli.http import http_json, http_option, http_text_of
from stratalog.cli.output import ExitCode, bytes_text, json_option, note, reports_errors, write_json
from stratalog.cli.quantities import DURATION_MS
from stratalog.client.client import Client
from stratalog.wire.topic import TopicPartition

__all__ = ["hydrate"]

_RANGE: Final = re.compile(r"(\d{1,19})\.\.(\d{0,19})")
_OFFSET_MAX: Final = (1 << 63) - 1


def _offsets(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    start, end = (int(match[1]), int(match[2] or _OFFSET_MAX)) if match else (0, 0)
    if match is None or not start < end <= _OFFSET_MAX:
        raise click.BadParameter(f"{text!r} is no range of offsets: write 1000..2000 (the end is exclusive) or 1000..")
    return start, end


@command(
    "hydrate",
    """
    stratalog tier hydrate orders 0 1000000..2000000 --pin 6h
    stratalog tier hydrate orders 0 1000000.. --pin 1d --json
    """,
)
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offsets", metavar="FROM..UNTIL", callback=_offsets)
@click.option(
    "--pin", "pin_ms", type=DURATION_MS, default="1h", show_default=True, metavar="TIME",
    help="How long what was fetched stays in the cache, at most 7d; a restart forgets it.",
)  # fmt: skip
@http_option
@json_option
@broker_options
@reports_errors
def hydrate(
    *,
    topic: str,
    partition: int,
    offsets: tuple[int, int],
    pin_ms: int,
    http: str | None,
    as_json: bool,
    bootstrap: str,
    timeout_seconds: float,
) -> None:
    """Have the broker that leads a partition fetch the archived part of a range into its chunk cache, and keep it there for a while.

    Before a backfill or a replay: its readers then read at the speed of the disk. At most half of the cache is held
    for readers to come; the fetching keeps the budgets of a client called tier-hydrate. See the cost beforehand with
    `stratalog tier explain fetch`. Exit code 5: nothing more of the range came for as long as --timeout says.
    """
    start, end = offsets
    at_leader = http or _leaders_http(bootstrap, timeout_seconds, TopicPartition(topic, partition))
    path = f"/v1/topics/{quote(topic, safe='')}/partitions/{partition}/hydrate"
    at, chunks, size_bytes = start, 0, 0
    answer: dict[str, Any] = {"done": False}
    clock = SystemClock()
    came_on_s = clock.monotonic()
    while not answer["done"]:
        answer = http_json(at_leader, "POST", path, {"from": at, "until": end, "pin_ms": pin_ms})
        if (came_to := int(answer["next_offset"])) > at:
            at, came_on_s = came_to, clock.monotonic()
        elif not answer["done"] and clock.monotonic() - came_on_s >= timeout_seconds:
            note(
                f"Error: {topic}-{partition}: nothing from offset {at} on came within {timeout_seconds:g} s; the log of its "
                f"broker says why. {bytes_text(size_bytes)} before it are held."
            )
            raise SystemExit(int(ExitCode.TIMEOUT))
        chunks, size_bytes = chunks + int(answer["chunks"]), size_bytes + int(answer["size_bytes"])
        if not answer["done"]:
            note(f"{topic}-{partition}: up to offset {at}, {bytes_text(size_bytes)} held …")
    if as_json:
        write_json({"topic": topic, "partition": partition, "from": start, "until": at, "size_bytes": size_bytes})
    note(
        f"{topic}-{partition}: offsets {start} to {at} (exclusive) are held, about {bytes_text(size_bytes)} in {chunks} chunks."
    )


def _leaders_http(bootstrap: str, timeout_seconds: float, partition: TopicPartition) -> str:
    """Where the leader of a partition listens for HTTP. Raises `KafkaError` for one that does not exist or has none."""
    with Client(bootstrap, timeout_seconds) as client:
        return http_text_of(client, client.leader(partition))
