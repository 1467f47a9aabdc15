"""One run of a campaign: a cluster, its clients, one or two kinds of faults, and the verdict."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from bench.faults.archives import archive_faults, archived_records
from bench.faults.cleaned import COMPACTED, Cleaned
from bench.faults.faults import BUCKET, DAMAGING, disturb
from bench.faults.grouped import Grouped
from bench.faults.nodes import FaultyNodes
from bench.faults.object_store import FaultyBucket
from bench.faults.reading import Unread, read_topic
from bench.faults.replica_files import compacted_faults, dump_faults, equal_faults, read_replica
from bench.faults.rig import Rig
from bench.faults.transactional import Transactional
from bench.faults.workloads import TIERED, Plain, Workload
from stratalog.broker.embedded import LoopThread
from stratalog.broker.local_cluster.cluster import ClusterFault
from stratalog.client.client import BrokerAway, Client
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["WORKLOADS", "Run", "run"]

WORKLOADS: Final[Mapping[str, Callable[[str, random.Random], Workload]]] = {
    "plain": Plain,
    "transactions": Transactional,
    "groups": Grouped,
    "cleaning": Cleaned,
    "tiered": lambda bootstrap, dice: Plain(bootstrap, dice, name="tiered", config=TIERED),
}
_INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
_SYNC_SECONDS: Final = 120.0
_END_SECONDS: Final = 300.0
_QUIET_SECONDS: Final = 1.5


@dataclass
class Cell:
    """One workload in one run."""

    acknowledged: int = 0
    longest_gap_seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


@dataclass
class Run:
    """The outcome of one run."""

    faults: str
    seed: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    cells: dict[str, Cell] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    """Those of no workload: nodes, replicas, archive."""
    damage: list[str] = field(default_factory=list)
    """Flipped bits that no read has met."""

    @property
    def all_violations(self) -> list[str]:
        """Those of all."""
        return [*self.violations, *(f"{name}: {one}" for name, cell in self.cells.items() for one in cell.violations)]


def run(
    folder: Path,
    faults: str,
    workloads: Sequence[str],
    *,
    seed: int,
    seconds: float,
    count: int,
    settings: Mapping[str, str],
    say: Callable[[str], None],
) -> Run:
    """One run below ``folder``. Raises `ClusterFault` if its cluster cannot begin."""
    outcome = Run(faults, seed, seconds, cells={name: Cell() for name in workloads})
    dice = random.Random(f"{seed} {faults}")
    loop = LoopThread()
    bucket = FaultyBucket(folder) if BUCKET in faults.split("+") else None
    settings = settings if bucket is None else {**settings, **bucket.settings}
    nodes = FaultyNodes(folder, loop, count=count, settings=settings)
    rig = Rig(nodes, say=say, bucket=bucket)
    try:
        nodes.start()
        nodes.wait_ready()
        clients = {name: WORKLOADS[name](nodes.bootstrap, random.Random(dice.random())) for name in workloads}
        for client in clients.values():
            client.start()
        _disturbed(rig, faults.split("+"), dice, seconds)
        _mended(rig, outcome)
        _ended(rig, clients, outcome)
        _read(rig, clients, outcome)
        _stopped(rig, clients, outcome)
    finally:
        for node_id in nodes.node_ids:
            nodes.signal(node_id, signal.SIGCONT)
        nodes.discard()
        loop.close()
        if bucket is not None:
            bucket.close()
    outcome.counts = dict(rig.counts)
    return outcome


def _disturbed(rig: Rig, names: Sequence[str], dice: random.Random, seconds: float) -> None:
    """Faults for so long; all of them are mended when it returns."""
    threads = [
        threading.Thread(target=disturb, args=(rig, name, random.Random(dice.random())), name=name)
        for name in names
        if name != "none"
    ]
    rig.until_in_sync(30)
    for thread in threads:
        thread.start()
    timer = threading.Timer(seconds, rig.over.set)
    timer.start()
    rig.over.wait()
    for thread in threads:
        thread.join()


def _mended(rig: Rig, outcome: Run) -> None:
    """All nodes run, and all replicas are in sync again."""
    rig.say("mended")
    for node_id in rig.nodes.until_running():
        outcome.violations.append(f"node {node_id} does not serve a minute after the last fault")
    if not rig.until_in_sync(_SYNC_SECONDS):
        found = rig.partitions_out_of_sync()
        shown = "no broker answers" if found is None else f"{len(found)} partitions: {found[:5]}"
        outcome.violations.append(f"not all replicas are in sync {_SYNC_SECONDS:g} s after the last fault: {shown}")


def _ended(rig: Rig, clients: Mapping[str, Workload], outcome: Run) -> None:
    """All clients have ended; each says by itself if it could not."""
    rig.say("in sync")

    def end(name: str, client: Workload) -> None:
        cell = outcome.cells[name]
        try:
            cell.violations += client.end()
        except Exception as error:  # noqa: BLE001 - whatever a client raises says that it did not end in order
            cell.violations.append(f"its clients did not end in order: {error!r}")
        cell.acknowledged, cell.longest_gap_seconds = client.told.count, client.told.longest_gap_seconds

    threads = [threading.Thread(target=end, args=one, daemon=True) for one in clients.items()]
    for thread in threads:
        thread.start()
    for name, thread in zip(clients, threads, strict=True):
        thread.join(_END_SECONDS)
        if thread.is_alive():
            outcome.cells[name].violations.append(f"its clients have not ended {_END_SECONDS:g} s after the last fault")
        rig.say(f"{name} has ended")


def _read(rig: Rig, clients: Mapping[str, Workload], outcome: Run) -> None:
    """Every workload judges its topics through the brokers."""
    rig.say("read")
    for name, client in clients.items():
        try:
            outcome.cells[name].violations += client.faults()
        except (KafkaException, Unread) as error:
            outcome.cells[name].violations.append(f"its topics cannot be read: {error}")
    outcome.violations += rig.problems
    if "tiered" in clients:
        _archived(rig, outcome)


def _archived(rig: Rig, outcome: Run) -> None:
    url, endpoint = f"file://{rig.nodes.directory}/bucket", None
    if rig.bucket is not None:
        url, endpoint = rig.bucket.url, rig.bucket.endpoint
    try:
        read, _, _ = read_topic(rig.nodes.bootstrap, "tiered", 3)
    except Unread as error:
        outcome.cells["tiered"].violations.append(str(error))
        return
    count, faults = archived_records(url, "tiered", read, endpoint)
    rig.counts["records archived"] += count
    rig.counts["refused claims"] += rig.nodes.sum_of("stratalog_tier_refused_claims_total")
    outcome.cells["tiered"].violations += [*faults, *archive_faults(url, endpoint)]


def _stopped(rig: Rig, clients: Mapping[str, Workload], outcome: Run) -> None:
    """All nodes stop in order, and their files are compared."""
    rig.say("stop")
    topics = {topic: count for client in clients.values() for topic, count in client.topics.items()}
    topics |= {name: 3 for name in _INTERNAL if any(rig.nodes.data(1).glob(f"{name}-*"))}
    places = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
    threading.Event().wait(_QUIET_SECONDS)
    marks: dict[TopicPartition, int] = {}
    try:
        with Client(rig.nodes.bootstrap) as client:
            marks = {place: row.offset for place, row in client.list_offsets(dict.fromkeys(places, -1)).items()}
    except (BrokerAway, KafkaError) as error:
        outcome.violations.append(f"the high watermarks are not known: {error}")
    threading.Event().wait(_QUIET_SECONDS)
    for node_id in rig.nodes.node_ids:
        rig.nodes.note_end(node_id)
        if node_id in rig.nodes.running:
            try:
                rig.nodes.stop_in_order(node_id)
            except ClusterFault as failed:
                outcome.violations.append(str(failed))
    outcome.violations += rig.nodes.ended_alone
    for place in places:
        _compared(rig, place, marks.get(place, 0), outcome)


def _compared(rig: Rig, place: TopicPartition, high_watermark: int, outcome: Run) -> None:
    name = f"{place.topic}-{place.partition}"
    found = {node_id: rig.nodes.data(node_id) / name for node_id in rig.nodes.node_ids}
    replicas = {node_id: read_replica(path) for node_id, path in found.items() if path.is_dir()}
    damage = [f"node {node_id}: {one}" for node_id, replica in replicas.items() for one in replica.damage]
    may_be_damaged = bool(DAMAGING & set(outcome.faults.split("+")))
    if damage and may_be_damaged:
        outcome.damage += damage
        replicas = {node_id: replica for node_id, replica in replicas.items() if not replica.damage}
    else:
        outcome.violations += damage
    if not replicas:
        outcome.violations.append(f"{name}: no node has it whole")
        return
    is_compacted = place.topic in {COMPACTED, *_INTERNAL}
    compare = compacted_faults if is_compacted else equal_faults
    outcome.violations += compare(name, replicas, high_watermark)
    for node_id in replicas:
        outcome.violations += dump_faults(found[node_id])
