"""The figures of a controller, by the names of Kafka's ``KafkaController`` and ``ControllerEventManager``.

Those of the image stand on every controller, those of sessions and commands on the active one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from stratalog.broker.control.broker_sessions import BrokerSessions
from stratalog.broker.control.cluster_index import ClusterIndex
from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.metadata.image.brokers_image import BrokerImage

__all__ = ["ControllerParts", "Office", "add_controller_metrics"]

_FENCED: Final = 10
_SHUTDOWN: Final = 20
_ACTIVE: Final = 30
"""The states of a registration, as Kafka's ``BrokerRegistrationState`` numbers them."""


class Office(Protocol):
    """The replica of the metadata log, as far as figures go."""

    @property
    def is_active(self) -> bool:
        """Whether this node's controller decides."""

    @property
    def high_watermark(self) -> int:
        """The end of what is committed, as far as it is known here."""


class ControllerParts(Struct, frozen=True, kw_only=True):
    """The parts of a controller that have figures."""

    office: Office
    cluster: ClusterIndex
    sessions: BrokerSessions
    control: ControlPlane
    clock: Clock
    new_leaders: Callable[[], int]
    """How many active controllers this one has heard of since its start."""
    metadata_errors: Callable[[], int]
    """Records that could not be applied, and images that could not be followed."""


def add_controller_metrics(metrics: Metrics, parts: ControllerParts) -> None:
    """Add the figures; each costs the registered brokers at most."""
    _add_cluster(metrics, parts)
    _add_brokers(metrics, parts)
    counters: dict[str, tuple[str, Callable[[], int]]] = {
        "TimedOutBrokerHeartbeatCount": (
            "heartbeats that had no turn in time.",
            lambda: parts.sessions.timed_out_count,
        ),
        "NewActiveControllersCount": ("active controllers that this node has heard of.", parts.new_leaders),
        "MetadataErrorCount": ("metadata that this node could not apply.", parts.metadata_errors),
    }
    for name, (text, value) in counters.items():
        metrics.add_counter(_named(name), f"kafka.controller:type=KafkaController,name={name}: {text}", _one(value))
    windows = {
        "EventQueueTimeMs": ("Milliseconds that commands waited for their turn", parts.control.waited_ms),
        "EventQueueProcessingTimeMs": ("Milliseconds that the turns of commands took", parts.control.taken_ms),
    }
    for name, (text, values) in windows.items():
        for kind, ask in (("Mean", values.average), ("Max", values.maximum)):
            metrics.add_gauge(
                f"kafka_controller_controllereventmanager_{name.lower()}_{kind.lower()}",
                f"kafka.controller:type=ControllerEventManager,name={name},{kind}. {text} in the last minute.",
                _known(ask, parts.clock),
            )


def _add_brokers(metrics: Metrics, parts: ControllerParts) -> None:
    """The figures by broker; its label is the id of a registered one."""

    def states() -> Iterable[tuple[Mapping[str, str], float]]:
        brokers = parts.cluster.image.brokers.brokers
        return [({"broker": str(broker_id)}, _state_of(broker)) for broker_id, broker in brokers.items()]

    def silence() -> Iterable[tuple[Mapping[str, str], float]]:
        return [({"broker": str(broker_id)}, silent) for broker_id, silent in parts.sessions.silent_ms().items()]

    kafkas = "kafka.controller:type=KafkaController"
    metrics.add_gauge(
        _named("BrokerRegistrationState"),
        f"{kafkas},name=BrokerRegistrationState: 10 fenced, 20 in controlled shutdown, 30 active, by broker.",
        states,
    )
    metrics.add_gauge(
        _named("TimeSinceLastHeartbeatReceivedMs"),
        f"{kafkas},name=TimeSinceLastHeartbeatReceivedMs, by broker; on the active controller alone.",
        silence,
    )


def _state_of(broker: BrokerImage) -> int:
    if broker.is_fenced:
        return _FENCED
    return _SHUTDOWN if broker.in_controlled_shutdown else _ACTIVE


def _add_cluster(metrics: Metrics, parts: ControllerParts) -> None:
    """The figures of the image."""
    office, cluster, clock = parts.office, parts.cluster, parts.clock

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
        "ControlledShutdownBrokerCount": (
            "Registered brokers that are about to stop.",
            lambda: sum(_state_of(broker) == _SHUTDOWN for broker in cluster.image.brokers.brokers.values()),
        ),
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


def _named(name: str) -> str:
    return f"kafka_controller_kafkacontroller_{name.lower()}"


def _known(
    value: Callable[[int], float | None], clock: Clock
) -> Callable[[], Iterable[tuple[Mapping[str, str], float]]]:
    """A value of the last minute, where there is one."""

    def samples() -> Iterable[tuple[Mapping[str, str], float]]:
        found = value(int(clock.monotonic() * 1000))
        return [] if found is None else [({}, found)]

    return samples


def _one(value: Callable[[], int]) -> Callable[[], Iterable[tuple[Mapping[str, str], float]]]:
    return lambda: [({}, value())]
