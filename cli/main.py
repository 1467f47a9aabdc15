"""The command line: ``stratalog``. One module for each noun; see `docs/cli.md`, which is made from these commands."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from stratalog.cli.command import LazyGroup, LazyPath

__all__ = ["cli", "main"]

COMMANDS: Final = {
    "dev": LazyPath("stratalog.cli.serve", "dev", "Run a broker in a temporary folder, to try things out."),
    "serve": LazyPath("stratalog.cli.serve", "serve", "Run a broker from a configuration file."),
    "format": LazyPath("stratalog.cli.format", "format_command", "Prepare the directories of a new node."),
    "mount": LazyPath("stratalog.cli.mount", "mount", "Serve a bucket for reading, without writing to it."),
    "topic": LazyPath("stratalog.cli.topic", "topic", "Create, list, describe, alter and delete topics."),
    "produce": LazyPath("stratalog.cli.produce", "produce", "Write records from standard input to a topic."),
    "consume": LazyPath("stratalog.cli.consume", "consume", "Read the records of a topic."),
    "group": LazyPath(
        "stratalog.cli.group", "group", "List, describe and delete consumer groups, and set their offsets."
    ),
    "cluster": LazyPath(
        "stratalog.cli.cluster.main", "cluster", "Show the nodes of a cluster, and say whether it is healthy."
    ),
    "quorum": LazyPath("stratalog.cli.quorum", "quorum", "Describe the metadata quorum; add and remove controllers."),
    "quota": LazyPath("stratalog.cli.quota", "quota", "See, set and remove quotas of users, client ids and addresses."),
    "transaction": LazyPath(
        "stratalog.cli.transaction", "transaction", "List and describe transactions, and end those that hang."
    ),
    "tier": LazyPath("stratalog.cli.tier.main", "tier", "See and set what of a topic is in the bucket."),
    "cut": LazyPath("stratalog.cli.cut", "cut", "Name what the archive holds now, over many partitions."),
    "apply": LazyPath("stratalog.cli.apply", "apply", "Bring the tiering of topics into the state of a file."),
    "restore": LazyPath(
        "stratalog.cli.restore", "restore", "Write the data directory of a broker from its bucket alone."
    ),
    "doctor": LazyPath(
        "stratalog.cli.spark.doctor", "doctor", "Say what is missing to read archives, and how to mend it."
    ),
    "backfill": LazyPath(
        "stratalog.cli.spark.backfill", "backfill", "Convert archived topics to Parquet files, with Spark; no broker."
    ),
    "compact": LazyPath(
        "stratalog.cli.spark.compact", "compact", "Compact the archive of a compacted topic, with Spark; no broker."
    ),
    "erase": LazyPath(
        "stratalog.cli.spark.erase", "erase", "Erase records of a key from an archive, with Spark; no broker."
    ),
    "stats": LazyPath(
        "stratalog.cli.spark.stats", "stats", "Count records, bytes and keys of topics, with Spark; no broker."
    ),
    "verify": LazyPath(
        "stratalog.cli.spark.verify", "verify", "Do what tier verify --deep does, spread over Spark; no broker."
    ),
    "spark-zip": LazyPath(
        "stratalog.cli.spark.spark_zip", "spark_zip", "Write stratalog as a zip for the executors of Spark."
    ),
    "dump": LazyPath(
        "stratalog.cli.dump.main", "dump_command", "Read and check one file of a data directory or bucket."
    ),
}

PRIVATE: Final = frozenset({"dev", "serve", "format", "mount", "restore", "cut", "tier", "compact", "erase"})
"""Commands that write records, or what can lead to some, into directories: only their own account reads those.

`stratalog.umask` is for those who want it otherwise of a broker.
"""

HELP: Final = """Kafka topics that never fill a disk.

Results go to stdout, everything else to stderr. With --json a result is one JSON object a line.

\b
Exit codes: 0 done, 1 failed, 2 wrong command or setting, 3 not found,
4 no broker answers or it cannot serve now, 5 not done in time.
"""

EXAMPLES: Final = """
stratalog dev
stratalog serve --config server.properties --data /var/lib/stratalog --bucket s3://archive/prod
stratalog topic create orders --partitions 6
echo 'hello' | stratalog produce orders
stratalog consume orders --exit
stratalog tier status orders
"""

cli = LazyGroup("stratalog", lazy=COMMANDS, help=HELP, examples=EXAMPLES, no_args_is_help=True)


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("stratalog")
    except PackageNotFoundError:
        found = "(not installed)"
    click.echo(f"stratalog {found}")
    context.exit()


cli.params.append(
    click.Option(
        ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
    )
)


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if PRIVATE.intersection(sys.argv[1:2]):
        os.umask(0o077)
    cli(prog_name="stratalog", args=sys.argv[1:])


if __name__ == "__main__":
    main()
