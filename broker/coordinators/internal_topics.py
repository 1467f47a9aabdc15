"""The coordinators' topics: made at the first request for a coordinator, with the settings Kafka gives them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.requests.forwarding import Forwarding
from stratalog.broker.requests.topic_wishes import wish_for_topics
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

log = logging.getLogger(__name__)

_PREFIX: Final = {GROUP_TOPIC: "offsets.topic", TRANSACTION_TOPIC: "transaction.state.log"}


class TopicMaking(Struct, frozen=True, kw_only=True):
    """How topics are made. ``config``, ``image`` and ``rules`` are as they are now; ``forwarding`` is the way to the active
    controller, None where that is always in this process.
    """

    config: Callable[[], BrokerConfig]
    image: Callable[[], ClusterImage]
    control: ControlPlane
    rules: Callable[[], TopicRules]
    new_topic_id: Callable[[], Uuid]
    random_int: Callable[[int], int]
    forwarding: Callable[[], Forwarding | None] = lambda: None


class InternalTopics:
    """Creates each of the topics once, however many ask for it at a time."""

    def __init__(self, making: TopicMaking) -> None:
        self._making = making
        self._turn = asyncio.Lock()
        self._wishes: dict[str, asyncio.Task[dict[str, KafkaError]]] = {}

    async def ensure(self, topic: str) -> None:
        """Come back when the topic is there. Raises `KafkaError` COORDINATOR_NOT_AVAILABLE with the reason if not."""
        forwarding = self._making.forwarding()
        if forwarding is not None and forwarding.elsewhere:
            await self._wish(topic, forwarding)
            return
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

    async def _wish(self, topic: str, forwarding: Forwarding) -> None:
        """Have the topic created elsewhere. Raises `KafkaError` COORDINATOR_NOT_AVAILABLE until the image here has it.

        Requests that come meanwhile wait for the same answer, also when the first one's client goes.
        """
        if topic in self._making.image().topics.by_name:
            return
        wish = self._wishes.get(topic)
        if wish is None:
            wish = asyncio.ensure_future(wish_for_topics(forwarding, [self.wanted(topic)], self._making.config()))
            self._wishes[topic] = wish
            wish.add_done_callback(partial(self._wished, topic))
        await asyncio.wait({wish})
        if wish.cancelled():
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "This broker stops.")
        error = wish.exception() or wish.result().get(topic)
        if error is not None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} cannot be created: {error}") from error
        if topic not in self._making.image().topics.by_name:
            why = f"{topic} has been created; this broker has not heard of it yet."
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)

    def _wished(self, topic: str, wish: asyncio.Task[dict[str, KafkaError]]) -> None:
        """The wish has an answer, or an error. Where all clients that asked have gone, no request takes the error."""
        del self._wishes[topic]
        if not wish.cancelled() and (error := wish.exception()) is not None:
            log.debug("%s: %s", topic, error)

    def close(self) -> None:
        """Wait for no answer of the controller any more."""
        for wish in list(self._wishes.values()):
            wish.cancel()

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
        """The setting's value; its default, 3, gives way to a cluster of fewer brokers.

        Brokers that are away count, too: the topic is made once, perhaps while one of them is restarted, and follows there later.
        """
        wanted = self._making.config().integer(name)
        if name in self._making.config().static:
            return wanted
        brokers = sum(broker.has_room for broker in self._making.image().brokers.brokers.values())
        return max(1, min(wanted, brokers))

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
                least = min(least, brokers)
            configs["min.insync.replicas"] = str(least)
            configs["unclean.leader.election.enable"] = "false"
        return configs
