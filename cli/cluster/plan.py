"""The plan of a rebalance: what the brokers tell goes in, and moves with their bytes, time and leaders come out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click
from msgspec import Struct

from stratalog.cli.output import NotFoundError, bytes_text, note, write_rows
from stratalog.client.client import Client, Partition, Topic
from stratalog.client.cluster import Broker, describe_cluster
from stratalog.client.copy_sizes import CopySize, copy_sizes
from stratalog.client.reassignments import Reassignment, list_reassignments
from stratalog.metadata.balancing.moves import Move, traffic
from stratalog.metadata.balancing.replica_planner import Placed, plan_moves
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = ["Factor", "Plan", "make_plan", "partitions_of", "plan_document", "write_plan"]

LISTED_MAX = 20
_LOOK_SECONDS: Final = 0.4
_LOOKS: Final = 10
COLUMNS = {
    "broker": "BROKER",
    "rack": "RACK",
    "state": "STATE",
    "replicas": "REPLICAS",
    "replicas_after": "THEN",
    "leads": "LEADS",
    "leads_after": "THEN",
    "receives": "RECEIVES",
    "sends": "SENDS",
}


class Plan(Struct, frozen=True):
    """The moves still to make, in their order, and the cluster as it is before them."""

    moves: tuple[Move, ...]
    brokers: tuple[Broker, ...]
    leaving: frozenset[int]
    present: Mapping[TopicPartition, tuple[int, ...]]
    """The replicas of all partitions; of those that are being moved, the replicas in the end."""
    leaders: Mapping[TopicPartition, int]
    unknown: frozenset[TopicPartition]
    """Partitions that move, and whose size no broker has told."""
    running: Mapping[TopicPartition, Reassignment]

    def after(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replicas of all partitions in the end."""
        return {**self.present, **{move.partition: move.target for move in self.moves}}


class Factor(NamedTuple):
    """How many replicas the partitions of these topics have in the end; of all topics if none is named."""

    replicas: int
    topics: tuple[str, ...] = ()


