"""``stratalog cluster``: the nodes of a cluster, what each does, and whether anything is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from click.core import ParameterSource

from stratalog.cli.cluster.faults import (
    NAMED_MAX,
    SILENT_FROM_MS,
    disk_faults,
    leader_faults,
    node_faults,
    replica_faults,
)
from stratalog.cli.command import LazyGroup, LazyPath, broker_options
from stratalog.cli.output import ExitCode, json_option, note, reports_errors, write_json, write_rows
from stratalog.client.client import BrokerTimeout, Client, Topic
from stratalog.client.cluster import Cluster, FeatureLevels, describe_cluster, describe_features
from stratalog.client.commands import NO_CONTROLLER_CODES
from stratalog.client.full_disks import full_disks
from stratalog.client.out_of_sync import ClusterState, OutOfSync, copies_to_ask, out_of_sync
from stratalog.client.quorum import Quorum, QuorumAdmin
from stratalog.client.reassignments import list_reassignments
from stratalog.client.replica_ends import ends_of_copies
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from stratalog.wire.topic import TopicPartition

__all__ = ["cluster"]

COMMANDS: Final = {
    "rebalance": LazyPath(
        "stratalog.cli.cluster.rebalance", "rebalance", "Spread replicas and leaders evenly over brokers and racks."
    ),
    "decommission": LazyPath(
        "stratalog.cli.cluster.rebalance", "decommission", "Move everything off brokers that are to go."
    ),
}
LISTED_MAX: Final = 1000
"""Replicas and partitions that --json lists; the others are counted. So many replicas are asked how far they are behind."""
WITHOUT_LEADER: Final = Quorum(leader_id=-1, leader_epoch=-1, high_watermark=-1, voters=(), observers=(), endpoints={})
METADATA_VERSION: Final = "metadata.version"
COLUMNS: Final = {
    "node": "NODE",
    "roles": "ROLES",
    "state": "STATE",
    "rack": "RACK",
    "address": "ADDRESS",
    "leads": "LEADS",
    "quorum": "QUORUM",
    "lag": "LAG",
}


@click.group(
    "cluster",
    cls=LazyGroup,
    lazy=COMMANDS,
    invoke_without_command=True,
    examples="""
    stratalog cluster
    stratalog cluster --json
    stratalog cluster rebalance --dry-run
    stratalog cluster decommission 3 --execute --throttle 50MiB
    """,
)
@json_option
@broker_options
@click.pass_context
@reports_errors
def cluster(context: click.Context, *, as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Show the nodes of the cluster: their roles, states and addresses, the partitions they lead, the metadata quorum.

    STATE is active, fenced (a broker that serves no clients: it is away, starting, or cannot reach the active
    controller) or silent (a controller that has not fetched the metadata log for 10 s, or not at all since the active one
    was elected). ROLES is - for an observer that is no registered broker, one that was unregistered for instance. QUORUM is
    leader, voter or observer; LAG counts the offsets of the metadata log that a node does not have yet.

    Replicas that are not in sync are named with their broker and the reason: it is fenced, the log directory is offline,
    the copy is so many records behind. Replicas that a reassignment adds are counted apart. A full disk is named, too: its broker
    refuses records.

    Exit code 0: healthy; 4: not healthy, and stderr says what is wrong, a sentence each.
    """
    if context.invoked_subcommand is not None:
        if any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in context.params):
            raise click.UsageError(f"Options go behind the command: stratalog cluster {context.invoked_subcommand} …")
        return
    _show(bootstrap, timeout_seconds, as_json=as_json)


def _show(bootstrap: str, timeout_seconds: float, *, as_json: bool) -> None:
    with Client(bootstrap, timeout_seconds) as client:
        brokers, topics = describe_cluster(client), client.refresh()
        quorum, features = _quorum(client), describe_features(client)
        state = _state(client, brokers, topics, quorum)
        ends = ends_of_copies(client, copies_to_ask(state, LISTED_MAX))
        full = full_disks(client, [one.node_id for one in brokers.brokers if not one.is_fenced])
    leaderless = [f"{one.name}-{part.partition}" for one in topics for part in one.partitions if part.leader < 0]
    short = state.short()
    moving = len(state.reassignments) if quorum.leader_id >= 0 else None
    late = out_of_sync(state, ends)
    rows = _rows(brokers, quorum, topics)
    faults = [*node_faults(rows, quorum), *leader_faults(leaderless), *disk_faults(full), *replica_faults(late)]
    if as_json:
        write_json(
            _document(brokers, quorum, rows, leaderless, features)
            | _replica_figures(short, late, moving)
            | {"healthy": not faults, "faults": faults}
        )
    else:
        _write(brokers, quorum, rows, leaderless, features, (len(short), moving))
    for fault in faults:
        note(fault)
    if not brokers.names_fenced:
        note(f"The broker at {bootstrap} does not tell which brokers are fenced: those are missing.")
    if faults:
        raise SystemExit(int(ExitCode.UNHEALTHY))


