"""``stratalog tier set``: how a topic is archived and how much of it stays local."""

from __future__ import annotations

from typing import Any, Final

import click

from stratalog.broker.cli_command import broker_options, command
from stratalog.broker.cli_output import note, reports_errors
from stratalog.broker.cli_values import parse_duration_ms, parse_size_bytes
from stratalog.broker.client import Client
from stratalog.broker.client_admin import alter_topic_configs

__all__ = ["set_tier"]

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


@command(
    "set",
    """
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
