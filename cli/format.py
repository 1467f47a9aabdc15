"""``stratalog format``: the directories of a new node, as Kafka's ``kafka-storage format`` prepares them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.cli.command import command
from stratalog.cli.output import json_option, note, reports_errors, write_json, write_rows

if TYPE_CHECKING:
    from stratalog.metadata.formatting.node_format import FormatPlan, NodeIdentity

__all__ = ["format_command"]

EXAMPLES: Final = """
stratalog format --random-uuid
stratalog format --config server.properties --cluster-id 4L6g3nShT-eMCtK--X86sw
stratalog format --config server.properties --cluster-id 4L6g3nShT-eMCtK--X86sw --standalone
stratalog format -c server.properties -t 4L6g3nShT-eMCtK--X86sw --feature group.version=0 --ignore-formatted
stratalog format -c server.properties -t 4L6g3nShT-eMCtK--X86sw -I 1@a:9093:JEXY6aqzQY-32P5TStzaFg,2@b:9093:MvDxzVmcRsaTz33bUuRU6A
"""


@command("format", EXAMPLES)
@click.option("-c", "--config", "path", envvar="STRATALOG_CONFIG", show_envvar=True, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False), help="Kafka's server.properties, or TOML with the same names.")  # fmt: skip
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="One setting; may be repeated.")
@click.option("-t", "--cluster-id", metavar="ID", help="The id of the cluster; the same for all of its nodes.")
@click.option("-s", "--standalone", is_flag=True, help="This controller is the first voter of a dynamic quorum, alone.")
@click.option(
    "-I", "--initial-controllers", metavar="ID@HOST:PORT:DIR,…",
    help="The first voters of a dynamic quorum with the ids of their metadata directories; the same for all nodes.",
)  # fmt: skip
@click.option(
    "-N", "--no-initial-controllers", is_flag=True, help="The voters of the dynamic quorum are known to other nodes."
)
@click.option("-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL",
              help="The level of a feature, as group.version=0; may be repeated.")  # fmt: skip
@click.option("-r", "--release-version", metavar="VERSION", help="The release whose levels the features have: 4.3.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave directories alone that are formatted already.")
@click.option("-S", "--add-scram", "scram", multiple=True, metavar="MECHANISM=[…]",
              help="A credential of the new cluster: SCRAM-SHA-256=[name=alice,password=…]; may be repeated.")  # fmt: skip
@click.option("--random-uuid", is_flag=True, help="Print a new id, for a cluster or a directory, and end.")
@json_option
@reports_errors
def format_command(
    *,
    path: str | None,
    assignments: Sequence[str],
    cluster_id: str | None,
    random_uuid: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Prepare the directories of a new node: its identity, the first records of its cluster, and the first voters.

    The options and files are those of kafka-storage format: Apache Kafka starts on directories that this command has
    formatted, and the other way round. Settings are read as serve reads them. Each directory of log.dirs and
    metadata.log.dir gets meta.properties and bootstrap.checkpoint; that of the metadata log also gets the voters of a
    dynamic quorum. No file is overwritten: a directory that is formatted, or holds anything else, is refused before
    anything is written.

    A node that is a cluster by itself need not be formatted: serve does that at its first start.
    """
    if random_uuid:
        _print_id(as_json=as_json)
        return
    if cluster_id is None:
        raise click.UsageError("Missing option '-t' / '--cluster-id'; stratalog format --random-uuid prints a new one.")
    from stratalog.broker.replicas.directory_format import format_node, identity_of
    from stratalog.broker.runtime.clock import SystemClock
    from stratalog.broker.settings.config import load_config
    from stratalog.hot.storage.filesystem import RealFilesystem
    from stratalog.metadata.formatting.node_format import FormatOptions

    config = load_config(path=path, environment=os.environ, assignments=assignments)
    wanted = FormatOptions(
        cluster_id=cluster_id,
        standalone=options["standalone"],
        initial_controllers=options["initial_controllers"],
        no_initial_controllers=options["no_initial_controllers"],
        features=tuple(options["features"]),
        release_version=options["release_version"],
        ignore_formatted=options["ignore_formatted"],
        scram=tuple(options["scram"]),
    )
    node = identity_of(config)
    plan = format_node(node, wanted, files=RealFilesystem(), now_ms=SystemClock().wall_ms())
    _tell(plan, node, cluster_id, as_json=as_json)


def _print_id(*, as_json: bool) -> None:
    from stratalog.broker.control.control_plane import new_topic_id
    from stratalog.wire.topic import uuid_text

    text = uuid_text(new_topic_id())
    if as_json:
        write_json({"id": text})
    else:
        click.echo(text)


def _tell(plan: FormatPlan, node: NodeIdentity, cluster_id: str, *, as_json: bool) -> None:
    from stratalog.metadata.formatting.feature_levels import metadata_version_name
    from stratalog.metadata.image.features import METADATA_VERSION, SUPPORTED_FEATURES
    from stratalog.wire.topic import uuid_text

    rows: list[Mapping[str, Any]] = [
        {
            "directory": one.path,
            "kind": str(one.kind),
            "cluster_id": cluster_id,
            "node_id": node.node_id,
            "directory_id": uuid_text(one.owner.directory_id),
        }
        for one in plan.directories
    ]
    for path in plan.skipped:
        note(f"{path} is already formatted; it is left as it is.")
    if not rows:
        note("All of the log directories are already formatted.")
        return
    columns = {"directory": "DIRECTORY", "kind": "KIND", "directory_id": "DIRECTORY ID"}
    write_rows(rows, columns, as_json=as_json)
    levels = ", ".join(f"{name}={level}" for name, level in sorted(plan.levels.items()) if level)
    version = metadata_version_name(plan.levels[METADATA_VERSION])
    note(f"Node {node.node_id} of cluster {cluster_id} begins with {METADATA_VERSION} {version}: {levels}.")
    newest = SUPPORTED_FEATURES[METADATA_VERSION].maximum
    if plan.levels[METADATA_VERSION] != newest:
        note(
            f"stratalog serve begins new clusters with {metadata_version_name(newest)} only: these directories are for Apache "
            "Kafka, or for a node that joins a cluster which has that level."
        )
