"""``stratalog tier set``: how a topic is archived and how much of it stays local."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

import click

from stratalog.cli.command import broker_options, command
from stratalog.cli.output import note, reports_errors
from stratalog.cli.quantities import SIGNED_MS, SIGNED_SIZE
from stratalog.cli.tier.advice import advise
from stratalog.client.admin import alter_topic_configs
from stratalog.client.client import Client
from stratalog.wire.errors import Invalid

__all__ = ["set_tier"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class ValueOption(NamedTuple):
    """An option that sets one setting of the topic to the value given."""

    name: str
    type: click.ParamType[Any] | None
    metavar: str
    setting: str
    help: str


# fmt: off
VALUES: Final = (
    ValueOption("local-retention-bytes", SIGNED_SIZE, "SIZE", "local.retention.bytes",
                "Local bytes a partition keeps once archived; -2 as retention.bytes."),
    ValueOption("local-retention-ms", SIGNED_MS, "TIME", "local.retention.ms",
                "Time records stay local once archived; -2 as retention.ms."),
    ValueOption("retention-bytes", SIGNED_SIZE, "SIZE", "retention.bytes",
                "Bytes of a partition, local and archived; -1 without bound."),
    ValueOption("retention-ms", SIGNED_MS, "TIME", "retention.ms", "Age at which records go; -1 never."),
    ValueOption("segment-bytes", SIGNED_SIZE, "SIZE", "segment.bytes",
                "Size at which a segment freezes and can be archived."),
    ValueOption("segment-ms", SIGNED_MS, "TIME", "segment.ms", "Age at which it freezes."),
    ValueOption("copy-lag-ms", SIGNED_MS, "TIME", "remote.copy.lag.ms",
                "Age of its newest record at which a segment is uploaded (remote.copy.lag.ms); -1 as local retention, 0 at "
                "once."),
    ValueOption("copy-lag-bytes", SIGNED_SIZE, "SIZE", "remote.copy.lag.bytes",
                "Local bytes behind it at which it is uploaded even if younger (remote.copy.lag.bytes)."),
    ValueOption("upload-lag-ms", SIGNED_MS, "TIME", "stratalog.upload.lag.ms",
                "Time after it froze before which it is not uploaded (stratalog.upload.lag.ms)."),
    ValueOption("part-bytes", SIGNED_SIZE, "SIZE", "stratalog.upload.part.bytes",
                "Part size of large uploads (stratalog.upload.part.bytes)."),
    ValueOption("storage-class", None, "NAME", "stratalog.storage.class",
                "S3 storage class of new objects (stratalog.storage.class); '' the bucket's."),
)
# fmt: on

SETTINGS: Final = {each.name.replace("-", "_"): each.setting for each in VALUES} | {
    "enable": "remote.storage.enable",
    "stop": "remote.log.copy.disable",
    "delete_archive": "remote.log.delete.on.disable",
}
"""The setting of each option, by the name of its argument."""


def value_options(function: Decorated) -> Decorated:
    """Add the options of `VALUES`, in their order."""
    for each in reversed(VALUES):
        function = click.option(f"--{each.name}", type=each.type, metavar=each.metavar, help=each.help)(function)
    return function


@command(
    "set",
    """
    stratalog tier set orders --enable --local-retention-bytes 100MiB
    stratalog tier set orders --local-retention-ms 6h --retention-ms -1 --segment-ms 1h
    stratalog tier set orders --copy-lag-ms 1h --storage-class STANDARD_IA
    stratalog tier set orders --stop-copy
    """,
)
@click.argument("name", metavar="TOPIC")
@click.option("--enable/--disable", "enable", default=None, help="Archive the topic (remote.storage.enable).")
@click.option(
    "--delete-archive/--keep-archive",
    "delete_archive",
    default=None,
    help="Effect of --disable on the archive (remote.log.delete.on.disable): without the first it is refused.",
)
@click.option(
    "--stop-copy/--resume-copy",
    "stop",
    default=None,
    help="Upload nothing more, or go on (remote.log.copy.disable); stopping wants local retention equal to retention.",
)
@value_options
@click.option(
    "--unset", multiple=True, metavar="SETTING", help="Go back to the default of a setting, by its full name."
)
@click.option("--dry-run", is_flag=True, help="Let the broker check the change and make none.")
@broker_options
@reports_errors
def set_tier(
    *,
    name: str,
    unset: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    timeout_seconds: float,
    **given: str | int | bool | None,
) -> None:
    """Change how TOPIC is archived; takes effect at once.

    Sizes take KiB, MiB, GiB; times take s, m, h, d; plain numbers are bytes and ms. Notes about the resulting settings
    are printed on stderr.
    """
    changes = {SETTINGS[option]: _text(value) for option, value in given.items() if value is not None}
    if not changes and not unset:
        raise click.UsageError("Nothing to change: see --help for what can be set.")
    _check_names(unset)
    with Client(bootstrap, timeout_seconds) as client:
        client.refresh([name])
        alter_topic_configs(client, name, set_to=changes, delete=unset, validate_only=dry_run)
        words = [f"{key}={value}" for key, value in changes.items()] + [f"{key} to its default" for key in unset]
        note(f"{'Would set' if dry_run else 'Set'} {', '.join(words)} on topic {name}.")
        advise(client, name, {} if not dry_run else changes)


def _check_names(names: Iterable[str]) -> None:
    """A broker takes away what is not there without a word. Raises `Invalid` for what is no setting of topics."""
    from stratalog.metadata.settings.by_name import describe_unknown, topic_definitions

    for name in names:
        if name not in topic_definitions():
            raise Invalid(f"--unset: {describe_unknown(name, topic_definitions())}")


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
