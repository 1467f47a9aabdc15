"""The throttle of one run: set for all that moves at its begin, and taken away at its end.

Other moves may have begun meanwhile, with a throttle of their own under the same settings. So what they need stays, and so
do the lists of topics that this run has not set. The cluster does not tell who has set a list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from stratalog.cli.cluster.plan import LISTED_MAX
from stratalog.client.client import Client
from stratalog.client.reassignments import Reassignment, list_reassignments
from stratalog.client.throttles import FOLLOWERS, LEADERS, RATES, remove_throttle, set_throttle, throttled_replicas
from stratalog.metadata.balancing.moves import Move
from stratalog.wire.topic import TopicPartition

__all__ = ["RunThrottle"]

_ALL: Final = "*"


class RunThrottle:
    """``rate`` is in bytes a second, None for a run without a throttle. ``say`` gets sentences about what stays."""

    def __init__(self, client: Client, rate: int | None, say: Callable[[str], None]) -> None:
        self._client = client
        self._rate = rate
        self._say = say
        self._brokers: set[int] = set()
        self._topics: set[str] = set()

    def set(self, moves: Sequence[Move], running: Mapping[TopicPartition, Reassignment]) -> None:
        """Throttle ``moves`` and the reassignments that run already, as `kafka-reassign-partitions` does. Raises `KafkaError`.

        The list of a topic is set as a whole: a partition that it does not name copies as fast as it can.
        """
        if self._rate is None or not (moves or running):
            return
        ways = [(move.partition, move.replicas, move.adding) for move in moves]
        for one, move in running.items():
            ways.append((one, tuple(broker for broker in move.replicas if broker not in move.adding), move.adding))
        pairs: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        for partition, held, adding in ways:
            leaders, followers = pairs.setdefault(partition.topic, ({}, {}))
            leaders |= dict.fromkeys(f"{partition.partition}:{broker}" for broker in held)
            followers |= dict.fromkeys(f"{partition.partition}:{broker}" for broker in adding)
            self._brokers.update(held, adding)
        self._topics.update(pairs)
        replicas = {topic: (list(leaders), list(followers)) for topic, (leaders, followers) in pairs.items()}
        # Brokers that Metadata does not name are fenced: they copy nothing.
        set_throttle(self._client, self._brokers & set(self._client.brokers), self._rate, replicas)

    def clear(self) -> None:
        """Take away what `set` has set, but for what other moves need; say what stays. Raises `KafkaError`."""
        lists = throttled_replicas(self._client, [topic.name for topic in self._client.refresh()])
        others = {
            one: move
            for one, move in list_reassignments(self._client).items()
            if any(_names(replicas, one.partition) for replicas in lists.get(one.topic, ()))
        }
        needed = self._topics.intersection(one.topic for one in others)
        rates_needed = self._brokers.intersection(broker for move in others.values() for broker in move.replicas)
        away = remove_throttle(self._client, self._brokers - rates_needed, self._topics - needed)
        self._say_topics(needed, "others move their partitions")
        self._say_topics(set(lists) - self._topics, "this run has not set them")
        self._say_rates(rates_needed, "others move replicas there")
        self._say_rates(away, "they are away")

    def _say_topics(self, topics: Collection[str], why: str) -> None:
        if topics:
            self._say(
                f"Throttled replicas stay with {_some(sorted(topics))}: {why}. To take them away: "
                f"stratalog topic alter TOPIC --delete-config {LEADERS} --delete-config {FOLLOWERS}"
            )

    def _say_rates(self, brokers: Collection[int], why: str) -> None:
        if brokers:
            self._say(
                f"The rate of the throttle stays at {_some(sorted(brokers))}: {why}. To take it away: kafka-configs.sh --alter "
                f"--entity-type brokers --entity-name BROKER --delete-config {','.join(RATES)}"
            )


def _names(replicas: str, partition: int) -> bool:
    """Whether a list of throttled replicas, ``0:1,0:2`` or ``*``, names the partition."""
    return replicas == _ALL or any(pair.partition(":")[0] == str(partition) for pair in replicas.split(","))


def _some(names: Iterable[object]) -> str:
    texts = list(map(str, names))
    more = f" and {len(texts) - LISTED_MAX} more" if len(texts) > LISTED_MAX else ""
    return ", ".join(texts[:LISTED_MAX]) + more
