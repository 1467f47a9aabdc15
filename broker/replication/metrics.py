"""Figures of replicas for ``/metrics``, under the names that Kafka's MBeans get from the usual JMX exporter."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP, FreshFigures
from stratalog.broker.runtime.metrics import Metrics
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import TopicImage
from stratalog.wire.topic import TopicPartition

if TYPE_CHECKING:  # a broker by itself copies nothing, and does not load it
    from stratalog.broker.replication.replication import Replication

__all__ = ["add_replica_figures"]

_MANAGER: Final = "kafka_server_replicamanager_"
_MBEAN: Final = "kafka.server:type=ReplicaManager,name="


class _Counts(NamedTuple):
    """The partitions of a broker."""

    partitions: int = 0
    led: int = 0
    under_replicated: int = 0
    """Led, with fewer in sync than there are replicas; those that a reassignment adds do not count, as in Kafka."""
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0
    """Led, with replicas that a reassignment adds and that are not in sync yet."""
    offline: int = 0
    """Hosted on a directory that has failed."""
    max_lag: int = 0
    """Offsets that the copy furthest behind lacks of what its leader said to be committed."""


def _counted(table: PartitionTable, image: Callable[[], ClusterImage]) -> Generator[None, None, _Counts]:
    led = under = below = exactly = reassigning = offline = lag = 0
    topics = image().topics.by_name
    for number, unified in enumerate(list(table)):
        if number % LOOKS_A_STEP == 0:
            yield
        leader, follower = unified.partition.leader, unified.partition.follower
        offline += unified.partition.directory.offline is not None
        if leader is not None:
            state = leader.state
            led += 1
            if len(state.in_sync) < len(state.replicas):  # few, so that the image is asked for few
                adding = _adding(topics, unified.topic_partition)
                reassigning += bool(adding)
                under += len(state.in_sync) < len(set(state.replicas).difference(adding))
            below += not state.enough_in_sync
            exactly += len(state.in_sync) == min(state.min_insync_replicas, len(state.replicas))
        elif follower is not None:
            lag = max(lag, follower.lag)
    return _Counts(len(table), led, under, below, exactly, reassigning, offline, lag)


def _adding(topics: Mapping[str, TopicImage], name: TopicPartition) -> tuple[int, ...]:
    """The replicas that a reassignment adds to a partition."""
    topic = topics.get(name.topic)
    found = None if topic is None else topic.partitions.get(name.partition)
    return () if found is None else found.adding_replicas


def _sample(counts: Callable[[], _Counts], figure: Callable[[_Counts], int]) -> list[tuple[dict[str, str], float]]:
    return [({}, figure(counts()))]


def add_replica_figures(
    metrics: Metrics,
    table: PartitionTable,
    replication: Replication | None,
    clock: Clock,
    image: Callable[[], ClusterImage],
) -> None:
    """Show how many partitions are hosted, led, and short of replicas; ``replication`` has the changes of in-sync sets."""
    counts = FreshFigures(metrics, partial(_counted, table, image), clock).get
    gauges: dict[str, tuple[str, Callable[[_Counts], int]]] = {
        "partitioncount": ("PartitionCount", lambda one: one.partitions),
        "leadercount": ("LeaderCount", lambda one: one.led),
        "underreplicatedpartitions": ("UnderReplicatedPartitions", lambda one: one.under_replicated),
        "underminisrpartitioncount": ("UnderMinIsrPartitionCount", lambda one: one.under_min_isr),
        "atminisrpartitioncount": ("AtMinIsrPartitionCount", lambda one: one.at_min_isr),
        "reassigningpartitions": ("ReassigningPartitions", lambda one: one.reassigning),
        "offlinereplicacount": ("OfflineReplicaCount", lambda one: one.offline),
    }
    for name, (mbean, figure) in gauges.items():
        metrics.add_gauge(f"{_MANAGER}{name}", f"{_MBEAN}{mbean}.", partial(_sample, counts, figure))
    if replication is None:
        return
    metrics.add_gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag: offsets that the copy furthest behind lacks.",
        lambda: [({"clientId": "Replica"}, counts().max_lag)],
    )
    replication.leader_throttle.add_figure(metrics, "LeaderReplication", clock.monotonic)
    replication.follower_throttle.add_figure(metrics, "FollowerReplication", clock.monotonic)
    asks = replication.asking
    metrics.add_counter(f"{_MANAGER}isrexpands", f"{_MBEAN}IsrExpandsPerSec.", lambda: [({}, asks.expansions)])
    metrics.add_counter(f"{_MANAGER}isrshrinks", f"{_MBEAN}IsrShrinksPerSec.", lambda: [({}, asks.shrinkings)])