def make_plan(
    client: Client,
    *,
    leaving: Collection[int],
    only: Collection[int] | None,
    spread: bool,
    factor: Factor | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> Plan:
    """Plan for the cluster as it is now; with ``only``, all other brokers leave. Raises `KafkaError`, `NotFoundError`, `Invalid`."""
    cluster = describe_cluster(client)
    earlier = list_reassignments(client)
    topics, parts = _steady_topics(client, sleep)
    registered = {one.node_id: one for one in cluster.brokers}
    holding = {broker for part in parts.values() for broker in part.replicas}
    for broker in sorted({*leaving, *(only or ())}):
        if broker not in registered and broker not in holding:
            raise NotFoundError(f"no broker {broker} is registered, and no partition has a replica on it")
    leaving = set(leaving) | ({*registered, *holding}.difference(only) if only is not None else set())
    receivers = {one for one, broker in registered.items() if not broker.is_fenced and one not in leaving}
    if not receivers:
        raise Invalid("no broker that is active would be left to hold replicas")
    running = list_reassignments(client)
    present = {one: _in_the_end(part.replicas, running.get(one), earlier.get(one)) for one, part in parts.items()}
    sizes, unknown = copy_sizes(client, topics)
    placed = {one: Placed(replicas, sizes.get(one, CopySize(0)).from_peer) for one, replicas in present.items()}
    racks = {broker: registered[broker].rack if broker in registered else None for broker in {*registered, *holding}}
    factors = {} if factor is None else _factors(factor, parts)
    targets = plan_moves(placed, racks, receivers=receivers, leaving=leaving, spread=spread, factors=factors)
    moves = []
    for one, target in sorted(targets.items()):
        adding = running[one].adding if one in running else ()
        held = tuple(broker for broker in parts[one].replicas if broker not in adding)
        size = sizes.get(one, CopySize(0))
        moves.append(Move(one, held, target, parts[one].leader, size.from_peer, size.archived))
    return Plan(
        tuple(moves),
        cluster.brokers,
        frozenset(leaving),
        present,
        {one: part.leader for one, part in parts.items()},
        frozenset(move.partition for move in moves if move.adding and move.partition in unknown),
        running,
    )


def _steady_topics(
    client: Client, sleep: Callable[[float], object]
) -> tuple[list[Topic], dict[TopicPartition, Partition]]:
    """The topics, when two looks in succession show the same replicas, or after many looks.

    The list of moves is the controller's. Brokers follow it a moment later: a move that has just ended, which the list has no
    more, is in their Metadata still, with the replicas of both its ends.
    """
    topics = client.refresh()
    parts = partitions_of(topics)
    for _ in range(_LOOKS):
        sleep(_LOOK_SECONDS)
        before, topics = parts, client.refresh()
        parts = partitions_of(topics)
        if {one: part.replicas for one, part in before.items()} == {one: part.replicas for one, part in parts.items()}:
            break
    return topics, parts


def _in_the_end(
    replicas: tuple[int, ...], running: Reassignment | None, earlier: Reassignment | None
) -> tuple[int, ...]:
    """The replicas of a partition when its move has ended.

    A move that ``earlier`` tells of may end between the answers of Metadata and of the list of moves. Metadata then has the
    replicas of both its ends, which must not be taken for its replication factor.
    """
    if running is not None:
        return running.target
    return earlier.target if earlier is not None and replicas == earlier.replicas else replicas


def _factors(factor: Factor, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    for name in sorted(set(factor.topics).difference(one.topic for one in partitions)):
        raise NotFoundError(f"topic {name!r} does not exist")
    return {one: factor.replicas for one in partitions if not factor.topics or one.topic in factor.topics}


def partitions_of(topics: Sequence[Topic]) -> dict[TopicPartition, Any]:
    """The partitions of topics by name."""
    return {TopicPartition(topic.name, part.partition): part for topic in topics for part in topic.partitions}


def plan_document(plan: Plan, throttle: int | None) -> dict[str, Any]:
    """The plan as JSON."""
    flow = traffic(plan.moves)
    return {
        "partitions": len(plan.moves),
        "replicas": sum(len(move.adding) for move in plan.moves),
        "bytes_from_peers": flow.total_bytes,
        "bytes_that_stay_in_bucket": sum(move.archived_bytes * len(move.adding) for move in plan.moves),
        "busiest_broker_bytes": flow.busiest_bytes,
        "throttle_bytes_per_second": throttle,
        "seconds": None if throttle is None else round(flow.seconds_at(throttle), 1),
        "running_before": len(plan.running),
        "unknown_sizes": sorted(map(str, plan.unknown)),
        "brokers": _broker_rows(plan),
        "moves": [
            {
                "partition": str(move.partition),
                "replicas": list(move.replicas),
                "target": list(move.target),
                "leader": move.leader if move.leader >= 0 else None,
                "bytes_from_peer": move.copy_bytes,
                "bytes_in_bucket": move.archived_bytes,
            }
            for move in plan.moves
        ],
    }


def write_plan(plan: Plan, throttle: int | None) -> None:
    """The plan as a table of brokers, and the first of its moves."""
    said = plan_document(plan, throttle)
    rows = [row | {name: bytes_text(row[name]) for name in ("receives", "sends")} for row in said["brokers"]]
    write_rows(rows, COLUMNS, as_json=False)
    if not plan.moves:
        click.echo("nothing to move")
        return
    click.echo(
        f"partitions that change: {said['partitions']}  new replicas: {said['replicas']}  "
        f"from peers: {bytes_text(said['bytes_from_peers'])}  stays in the bucket: {bytes_text(said['bytes_that_stay_in_bucket'])}"
    )
    if throttle is not None:
        click.echo(f"at {bytes_text(throttle)} a second: at least {said['seconds']} s")
    for move in plan.moves[:LISTED_MAX]:
        size = f"  {bytes_text(move.copy_bytes)} each" if move.adding else "  another order, nothing is copied"
        click.echo(f"  {move.partition}  {_ids(move.replicas)} -> {_ids(move.target)}{size}")
    if len(plan.moves) > LISTED_MAX:
        click.echo(f"  and {len(plan.moves) - LISTED_MAX} more; --json lists them")
    if plan.unknown:
        some = ", ".join(map(str, sorted(plan.unknown)[:LISTED_MAX]))
        note(f"The leaders of {len(plan.unknown)} partitions that move told no size, which counts as 0: {some}.")


def _broker_rows(plan: Plan) -> list[dict[str, Any]]:
    flow, after = traffic(plan.moves), plan.after()
    held = Counter(broker for replicas in plan.present.values() for broker in replicas)
    holds = Counter(broker for replicas in after.values() for broker in replicas)
    leads, will_lead = Counter(plan.leaders.values()), Counter(replicas[0] for replicas in after.values())
    known = {one.node_id: one for one in plan.brokers}
    rows = []
    for broker in sorted({*known, *held}):
        registered = known.get(broker)
        state = "absent" if registered is None else "fenced" if registered.is_fenced else "active"
        rows.append(
            {
                "broker": broker,
                "rack": registered.rack if registered else None,
                "state": "leaving" if broker in plan.leaving and state == "active" else state,
                "replicas": held[broker],
                "replicas_after": holds[broker],
                "leads": leads[broker],
                "leads_after": will_lead[broker],
                "receives": flow.received.get(broker, 0),
                "sends": flow.sent.get(broker, 0),
            }
        )
    return rows


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
