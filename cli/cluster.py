"""``stratalog cluster``: the nodes of a cluster, what each does, and whether anything is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from stratalog.cli.command import broker_options, command
from stratalog.cli.output import ExitCode, json_option, note, reports_errors, write_json, write_rows
from stratalog.client.client import BrokerTimeout, Client, Topic
from stratalog.client.cluster import Cluster, FeatureLevels, describe_cluster, describe_features
from stratalog.client.commands import NO_CONTROLLER_CODES
from stratalog.client.quorum import Quorum, QuorumAdmin
from stratalog.wire.errors import KafkaError

__all__ = ["cluster"]

SILENT_FROM_MS: Final = 10_000
"""A voter fetches every half second; one that has not for this long is away, or cannot reach the leader."""
NAMED_MAX: Final = 20
"""Partitions without a leader that are named; the others are counted."""
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


@command("cluster", "stratalog cluster\nstratalog cluster --json")
@json_option
@broker_options
@reports_errors
def cluster(*, as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Show the nodes of the cluster: their roles, states and addresses, the partitions they lead, the metadata quorum.

    STATE is active, fenced (a broker that serves no clients: it is away, starting, or cannot reach the active
    controller) or silent (a controller that has not fetched the metadata log for 10 s, or not at all since the active one
    was elected). QUORUM is leader, voter or
    observer; LAG counts the offsets of the metadata log that a node does not have yet.

    A partition with replicas that are not in sync is named, too.

    Exit code 0: healthy; 4: not healthy, and stderr says what is wrong, a sentence each.
    """
    with Client(bootstrap, timeout_seconds) as client:
        brokers, topics = describe_cluster(client), client.refresh()
        quorum, features = _quorum(client), describe_features(client)
    leaderless = [f"{one.name}-{part.partition}" for one in topics for part in one.partitions if part.leader < 0]
    short = [
        f"{one.name}-{part.partition}"
        for one in topics
        for part in one.partitions
        if len(part.in_sync) < len(part.replicas)
    ]
    rows = _rows(brokers, quorum, topics)
    faults = [*_faults(rows, quorum, leaderless), *_short_of_replicas(short)]
    if as_json:
        write_json(
            _document(brokers, quorum, rows, leaderless, features)
            | {"under_replicated": short}
            | {"healthy": not faults, "faults": faults}
        )
    else:
        _write(brokers, quorum, rows, leaderless, features)
    for fault in faults:
        note(fault)
    if not brokers.names_fenced:
        note(f"The broker at {bootstrap} does not tell which brokers are fenced: those are missing.")
    if faults:
        raise SystemExit(int(ExitCode.UNHEALTHY))


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
    observers = {one.node_id: one for one in quorum.observers}
    leads = Counter(part.leader for one in topics for part in one.partitions)
    rows = []
    for node_id in sorted({*brokers, *voters, *observers}):
        broker, replica = brokers.get(node_id), voters.get(node_id) or observers.get(node_id)
        is_controller = node_id in voters or broker is None
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
                "roles": [name for name, has in (("broker", broker), ("controller", is_controller)) if has],
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


def _faults(rows: Sequence[Mapping[str, Any]], quorum: Quorum, leaderless: Sequence[str]) -> list[str]:
    """The things that are wrong, a sentence each; empty for a healthy cluster."""
    faults = []
    if quorum.leader_id < 0:
        faults.append("No controller is active: a majority of the voters must be up and reach each other.")
    for row in rows:
        node_id = row["node"]
        if row["state"] == "fenced":
            faults.append(
                f"Broker {node_id} is fenced: it is away, starting, or cannot reach the active controller. Start it, and "
                "read its log."
            )
        elif row["state"] == "silent":
            heard = row["silence_ms"]
            since = "has not fetched the metadata log since the active controller was elected"
            if heard is not None:
                since = f"last fetched the metadata log {heard // 1000} s ago"
            faults.append(
                f"Node {node_id} {since}: it is away, or cannot reach the active controller {quorum.leader_id}."
            )
    if leaderless:
        more = f" and {len(leaderless) - NAMED_MAX} more" if len(leaderless) > NAMED_MAX else ""
        count = "1 partition has" if len(leaderless) == 1 else f"{len(leaderless)} partitions have"
        faults.append(
            f"{count} no leader, because no broker that has its records is active: "
            f"{', '.join(leaderless[:NAMED_MAX])}{more}."
        )
    return faults


def _short_of_replicas(short: Sequence[str]) -> list[str]:
    """The sentence about partitions with fewer in-sync replicas than they have."""
    if not short:
        return []
    more = f" and {len(short) - NAMED_MAX} more" if len(short) > NAMED_MAX else ""
    count = "1 partition has" if len(short) == 1 else f"{len(short)} partitions have"
    named = f"{', '.join(short[:NAMED_MAX])}{more}"
    why = "Their brokers are away, or have not caught up yet; topic describe shows which."
    return [f"{count} replicas that are not in sync: {named}. {why}"]


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
) -> None:
    click.echo(f"cluster {cluster.cluster_id}  controller {quorum.leader_id}  epoch {quorum.leader_epoch}")
    write_rows(rows, COLUMNS, as_json=False)
    click.echo(f"partitions without a leader: {len(leaderless)}")
    levels = ", ".join(f"{name} {_level(name, each)}" for name, each in features.items())
    click.echo(f"features: {levels or 'not told'}")


def _level(name: str, levels: FeatureLevels) -> str:
    from stratalog.metadata.formatting.feature_levels import metadata_version_name

    if name == METADATA_VERSION:
        return f"{levels.level} ({metadata_version_name(levels.level)})"
    return str(levels.level)
