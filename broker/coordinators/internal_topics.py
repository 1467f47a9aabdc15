"""The coordinators' topics: made when somebody first asks for a coordinator, with the settings Kafka gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stratalog.metadata.controller import NewTopic, create_topics
from stratalog.metadata.decision import Failure
from stratalog.metadata.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from stratalog.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from stratalog.broker.node import Node

__all__ = ["GROUP_TOPIC", "TRANSACTION_TOPIC", "InternalTopics"]

GROUP_TOPIC: Final = CONSUMER_OFFSETS_TOPIC
TRANSACTION_TOPIC: Final = TRANSACTION_STATE_TOPIC

_PREFIX: Final = {GROUP_TOPIC: "offsets.topic", TRANSACTION_TOPIC: "transaction.state.log"}


class InternalTopics:
    """Creates each of the topics once, however many ask for it at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._turn = asyncio.Lock()

    async def ensure(self, topic: str) -> None:
        """Come back when the topic is there. Raises `KafkaError` COORDINATOR_NOT_AVAILABLE with the reason if not."""
        async with self._turn:
            if topic in self._node.image.topics.by_name:
                return
            node, wanted = self._node, self.wanted(topic)
            results = await node.control.execute(
                lambda image: create_topics(
                    image,
                    [wanted],
                    node.topic_rules(),
                    new_topic_id=node.new_topic_id,
                    next_int=node.random_int,
                )
            )
        for _, result in results:
            if isinstance(result, Failure) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} cannot be created: {result.message or result.code}"
                )

    def wanted(self, topic: str) -> NewTopic:
        """A topic that somebody makes by asking for it: those of the coordinators as the settings of theirs say."""
        prefix = _PREFIX.get(topic)
        if prefix is None:
            return NewTopic(topic)
        return NewTopic(
            topic,
            partition_count=self._node.config.integer(f"{prefix}.num.partitions"),
            replication_factor=self._replication_factor(f"{prefix}.replication.factor"),
            configs=self._configs(topic),
        )

    def _replication_factor(self, name: str) -> int:
        """What the setting says; its default, 3, gives way to a cluster that has fewer brokers."""
        wanted = self._node.config.integer(name)
        if name in self._node.config.static:
            return wanted
        brokers = self._node.image.brokers.brokers.values()
        return max(1, min(wanted, sum(not broker.is_fenced for broker in brokers)))

    def _configs(self, topic: str) -> Mapping[str, str]:
        config = self._node.config
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer" if topic == GROUP_TOPIC else "uncompressed",
            "segment.bytes": str(config.integer(f"{_PREFIX[topic]}.segment.bytes")),
        }
        if topic == TRANSACTION_TOPIC:
            brokers = len(self._node.image.brokers.brokers)
            least = config.integer("transaction.state.log.min.isr")
            if "transaction.state.log.min.isr" not in config.static:
                least = min(least, brokers)
            configs["min.insync.replicas"] = str(least)
            configs["unclean.leader.election.enable"] = "false"
        return configs
