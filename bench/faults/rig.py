"""The place of a run: its nodes, those that are under a fault, and how the cluster stands."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench.faults.nodes import FaultyNodes
from bench.faults.object_store import FaultyBucket
from stratalog.broker.local_cluster.cluster import ClusterFault
from stratalog.client.client import Client
from stratalog.client.reassignments import elect_preferred_leaders, reassign
from stratalog.wire.topic import TopicPartition

__all__ = ["Rig"]

_ASK_SECONDS = 5.0
_MOVE_SECONDS = 10.0


class Rig:
    """One run. Faults take nodes from it and give them back, so that no two faults meet on one node."""

    def __init__(self, nodes: FaultyNodes, *, say: Callable[[str], None], bucket: FaultyBucket | None = None) -> None:
        self.nodes = nodes
        self.bucket = bucket
        """The store of a run whose faults need one; otherwise the bucket is a directory."""
        self.over = threading.Event()
        """Set when no more faults are to come."""
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._say = say
        self._began = time.monotonic()
        self._taken: set[int] = set()
        self._taking = threading.Condition()
        self._destroying = threading.Lock()
        self._admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})

    def say(self, what: str) -> None:
        """A line of the run's story."""
        self._say(f"{time.monotonic() - self._began:7.2f} {what}")

    def wait(self, seconds: float) -> None:
        """Wait, less if the run is over."""
        self.over.wait(seconds)

    @contextmanager
    def take(self, dice: random.Random, *, wish: int | None = None, count: int = 1) -> Iterator[list[int]]:
        """Nodes that are under no other fault; none if there are not enough of them, or the run is over."""
        with self._taking:
            free = [one for one in self.nodes.node_ids if one not in self._taken]
            chosen = dice.sample(free, count) if len(free) >= count else []
            if wish in free and wish not in chosen and chosen:
                chosen[0] = wish
            if self.over.is_set():
                chosen = []
            self._taken |= set(chosen)
        try:
            yield chosen
        finally:
            with self._taking:
                self._taken -= set(chosen)

    @contextmanager
    def destroying(self) -> Iterator[bool]:
        """Alone destroy data, and only while all replicas are in sync: a second loss before that may be a real one."""
        with self._destroying:
            yield self.until_in_sync(30)

    def partitions_out_of_sync(self) -> list[str] | None:
        """The partitions without a leader or with replicas out of sync; None if no broker answers."""
        try:
            topics = self._admin.list_topics(timeout=_ASK_SECONDS).topics
        except KafkaException:
            return None
        return [
            f"{name}-{number}: leader {one.leader}, in sync {sorted(one.isrs)} of {sorted(one.replicas)}"
            for name, topic in topics.items()
            for number, one in topic.partitions.items()
            if one.leader < 0 or len(one.isrs) < len(one.replicas)
        ]

    def until_in_sync(self, seconds: float) -> bool:
        """Whether all replicas are in sync in time."""
        deadline = time.monotonic() + seconds
        while self.partitions_out_of_sync() != []:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader of a partition; None if it has none."""
        try:
            found = self._admin.list_topics(topic, timeout=_ASK_SECONDS).topics[topic].partitions.get(partition)
        except KafkaException:
            return None
        return None if found is None or found.leader < 0 else int(found.leader)

    def controller(self) -> int | None:
        """The active controller; None if there is none for the moment: another fault may have taken it just now."""
        try:
            return self.nodes.active_controller(_ASK_SECONDS)
        except ClusterFault:
            return None

    def topics(self) -> set[str]:
        """The topics that the cluster has; none if no broker answers."""
        try:
            return set(self._admin.list_topics(timeout=_ASK_SECONDS).topics)
        except KafkaException:
            return set()

    def move_leaders(self, topic: str, dice: random.Random) -> int:
        """Let another replica of each partition of ``topic`` be the preferred one, and lead; how many leaders have changed.

        Raises `BrokerAway`, `KafkaError`.
        """
        targets: dict[TopicPartition, list[int]] = {}
        for number, one in self._admin.list_topics(topic, timeout=_ASK_SECONDS).topics[topic].partitions.items():
            others = [replica for replica in one.replicas if replica != one.leader]
            dice.shuffle(others)
            targets[TopicPartition(topic, number)] = [*others, *(one.replicas if one.leader < 0 else [one.leader])]
        with Client(self.nodes.bootstrap, _MOVE_SECONDS) as client:
            refused = reassign(client, targets)
            return elect_preferred_leaders(client, [place for place in targets if place not in refused])
