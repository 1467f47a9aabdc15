"""The coordinators' topics: made at the first request for a coordinator, with the settings Kafka gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.controller.controller import NewTopic, TopicRules, create_topics
from stratalog.metadata.image.decision import Failure
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import Uuid

__all__ = ["GROUP_TOPIC", "TRANSACTION_TOPIC", "InternalTopics", "TopicMaking"]

GROUP_TOPIC: Final = CONSUMER_OFFSETS_TOPIC
TRANSACTION_TOPIC: Final = TRANSACTION_STATE_TOPIC

_PREFIX: Final = {GROUP_TOPIC: "offsets.topic", TRANSACTION_TOPIC: "transaction.state.log"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMaking:
    """How topics are made. ``config``, ``image`` and ``rules`` are as they are now."""

    config: Callable[[], BrokerConfig]
    image: Callable[[], ClusterImage]
    control: ControlPlane
    rules: Callable[[], TopicRules]
    new_topic_id: Callable[[], Uuid]
    random_int: Callable[[int], int]


class InternalTopics:
    """Creates each of the topics once, however many ask for it at a time."""

    def __init__(self, making: TopicMaking) -> None:
        self._making = making
        self._turn = asyncio.Lock()

    async def ensure(self, topic: str) -> None:
        """Come back when the topic is there. Raises `KafkaError` COORDINATOR_NOT_AVAILABLE with the reason if not."""
        async with self._turn:
            if topic in self._making.image().topics.by_name:
                return
            making, wanted = self._making, self.wanted(topic)
            results = await making.control.execute(
                lambda image: create_topics(
                    image,
                    [wanted],
                    making.rules(),
                    new_topic_id=making.new_topic_id,
                    next_int=making.random_int,
                )
            )
        for _, result in results:
            if isinstance(result, Failure) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} cannot be created: {result.message or result.code}"
                )

    def wanted(self, topic: str) -> NewTopic:
        """A topic made by a request for it: those of the coordinators as their settings say."""
        prefix = _PREFIX.get(topic)
        if prefix is None:
            return NewTopic(topic)
        return NewTopic(
            topic,
            partition_count=self._making.config().integer(f"{prefix}.num.partitions"),
            replication_factor=self._replication_factor(f"{prefix}.replication.factor"),
            configs=self._configs(topic),
        )

    def _replication_factor(self, name: str) -> int:
        """The setting's value; its default, 3, gives way to a cluster of fewer brokers, and to what is kept at all."""
        wanted = self._making.config().integer(name)
        if name in self._making.config().static:
            return wanted
        brokers = self._making.image().brokers.brokers.values()
        active = sum(not broker.is_fenced for broker in brokers)
        return max(1, min(wanted, active, self._making.rules().replicas_max))

    def _configs(self, topic: str) -> Mapping[str, str]:
        config = self._making.config()
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer" if topic == GROUP_TOPIC else "uncompressed",
            "segment.bytes": str(config.integer(f"{_PREFIX[topic]}.segment.bytes")),
        }
        if topic == TRANSACTION_TOPIC:
            brokers = len(self._making.image().brokers.brokers)
            least = config.integer("transaction.state.log.min.isr")
            if "transaction.state.log.min.isr" not in config.static:
                least = min(least, brokers, self._making.rules().replicas_max)
            configs["min.insync.replicas"] = str(least)
            configs["unclean.leader.election.enable"] = "false"
        return configs
