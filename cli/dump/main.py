"""``stratalog dump``: look into one file and say what is wrong with it."""

from __future__ import annotations

from typing import Any, Final

import click

from stratalog.cli.command import command
from stratalog.cli.dump.dump import KINDS_HELP, dump
from stratalog.cli.dump.row import PROBLEM
from stratalog.cli.output import ExitCode, json_option, json_text, note, reports_errors, write_json

__all__ = ["dump_command"]

EXAMPLES: Final = """
stratalog dump /var/lib/stratalog/orders-0/00000000000000000000.log
stratalog dump /var/lib/stratalog/__cluster_metadata-0/00000000000000000000.log --records --json
stratalog dump s3://archive/prod/topics/orders-pUxtLw2kRnCTV4aDdVjZQg/0000000000/manifest.json
stratalog dump file:///srv/bucket/topics/orders-pUxtLw2kRnCTV4aDdVjZQg/0000000000/seg/….seg --quick
"""


@command(
    "dump",
    EXAMPLES,
    epilog=f"Files it knows by name: {KINDS_HELP}.",
)
@click.argument("targets", metavar="FILE|URL...", nargs=-1, required=True)
@click.option(
    "-r", "--records", is_flag=True, help="Show the records of every batch, decoded where the topic is our own."
)
@click.option("-q", "--quick", is_flag=True, help="Read only the footer and small parts of a .seg, not its data.")
@click.option("--problems", "only_problems", is_flag=True, help="Show only what is wrong, and the summary.")
@json_option
@reports_errors
def dump_command(*, targets: tuple[str, ...], records: bool, quick: bool, only_problems: bool, as_json: bool) -> None:
    """Show what is in a file of a data directory or bucket, a line for each thing, and check it.

    CRCs, the order of offsets and counts are checked, and indexes against the log beside them. The exit code is 1 if
    anything is wrong; a problem names its byte position and offset.
    """
    problems = 0
    for target in targets:
        if len(targets) > 1 and not as_json:
            click.echo(target)
        for row in dump(target, records=records, quick=quick):
            problems += row["what"] == PROBLEM
            if only_problems and row["what"] not in (PROBLEM, "summary"):
                continue
            if as_json:
                write_json({"file": target, **row} if len(targets) > 1 else row)
            else:
                click.echo(_line(row))
    if problems:
        note(f"{problems} problems.")
        raise SystemExit(int(ExitCode.FAILED))


def _line(row: dict[str, Any]) -> str:
    fields = [f"{name}={_text(value)}" for name, value in row.items() if name != "what" and value is not None]
    what = row["what"].upper() if row["what"] == PROBLEM else row["what"]
    return " ".join([what, *fields])


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value if value and " " not in value else json_text(value)
    return json_text(value)
