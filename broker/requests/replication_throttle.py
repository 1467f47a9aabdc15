"""The throttle of replication on one side of this broker: the rate of its settings, the replicas of the topics' (KIP-73).

As a leader it holds back answers to followers outside the in-sync set, as a follower it leaves partitions out of its
fetches; both count all bytes of throttled replicas. Source: Kafka's ``ReplicationQuotaManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.quotas.replication_quota import ReplicationQuota
from stratalog.metadata.quotas.throttled_replicas import ThrottledReplicas

__all__ = ["ReplicationThrottle", "ThrottledSide"]


class ThrottledSide(StrEnum):
    """The ends of a copy; the values begin the names of their settings."""

    LEADER = "leader"
    FOLLOWER = "follower"


class ReplicationThrottle:
    """One side's. Times are milliseconds of a clock that never goes back."""

    def __init__(
        self,
        side: ThrottledSide,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], ClusterImage],
    ) -> None:
        """``config`` and ``image`` are as they are now: rates and lists of replicas change while the broker runs."""
        given = config()
        self._config = config
        self._image = image
        self._rate_name = f"{side}.replication.throttled.rate"
        self._replicas = ThrottledReplicas(f"{side}.replication.throttled.replicas", given.node_id, image)
        self._quota = ReplicationQuota(
            given.integer("replication.quota.window.num"), float(given.integer("replication.quota.window.size.seconds"))
        )

    def is_throttled(self, topic: str, number: int) -> bool:
        """Whether this broker's replica of the partition is named."""
        return (topic, number) in self._replicas

    def is_key_throttled(self, key: PartitionKey) -> bool:
        """The same by the id of the topic; False for a topic that the image does not have."""
        topic = self._image().topics.by_id.get(key.topic_id)
        return topic is not None and (topic.name, key.number) in self._replicas

    def allowed_bytes(self, now_ms: float) -> float:
        """The bytes of throttled replicas that may go now; none while it is not above 0."""
        return self._quota.allowed_bytes(self._rate, now_ms / 1000)

    def wait_ms(self, now_ms: float) -> float:
        """How long until something may go, as the settings are now; infinite at a rate of 0."""
        return self._quota.wait_seconds(self._rate, now_ms / 1000) * 1000

    def record(self, size_bytes: int, now_ms: float) -> None:
        """So many bytes of throttled replicas have gone."""
        self._quota.record(size_bytes, self._rate, now_ms / 1000)

    def add_figure(self, metrics: Metrics, kind: str, monotonic: Callable[[], float]) -> None:
        """Show the rate of throttled bytes as Kafka's ``LeaderReplication`` or ``FollowerReplication``."""
        metrics.add_gauge(
            f"kafka_server_{kind.lower()}_byte_rate",
            f"kafka.server:type={kind} byte-rate: bytes a second of throttled replicas.",
            partial(self._sample, monotonic),
        )

    def _sample(self, monotonic: Callable[[], float]) -> list[tuple[dict[str, str], float]]:
        return [({}, self._quota.byte_rate(monotonic()))]

    @property
    def _rate(self) -> int:
        return self._config().integer(self._rate_name)
