"""``stratalog tier status``: which offsets and bytes of a topic are local and which are in the bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from stratalog.cli.command import HTTP_DEFAULT, broker_options, command
from stratalog.cli.output import bytes_text, json_option, note, reports_errors, write_rows
from stratalog.client.admin import describe_broker_configs, describe_topic_configs
from stratalog.client.client import Client, Topic
from stratalog.wire.address import parse_address
from stratalog.wire.topic import TopicPartition

__all__ = ["status"]

_HTTP_LISTENER: Final = "stratalog.http.listener"
_ALL_ADDRESSES: Final = ("", "0.0.0.0", "::")  # noqa: S104 - to compare with
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
              help="The HTTP address that knows the bytes. By default the one that the broker's settings name.")  # fmt: skip
@json_option
@broker_options
@reports_errors
def status(*, names: Sequence[str], http: str | None, as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Show where each partition of a topic is held: of all topics with remote.storage.enable if none is named.

    Offsets count from LOG START, the first that can be read. Up to REMOTE END (exclusive) all is in the bucket, from
    LOCAL START on all is on the broker's disk.
    """
    address = None if http is None else parse_address(http, "--http")
    with Client(bootstrap, timeout_seconds) as client:
        topics = client.refresh(names) if names else _tiered(client)
        partitions = [TopicPartition(one.name, part.partition) for one in topics for part in one.partitions]
        rows = _offset_rows(client, partitions)
        address = address or _http_address(client)
    for row in rows:
        row.update({"local_bytes": None, "remote_bytes": None, "objects": None, "state": None})
    for name in dict.fromkeys(one.topic for one in partitions):
        _add_sizes(rows, name, _sizes(address, name, timeout_seconds))
    if not as_json:
        for row in rows:
            row |= {name: bytes_text(row[name]) for name in ("local_bytes", "remote_bytes")}
    write_rows(rows, COLUMNS, as_json=as_json)


def _http_address(client: Client) -> tuple[str, int]:
    """Where the broker that has answered listens for HTTP, by its own settings.

    One that listens on all addresses is asked at the address of its clients.
    """
    node_id, (broker_host, _) = next(iter(client.brokers.items()))
    listener = describe_broker_configs(client, node_id, [_HTTP_LISTENER]).get(_HTTP_LISTENER)
    host, port = parse_address(listener or HTTP_DEFAULT, _HTTP_LISTENER)
    return broker_host if host in _ALL_ADDRESSES else host, port


def _tiered(client: Client) -> list[Topic]:
    topics = sorted(client.refresh(), key=lambda one: one.name)
    if not topics:
        return []
    configs = describe_topic_configs(client, [one.name for one in topics])
    return [one for one in topics if ("remote.storage.enable", "true") in {each[:2] for each in configs[one.name]}]


def _offset_rows(client: Client, partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    rows: dict[TopicPartition, dict[str, Any]] = {
        one: {"topic": one.topic, "partition": one.partition} for one in partitions
    }
    for column, timestamp in OFFSETS.items():
        for one, listed in client.list_offsets(dict.fromkeys(partitions, timestamp)).items():
            rows[one][column] = listed.offset if listed.offset >= 0 else None
    for row in rows.values():
        # ListOffsets names the last offset in the tier; a border is easier to compare with the others.
        row["remote_end"] = None if row["remote_end"] is None else row["remote_end"] + 1
    return list(rows.values())


def _sizes(address: tuple[str, int], topic: str, timeout_seconds: float) -> Mapping[int, Mapping[str, Any]]:
    """The sizes of a topic's partitions, as the broker's HTTP side reports
    them; empty, with a note, if it does not answer.
    """
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import quote

    host, port = address
    connection = HTTPConnection(host or "127.0.0.1", port, timeout=timeout_seconds)
    try:
        connection.request("GET", f"/tier/status?topic={quote(topic, safe='')}")
        response = connection.getresponse()
        if response.status != 200:
            note(f"No sizes of {topic}: http {host}:{port} answers {response.status}.")
            return {}
        return {one["partition"]: one for one in json.load(response)["partitions"]}
    except (OSError, HTTPException, ValueError, KeyError) as error:
        note(f"No sizes of {topic}: http {host}:{port}: {error}. Give --http HOST:PORT.")
        return {}
    finally:
        connection.close()


def _add_sizes(rows: Sequence[dict[str, Any]], topic: str, sizes: Mapping[int, Mapping[str, Any]]) -> None:
    for row in rows:
        if row["topic"] == topic and row["partition"] in sizes:
            known = sizes[row["partition"]]
            row.update({name: known.get(name) for name in ("local_bytes", "remote_bytes", "objects", "state")})
