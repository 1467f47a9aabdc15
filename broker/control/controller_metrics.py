"""The figures of a controller, by the names of Kafka's ``KafkaController``. Those of the image stand on every controller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from stratalog.broker.control.broker_sessions import BrokerSessions
from stratalog.broker.control.cluster_index import ClusterIndex
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics

__all__ = ["Office", "add_controller_metrics"]


class Office(Protocol):
    """The replica of the metadata log, as far as figures go."""

    @property
    def is_active(self) -> bool:
        """Whether this node's controller decides."""

    @property
    def high_watermark(self) -> int:
        """The end of what is committed, as far as it is known here."""


def add_controller_metrics(
    metrics: Metrics, *, office: Office, cluster: ClusterIndex, sessions: BrokerSessions, clock: Clock
) -> None:
    """Add the figures; each costs the registered brokers at most."""

    def fenced() -> int:
        return sum(broker.is_fenced for broker in cluster.image.brokers.brokers.values())

    def lag_ms() -> int:
        applied_ms = cluster.image.provenance.timestamp_ms
        return 0 if office.is_active or applied_ms < 0 else max(0, clock.wall_ms() - applied_ms)

    gauges: dict[str, tuple[str, Callable[[], int]]] = {
        "ActiveControllerCount": ("1 where the active controller is, else 0.", lambda: int(office.is_active)),
        "ActiveBrokerCount": (
            "Registered brokers that are not fenced.",
            lambda: len(cluster.image.brokers.brokers) - fenced(),
        ),
        "FencedBrokerCount": ("Registered brokers that are fenced.", fenced),
        "GlobalTopicCount": ("Topics of the cluster.", lambda: len(cluster.image.topics.by_id)),
        "GlobalPartitionCount": ("Partitions of the cluster.", lambda: cluster.index.partition_count),
        "OfflinePartitionsCount": ("Partitions without a leader.", lambda: cluster.index.leaderless_count),
        "PreferredReplicaImbalanceCount": (
            "Partitions that another replica than the preferred one leads, or none.",
            lambda: cluster.index.not_preferred_count,
        ),
        "LastAppliedRecordOffset": ("The last record in the image.", lambda: cluster.image.provenance.offset),
        "LastAppliedRecordTimestamp": (
            "The time of the last record in the image, in milliseconds.",
            lambda: cluster.image.provenance.timestamp_ms,
        ),
        "LastAppliedRecordLagMs": (
            "The age of the last record in the image, in milliseconds; 0 on the active controller.",
            lag_ms,
        ),
        "LastCommittedRecordOffset": (
            "The last record that is known to be committed.",
            lambda: office.high_watermark - 1,
        ),
    }
    for name, (text, value) in gauges.items():
        metrics.add_gauge(_named(name), f"kafka.controller:type=KafkaController,name={name}. {text}", _one(value))
    name = "TimedOutBrokerHeartbeatCount"
    metrics.add_counter(
        _named(name),
        f"kafka.controller:type=KafkaController,name={name}: heartbeats that had no turn in time.",
        _one(lambda: sessions.timed_out_count),
    )


def _named(name: str) -> str:
    return f"kafka_controller_kafkacontroller_{name.lower()}"


def _one(value: Callable[[], int]) -> Callable[[], Iterable[tuple[Mapping[str, str], float]]]:
    return lambda: [({}, value())]
