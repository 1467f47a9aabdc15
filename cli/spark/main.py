"""``python -m stratalog.spark COMMAND``: what works without a broker, where only the Spark side is installed."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

import click

from stratalog.extras import MissingPackage, naming_extra
from stratalog.tier.stores.store import NotFound
from stratalog.wire.errors import Invalid, StratalogError

__all__ = ["COMMANDS", "main"]

COMMANDS: Final = {
    "backfill": ("stratalog.cli.spark.backfill", "backfill"),
    "compact": ("stratalog.cli.spark.compact", "compact"),
    "erase": ("stratalog.cli.spark.erase", "erase"),
    "doctor": ("stratalog.cli.spark.doctor", "doctor"),
    "stats": ("stratalog.cli.spark.stats", "stats"),
    "verify": ("stratalog.cli.spark.verify", "verify"),
    "spark-zip": ("stratalog.cli.spark.spark_zip", "spark_zip"),
}
"""Name: module and attribute, imported on use."""

_FAILED: Final = 1
_USAGE: Final = 2
_NOT_FOUND: Final = 3


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found


def main(arguments: list[str] | None = None) -> None:
    """Run a command and end the process with its exit code."""
    commands = _Commands("stratalog.spark", help="Spark on an archive, without a broker.", no_args_is_help=True)
    try:
        with naming_extra("this command"):
            commands(args=sys.argv[1:] if arguments is None else arguments, prog_name="python -m stratalog.spark")
    except (StratalogError, OSError, MissingPackage) as error:
        click.echo(f"Error: {error}", err=True)
        code = (
            _NOT_FOUND
            if isinstance(error, NotFound | FileNotFoundError)
            else _USAGE
            if isinstance(error, Invalid)
            else _FAILED
        )
        raise SystemExit(code) from error
