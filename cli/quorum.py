"""``stratalog quorum``: the voters of the metadata log, how far each has come, and changes of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from stratalog.cli.command import BOOTSTRAP_DEFAULT, ExampleGroup
from stratalog.cli.output import json_option, note, reports_errors, write_json, write_rows
from stratalog.client.client import Client
from stratalog.client.quorum import Endpoint, Quorum, QuorumAdmin, QuorumReplica
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import Uuid, uuid_parse, uuid_text

if TYPE_CHECKING:
    from stratalog.broker.settings.config import BrokerConfig

__all__ = ["quorum"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

COLUMNS: Final = {
    "node": "NODE",
    "role": "ROLE",
    "log_end": "LOG END",
    "lag": "LAG",
    "fetched_ago_ms": "FETCHED",
    "caught_up_ago_ms": "CAUGHT UP",
    "directory_id": "DIRECTORY",
    "endpoints": "ADDRESS",
}

quorum = ExampleGroup(
    "quorum",
    help="Describe the quorum of the metadata log, and add and remove its controllers.",
    no_args_is_help=True,
    examples="""
    stratalog quorum describe
    stratalog quorum add-controller --config server.properties
    stratalog quorum remove-controller --controller-id 3 --controller-directory-id MvDxzVmcRsaTz33bUuRU6A
    """,
)


def quorum_options(function: Decorated) -> Decorated:
    """Add the options of a command that asks a broker or a controller."""
    for option in (
        click.option(
            "--timeout", "timeout_seconds", type=click.FloatRange(min=0.001), default=30.0, show_default=True,
            metavar="SECONDS", help="How long to wait for a connection, an answer, or an active controller.",
        ),
        click.option("--bootstrap-controller", "controllers", metavar="HOST:PORT",
                     help="Any controller of the cluster, which is asked instead of a broker."),
        click.option(
            "-b", "--bootstrap-server", "bootstrap", envvar="STRATALOG_BOOTSTRAP", default=BOOTSTRAP_DEFAULT,
            show_default=True, show_envvar=True, metavar="HOST:PORT", help="Any broker of the cluster.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


@quorum.command("describe", examples="stratalog quorum describe\nstratalog quorum describe --replication --json")
@click.option("--status", "only_status", is_flag=True, help="Only the leader, the epoch and who belongs to the quorum.")
@click.option("--replication", "only_replication", is_flag=True, help="Only how far each node has come.")
@json_option
@quorum_options
@reports_errors
def describe(
    *,
    only_status: bool,
    only_replication: bool,
    as_json: bool,
    bootstrap: str,
    controllers: str | None,
    timeout_seconds: float,
) -> None:
    """Show the leader of the metadata log, its voters and observers, and how far each of them has come.

    The leader is the active controller. LAG counts the offsets that a node has not fetched yet; FETCHED and CAUGHT UP say
    how long ago the node last fetched, and last had everything, by the clock of the leader. Observers are brokers without
    a vote, and controllers that are no voters yet.
    """
    if only_status and only_replication:
        raise click.UsageError("Give --status or --replication, or none of them for both.")
    with Client(controllers or bootstrap, timeout_seconds) as client:
        admin = QuorumAdmin(client, at_controllers=controllers is not None)
        found, cluster_id = admin.describe(), admin.cluster_id()
    rows = [_row(found, one, voter=True) for one in found.voters]
    rows += [_row(found, one, voter=False) for one in found.observers]
    if as_json and not only_replication:
        write_json(_status(found, cluster_id, rows))
        return
    if not only_replication:
        _write_status(_status(found, cluster_id, rows))
    if not only_status:
        if not as_json:
            rows = [
                row | {"fetched_ago_ms": _ago(row["fetched_ago_ms"]), "caught_up_ago_ms": _ago(row["caught_up_ago_ms"])}
                for row in rows
            ]
        write_rows(rows, COLUMNS, as_json=as_json)


def _row(quorum: Quorum, one: QuorumReplica, *, voter: bool) -> dict[str, Any]:
    leader = quorum.leader
    now_ms = -1 if leader is None else leader.caught_up_at_ms
    known = now_ms >= 0 and one.caught_up_at_ms >= 0
    role = "leader" if one.node_id == quorum.leader_id else "follower" if voter else "observer"
    return {
        "node": one.node_id,
        "role": role,
        "directory_id": None if one.directory_id is None else uuid_text(one.directory_id),
        "log_end": one.log_end_offset,
        "lag": quorum.lag(one),
        "fetched_ago_ms": quorum.silence_ms(one),
        "caught_up_ago_ms": max(now_ms - one.caught_up_at_ms, 0) if known else None,
        "fetched_at_ms": one.fetched_at_ms if one.fetched_at_ms >= 0 else None,
        "caught_up_at_ms": one.caught_up_at_ms if one.caught_up_at_ms >= 0 else None,
        "endpoints": [_text(each) for each in quorum.endpoints.get(one.node_id, ())],
    }


def _status(quorum: Quorum, cluster_id: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    followers = [row for row in rows if row["role"] == "follower"]
    return {
        "cluster_id": cluster_id,
        "leader": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "lag_max": max((row["lag"] for row in followers if row["lag"] is not None), default=0),
        "lag_max_ms": max(
            (row["caught_up_ago_ms"] for row in followers if row["caught_up_ago_ms"] is not None), default=0
        ),
        "voters": [row for row in rows if row["role"] != "observer"],
        "observers": [row for row in rows if row["role"] == "observer"],
    }


def _write_status(status: dict[str, Any]) -> None:
    told = [
        f"cluster {status['cluster_id']}",
        f"leader {status['leader']}",
        f"epoch {status['leader_epoch']}",
        f"high watermark {status['high_watermark']}",
        f"lag at most {status['lag_max']}, {status['lag_max_ms']} ms",
    ]
    click.echo("  ".join(told))
    for name in ("voters", "observers"):
        ids = ", ".join(str(row["node"]) for row in status[name])
        click.echo(f"{name} {ids or 'none'}")


def _ago(time_ms: int | None) -> str | None:
    """A span for people: ``120 ms``, ``4.2 s``, ``180 s``."""
    if time_ms is None:
        return None
    if time_ms < 1000:
        return f"{time_ms} ms"
    return f"{time_ms / 1000:.1f} s" if time_ms < 100_000 else f"{time_ms // 1000} s"


def _text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


@quorum.command(
    "add-controller",
    examples="""
    stratalog quorum add-controller --config server.properties
    stratalog quorum add-controller -c server.properties --bootstrap-controller a:9093 --dry-run
    """,
)
@click.option("-c", "--config", "path", envvar="STRATALOG_CONFIG", show_envvar=True, metavar="FILE", required=True,
              type=click.Path(exists=True, dir_okay=False), help="The configuration of the new controller.")  # fmt: skip
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="One setting; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Say what would be sent, and send nothing.")
@quorum_options
@reports_errors
def add_controller(
    *,
    path: str,
    assignments: Sequence[str],
    dry_run: bool,
    bootstrap: str,
    controllers: str | None,
    timeout_seconds: float,
) -> None:
    """Make the controller of this machine a voter of the metadata log, and wait until that is committed.

    Run it where the controller runs: its id and listeners come from its configuration, the id of its directory from
    meta.properties. It must be formatted with --no-initial-controllers, be running, and have caught up: quorum describe
    shows it as an observer without lag. Unless --bootstrap-server or --bootstrap-controller says otherwise, the controllers
    of controller.quorum.bootstrap.servers are asked.
    """
    from stratalog.broker.settings.config import load_config

    config = load_config(path=path, environment=os.environ, assignments=assignments)
    directory_id, endpoints = _directory_id(config), _endpoints(config)
    told = (
        f"controller {config.node_id} with the directory id {uuid_text(directory_id)} at "
        f"{', '.join(map(_text, endpoints))}"
    )
    if dry_run:
        note(f"Would add {told}.")
        return
    controllers = controllers or _named_controllers(config)
    with Client(controllers or bootstrap, timeout_seconds) as client:
        admin = QuorumAdmin(client, at_controllers=controllers is not None)
        admin.add_voter(config.node_id, directory_id, endpoints)
    note(f"Added {told}.")


def _named_controllers(config: BrokerConfig) -> str | None:
    """The controllers that the settings name; None where there are none, or where a broker was named to be asked."""
    source = click.get_current_context().get_parameter_source("bootstrap")
    servers = config.roles.quorum.bootstrap_servers
    if source is not ParameterSource.DEFAULT or not servers:
        return None
    return ",".join(f"[{one.host}]:{one.port}" if ":" in one.host else f"{one.host}:{one.port}" for one in servers)


def _directory_id(config: BrokerConfig) -> Uuid:
    """The id of the directory of the metadata log. Raises `Invalid` for one that is not this controller's, `Corrupt`."""
    from stratalog.hot.storage.checkpoint import read_meta_properties
    from stratalog.hot.storage.filesystem import RealFilesystem

    directory = config.metadata_log_dir
    owner = read_meta_properties(RealFilesystem(), directory)
    if owner is None:
        raise Invalid(f"{directory} has no meta.properties: run stratalog format --no-initial-controllers first")
    if owner.node_id != config.node_id:
        raise Invalid(f"{directory} belongs to node {owner.node_id}, and node.id is {config.node_id}")
    return owner.directory_id


