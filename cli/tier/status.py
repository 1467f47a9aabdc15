"""``stratalog tier status``: which offsets and bytes of a topic are local and which are in the bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from stratalog.cli.command import broker_options, command
from stratalog.cli.http import http_address_of
from stratalog.cli.output import ExitCode, bytes_text, json_option, note, reports_errors, write_rows
from stratalog.client.admin import describe_topic_configs
from stratalog.client.client import REACH_SECONDS, Client, Topic
from stratalog.client.reach import NAMED_MAX, away_sentences, reached_partitions
from stratalog.wire.address import parse_address
from stratalog.wire.topic import TopicPartition

__all__ = ["status"]

_OK: Final = 200
OFFSETS: Final = {"log_start": -2, "local_start": -4, "remote_end": -5, "log_end": -1}
COLUMNS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "log_start": "LOG START",
    "local_start": "LOCAL START",
    "remote_end": "REMOTE END",
    "log_end": "LOG END",
    "local_bytes": "LOCAL",
    "remote_bytes": "REMOTE",
    "objects": "OBJECTS",
    "state": "STATE",
}


@command("status", "stratalog tier status\nstratalog tier status orders --json")
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@click.option("--http", envvar="STRATALOG_HTTP", show_envvar=True, metavar="HOST:PORT",
              help="Ask only this HTTP address for bytes. By default each broker is asked at the one that its settings name.")  # fmt: skip
@json_option
@broker_options
@reports_errors
def status(*, names: Sequence[str], http: str | None, as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Show where each partition of a topic is held: of all topics with remote.storage.enable if none is named.

    Offsets count from LOG START, the first that can be read. Up to REMOTE END (exclusive) all is in the bucket, from
    LOCAL START on all is on the disk of the partition's broker. A leader that has just taken over shows no sizes until it has
    read the archive.

    Each broker is asked for what it leads. Partitions whose broker does not answer are shown without offsets and named; the
    exit code is 4 then.
    """
    address = None if http is None else parse_address(http, "--http")
    with Client(bootstrap, timeout_seconds) as client:
        topics = client.refresh(names) if names else _tiered(client)
        partitions = [TopicPartition(one.name, part.partition) for one in topics for part in one.partitions]
        reached, away = reached_partitions(client, partitions)
        rows = {one: _row(one) for one in partitions}
        _add_offsets(rows, client, reached)
        if address is None:
            for node_id, led in client.by_leader(reached).items():
                _add_sizes(rows, http_address_of(client, node_id), led, timeout_seconds)
        else:
            _add_sizes(rows, address, reached, timeout_seconds)
    shown = list(rows.values())
    if not as_json:
        for row in shown:
            row |= {name: bytes_text(row[name]) for name in ("local_bytes", "remote_bytes")}
    write_rows(shown, COLUMNS, as_json=as_json)
    for sentence in away_sentences(away):
        note(f"Not shown: {sentence}")
    if away:
        raise SystemExit(int(ExitCode.UNHEALTHY))


def _row(one: TopicPartition) -> dict[str, Any]:
    """The row of a partition before anything is known about it."""
    return {**dict.fromkeys(COLUMNS), "topic": one.topic, "partition": one.partition}


def _tiered(client: Client) -> list[Topic]:
    topics = sorted(client.refresh(), key=lambda one: one.name)
    if not topics:
        return []
    configs = describe_topic_configs(client, [one.name for one in topics])
    return [one for one in topics if ("remote.storage.enable", "true") in {each[:2] for each in configs[one.name]}]


def _add_offsets(
    rows: Mapping[TopicPartition, dict[str, Any]], client: Client, reached: Sequence[TopicPartition]
) -> None:
    for column, timestamp in OFFSETS.items():
        for one, listed in client.list_offsets(dict.fromkeys(reached, timestamp)).items():
            rows[one][column] = listed.offset if listed.offset >= 0 else None
    for one in reached:
        # ListOffsets names the last offset in the tier; a border is easier to compare with the others.
        row = rows[one]
        row["remote_end"] = None if row["remote_end"] is None else row["remote_end"] + 1


def _add_sizes(
    rows: Mapping[TopicPartition, dict[str, Any]],
    address: tuple[str, int],
    partitions: Sequence[TopicPartition],
    timeout_seconds: float,
) -> None:
    """Add the sizes that the HTTP side of a broker knows; a note names the partitions that it does not know, and why."""
    topics = {one.topic for one in partitions}
    if not topics:
        return
    sizes, why = _sizes(address, next(iter(topics)) if len(topics) == 1 else None, timeout_seconds)
    missing = []
    for one in partitions:
        known = sizes.get(one)
        if known is None:
            missing.append(one)
        else:
            rows[one].update({name: known.get(name) for name in ("local_bytes", "remote_bytes", "objects", "state")})
    if missing:
        more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
        named = ", ".join(map(str, missing[:NAMED_MAX]))
        note(f"No sizes of {named}{more}: http {address[0]}:{address[1]}{why}. Give --http HOST:PORT.")


def _sizes(
    address: tuple[str, int], topic: str | None, timeout_seconds: float
) -> tuple[Mapping[TopicPartition, Mapping[str, Any]], str]:
    """The sizes that a broker reports, of a topic's partitions or of all, and what to say of those that it leaves out."""
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import quote

    host, port = address
    connection = HTTPConnection(host or "127.0.0.1", port, timeout=min(REACH_SECONDS, timeout_seconds))
    try:
        connection.request("GET", "/tier/status" + ("" if topic is None else f"?topic={quote(topic, safe='')}"))
        response = connection.getresponse()
        if response.status != _OK:
            return {}, f" answers {response.status}"
        rows = json.load(response)["partitions"]
        return {
            TopicPartition(one["topic"], one["partition"]): one for one in rows
        }, " is of a broker that does not lead it"
    except (OSError, HTTPException, ValueError, KeyError) as error:
        return {}, f": {error}"
    finally:
        connection.close()
