"""``stratalog tier``: what of a topic is local and what is in the bucket, and how much of it stays local."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from stratalog.broker.cli_command import HTTP_DEFAULT, ExampleGroup, broker_options
from stratalog.broker.cli_output import bytes_text, json_option, note, reports_errors, write_rows
from stratalog.broker.cli_values import parse_duration_ms, parse_size_bytes
from stratalog.broker.client import Client, Topic
from stratalog.broker.client_admin import alter_topic_configs, describe_topic_configs
from stratalog.broker.config_listeners import parse_address
from stratalog.wire.topic import TopicPartition

__all__ = ["tier"]

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

tier = ExampleGroup(
    "tier",
    help="See and set what of a topic is in the bucket.",
    no_args_is_help=True,
    examples="""
    stratalog tier status
    stratalog tier status orders --json
    stratalog tier set orders --enable --local-retention-bytes 100MiB --segment-ms 1h
    """,
)


@tier.command("status", examples="stratalog tier status\nstratalog tier status orders --json")
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@click.option("--http", envvar="STRATALOG_HTTP", default=HTTP_DEFAULT, show_default=True, show_envvar=True, metavar="HOST:PORT",
              help="The broker's HTTP address; it knows the bytes. Without it they are left out.")  # fmt: skip
@json_option
@broker_options
@reports_errors
def status(*, names: Sequence[str], http: str, as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Show where each partition of a topic is held: of all topics with remote.storage.enable if none is named.

    Offsets count from LOG START, the first that can be read. Up to REMOTE END (exclusive) all is in the bucket, from
    LOCAL START on all is on the broker's disk.
    """
    address = parse_address(http, "--http")
    with Client(bootstrap, timeout_seconds) as client:
        topics = client.refresh(names) if names else _tiered(client)
        partitions = [TopicPartition(one.name, part.partition) for one in topics for part in one.partitions]
        rows = _offset_rows(client, partitions)
    for row in rows:
        row.update({"local_bytes": None, "remote_bytes": None, "objects": None, "state": None})
    for name in dict.fromkeys(one.topic for one in partitions):
        _add_sizes(rows, name, _sizes(address, name, timeout_seconds))
    if not as_json:
        for row in rows:
            row |= {name: bytes_text(row[name]) for name in ("local_bytes", "remote_bytes")}
    write_rows(rows, COLUMNS, as_json=as_json)


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
    """What the broker's HTTP side says of a topic's partitions; nothing, with a note, if it does not answer."""
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - only this command needs it
    from urllib.parse import quote  # noqa: PLC0415

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


SETTINGS: Final = {
    "local_retention_bytes": "local.retention.bytes",
    "local_retention_ms": "local.retention.ms",
    "retention_bytes": "retention.bytes",
    "retention_ms": "retention.ms",
    "segment_bytes": "segment.bytes",
    "segment_ms": "segment.ms",
}


def _size(_context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    return None if text is None else str(_parsed(parse_size_bytes, parameter, text))


def _duration(_context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    return None if text is None else str(_parsed(parse_duration_ms, parameter, text))


def _parsed(parse: Any, parameter: click.Parameter, text: str) -> int:
    from stratalog.wire.errors import Invalid  # noqa: PLC0415

    try:
        return int(parse(text))
    except Invalid as error:
        raise click.BadParameter(str(error), param=parameter) from error


@tier.command(
    "set",
    examples="""
    stratalog tier set orders --enable --local-retention-bytes 100MiB
    stratalog tier set orders --local-retention-ms 6h --retention-ms -1 --segment-ms 1h
    stratalog tier set orders --stop-copy
    """,
)
@click.argument("name", metavar="TOPIC")
@click.option("--enable/--disable", "enable", default=None, help="Archive the topic (remote.storage.enable).")
@click.option(
    "--stop-copy/--resume-copy",
    "stop",
    default=None,
    help="Upload nothing more, or go on (remote.log.copy.disable); stopping wants local retention equal to retention.",
)
@click.option(
    "--local-retention-bytes",
    metavar="SIZE",
    callback=_size,
    help="Local bytes a partition keeps once archived; -2 as retention.bytes.",
)
@click.option(
    "--local-retention-ms",
    metavar="TIME",
    callback=_duration,
    help="Time records stay local once archived; -2 as retention.ms.",
)
@click.option(
    "--retention-bytes",
    metavar="SIZE",
    callback=_size,
    help="Bytes of a partition, local and archived; -1 without bound.",
)
@click.option("--retention-ms", metavar="TIME", callback=_duration, help="Age at which records go; -1 never.")
@click.option(
    "--segment-bytes", metavar="SIZE", callback=_size, help="Size at which a segment freezes and can be archived."
)
@click.option("--segment-ms", metavar="TIME", callback=_duration, help="Age at which it freezes.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the change and make none.")
@broker_options
@reports_errors
def set_tier(
    *,
    name: str,
    enable: bool | None,
    stop: bool | None,
    dry_run: bool,
    bootstrap: str,
    timeout_seconds: float,
    **given: str | None,
) -> None:
    """Change how TOPIC is archived. Sizes take KiB, MiB, GiB; times take s, m, h, d; plain numbers are bytes and ms."""
    changes = {SETTINGS[option]: text for option, text in given.items() if text is not None}
    if enable is not None:
        changes["remote.storage.enable"] = str(enable).lower()
    if stop is not None:
        changes["remote.log.copy.disable"] = str(stop).lower()
    if not changes:
        raise click.UsageError("Nothing to change: see --help for what can be set.")
    with Client(bootstrap, timeout_seconds) as client:
        client.refresh([name])
        alter_topic_configs(client, name, set_to=changes, validate_only=dry_run)
    verb = "Would set" if dry_run else "Set"
    note(f"{verb} {', '.join(f'{key}={value}' for key, value in changes.items())} on topic {name}.")