def _endpoints(config: BrokerConfig) -> list[Endpoint]:
    """The controller listeners as others reach them. Raises `Invalid` for a node that is no controller."""
    if not config.roles.is_controller:
        raise Invalid(f"node {config.node_id} is no controller: process.roles={','.join(sorted(config.roles.roles))}")
    return [Endpoint(one.name, one.host, one.port) for one in config.told_controller_listeners]


@quorum.command(
    "remove-controller",
    examples="stratalog quorum remove-controller --controller-id 3 --controller-directory-id MvDxzVmcRsaTz33bUuRU6A",
)
@click.option("-i", "--controller-id", "node_id", type=click.IntRange(min=0), required=True, help="The node id.")
@click.option("-d", "--controller-directory-id", "directory", metavar="ID", required=True,
              help="The id of its metadata directory, as quorum describe shows it.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be sent, and send nothing.")
@quorum_options
@reports_errors
def remove_controller(
    *,
    node_id: int,
    directory: str,
    dry_run: bool,
    bootstrap: str,
    controllers: str | None,
    timeout_seconds: float,
) -> None:
    """Make a voter an observer, and wait until that is committed. The controller may be away, or gone for good.

    The majority of the voters that remain must be up. A controller that is to come back with an empty directory is removed
    under its old directory id and added again under the new one.
    """
    try:
        directory_id = uuid_parse(directory)
    except Invalid as error:
        raise Invalid(f"--controller-directory-id: {error}") from error
    told = f"controller {node_id} with the directory id {directory}"
    if dry_run:
        note(f"Would remove {told}.")
        return
    with Client(controllers or bootstrap, timeout_seconds) as client:
        QuorumAdmin(client, at_controllers=controllers is not None).remove_voter(node_id, directory_id)
    note(f"Removed {told}.")