def _state(client: Client, brokers: Cluster, topics: Sequence[Topic], quorum: Quorum) -> ClusterState:
    """Without an active controller no broker tells which reassignments run."""
    lists_moves = quorum.leader_id >= 0 and client.serves(ListPartitionReassignmentsRequest)
    return ClusterState(
        topics,
        registered={one.node_id for one in brokers.brokers},
        fenced={one.node_id for one in brokers.brokers if one.is_fenced},
        reassignments=list_reassignments(client) if lists_moves else {},
    )


def _replica_figures(
    short: Mapping[TopicPartition, object], late: Sequence[OutOfSync], moving: int | None
) -> dict[str, Any]:
    return {
        "under_replicated_partitions": len(short),
        "under_replicated": [str(one) for one in list(short)[:LISTED_MAX]],
        "out_of_sync": [
            {
                "partition": str(one.copy.partition),
                "broker": one.copy.broker,
                "why": one.why.value,
                "records_behind": one.records_behind,
            }
            for one in late[:LISTED_MAX]
        ],
        "reassigning_partitions": moving,
    }


def _quorum(client: Client) -> Quorum:
    """The quorum; one without leader and nodes while no controller is active. Raises `KafkaError`."""
    try:
        return QuorumAdmin(client).describe()
    except BrokerTimeout:
        return WITHOUT_LEADER
    except KafkaError as error:
        if error.code not in NO_CONTROLLER_CODES:
            raise
        return WITHOUT_LEADER


def _rows(cluster: Cluster, quorum: Quorum, topics: Sequence[Topic]) -> list[dict[str, Any]]:
    """A row for each node that is a broker or belongs to the quorum, by id."""
    brokers = {one.node_id: one for one in cluster.brokers}
    voters = {one.node_id: one for one in quorum.voters}
    # With a new metadata directory a node is another observer, beside the one it was, until the leader forgets that.
    observers = {one.node_id: one for one in sorted(quorum.observers, key=lambda one: one.fetched_at_ms)}
    leads = Counter(part.leader for one in topics for part in one.partitions)
    rows = []
    for node_id in sorted({*brokers, *voters, *observers}):
        broker, replica = brokers.get(node_id), voters.get(node_id) or observers.get(node_id)
        is_controller = node_id in {*voters, *quorum.endpoints, quorum.leader_id}
        roles = [name for name, has in (("broker", broker), ("controller", is_controller)) if has]
        silence_ms = None if replica is None else quorum.silence_ms(replica)
        # A leader has heard every voter that is up within a second of its election, and forgets none.
        unheard = node_id in voters and quorum.is_unheard(voters[node_id])
        silent = unheard or (silence_ms is not None and silence_ms >= SILENT_FROM_MS)
        if broker is not None:
            at: tuple[str, int] | None = (broker.host, broker.port)
            state = "fenced" if broker.is_fenced else "silent" if silent else "active"
        else:
            at = next(((one.host, one.port) for one in quorum.endpoints.get(node_id, ())), None)
            state = "silent" if silent else "active"
        rows.append(
            {
                "node": node_id,
                "roles": roles,
                "state": state,
                "rack": broker.rack if broker else None,
                "address": None if at is None else _address(*at),
                "leads": leads[node_id],
                "quorum": None if replica is None else _place(node_id, quorum, voters),
                "lag": None if replica is None else quorum.lag(replica),
                "silence_ms": silence_ms,
            }
        )
    return rows


def _place(node_id: int, quorum: Quorum, voters: Mapping[int, object]) -> str:
    return "leader" if node_id == quorum.leader_id else "voter" if node_id in voters else "observer"


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _document(
    cluster: Cluster,
    quorum: Quorum,
    rows: Sequence[Mapping[str, Any]],
    leaderless: Sequence[str],
    features: Mapping[str, FeatureLevels],
) -> dict[str, Any]:
    return {
        "cluster_id": cluster.cluster_id,
        "controller": quorum.leader_id,
        "controller_epoch": quorum.leader_epoch,
        "nodes": list(rows),
        "partitions_without_leader": len(leaderless),
        "without_leader": list(leaderless[:NAMED_MAX]),
        "features": {name: each._asdict() for name, each in features.items()},
    }


def _write(
    cluster: Cluster,
    quorum: Quorum,
    rows: Sequence[Mapping[str, Any]],
    leaderless: Sequence[str],
    features: Mapping[str, FeatureLevels],
    counts: tuple[int, int | None],
) -> None:
    click.echo(f"cluster {cluster.cluster_id}  controller {quorum.leader_id}  epoch {quorum.leader_epoch}")
    write_rows([{**row, "roles": row["roles"] or None} for row in rows], COLUMNS, as_json=False)
    short, moving = counts
    click.echo(
        f"partitions without a leader: {len(leaderless)}  under-replicated: {short}  "
        f"reassigning: {'not told' if moving is None else moving}"
    )
    levels = ", ".join(f"{name} {_level(name, each)}" for name, each in features.items())
    click.echo(f"features: {levels or 'not told'}")


def _level(name: str, levels: FeatureLevels) -> str:
    from stratalog.metadata.formatting.feature_levels import metadata_version_name

    if name == METADATA_VERSION:
        return f"{levels.level} ({metadata_version_name(levels.level)})"
    return str(levels.level)
