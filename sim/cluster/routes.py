"""Each request of a client goes to the broker that leads what it is about: a partition, or the log of a coordinator.

The leader is taken from the newest image that any node has; now and then a client asks another broker, as one does whose
metadata is old.
"""

from __future__ import annotations

import random
from typing import Any, Final

from sim.actors.link import Caller, Link
from sim.cluster.surroundings import Surroundings
from stratalog.wire.partitioner import coordinator_partition
from stratalog.wire.schema import Message

__all__ = ["COORDINATORS", "GROUPS", "TRANSACTIONS", "Routed", "Routes", "leader_of"]

GROUPS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
COORDINATORS: Final = 2
"""Partitions of each of them."""
_LOST_SIGHT: Final = 0.1
"""How often a client asks a broker that does not lead."""
_NO_LEADER: Final = (-1, -1)


def _named(request: Any) -> tuple[str | bytes, int | str] | None:
    """The topic that a request is about, by name or id, and the partition: its number, or the name that chooses it."""
    kind = type(request).__name__
    if kind in {"AddPartitionsToTxnRequest", "AddOffsetsToTxnRequest", "EndTxnRequest", "InitProducerIdRequest"}:
        name = getattr(request, "transactional_id", None) or getattr(request, "v3_and_below_transactional_id", "")
        return (TRANSACTIONS, name) if name else None
    if hasattr(request, "group_id"):
        return GROUPS, request.group_id
    if kind == "FetchRequest":
        return bytes(request.topics[0].topic_id), request.topics[0].partitions[0].partition
    if kind in {"ListOffsetsRequest", "DeleteRecordsRequest"}:
        return request.topics[0].name, request.topics[0].partitions[0].partition_index
    return None


def leader_of(cluster: Surroundings, topic_key: str | bytes, partition: int | str) -> tuple[int, int]:
    """The broker that leads a partition and its leader epoch; -1 for each without one.

    ``topic_key``: name or id of the topic. ``partition``: its number, or the name of a group or transaction.
    """
    topics = cluster.newest_image().topics
    topic = topics.by_id.get(topic_key) if isinstance(topic_key, bytes) else topics.by_name.get(topic_key)
    if topic is None:
        return _NO_LEADER
    number = coordinator_partition(partition, len(topic.partitions)) if isinstance(partition, str) else partition
    state = topic.partitions.get(number)
    return _NO_LEADER if state is None else (state.leader, state.leader_epoch)


class Routes:
    """One client's connections, one to each broker."""

    def __init__(self, cluster: Surroundings, name: str, dice: random.Random) -> None:
        self._cluster = cluster
        self._name = name
        self._dice = dice
        self._callers: dict[int, Caller] = {}
        self.port = 0
        """The port of the moment; 0 for that of any broker."""

    def point(self, leader: int) -> None:
        """The next request is for this broker, or, now and then, for another one."""
        lost = leader < 0 or self._dice.random() < _LOST_SIGHT
        self.port = self.any_port() if lost else int(self._cluster.members[leader].port)

    def any_port(self) -> int:
        """The port of a broker, if possible of one that runs."""
        brokers = [one for one in self._cluster.members.values() if not one.is_controller]
        ready = [one for one in brokers if one.is_ready]
        return int(self._dice.choice(ready or brokers).port)

    async def link(self, caller: Caller) -> Link:
        """The connection to the broker of the moment. Raises `LinkLost`."""
        port = self.port or self.any_port()
        found = self._callers.get(port)
        if found is None:
            found = Caller(self._cluster.loop, f"{self._name}-{port}", port, self._dice)
            self._callers[port] = found
        link = await found.link()
        caller._ranges = found._ranges
        return link

    def close(self) -> None:
        """End the connection to the broker of the moment."""
        found = self._callers.pop(self.port, None)
        if found is not None:
            found.close()


class Routed(Caller):
    """A client of a cluster: mixed into one of a single broker, in front of it."""

    world: Any

    @property
    def routes(self) -> Routes:
        """Its connections."""
        found: Routes | None = vars(self).get("_routes")
        if found is None:
            found = self._routes = Routes(self.world.cluster, self.name, self.dice)
        return found

    async def link(self) -> Link:
        """The connection of this request. Raises `LinkLost`."""
        return await self.routes.link(self)

    def close(self) -> None:
        """End the connection of this request."""
        self.routes.close()

    async def call(self, request: Message, timeout: float = 10.0) -> Any:  # noqa: ASYNC109 - virtual seconds
        """Send a request where it belongs, and wait for its answer. Raises `LinkLost`."""
        cluster, named = self.world.cluster, _named(request)
        leader = _NO_LEADER if named is None else leader_of(cluster, *named)
        self.routes.point(leader[0])
        port = self.routes.port
        answer = await super().call(request, timeout)
        is_led = leader[0] >= 0 and port == cluster.members[leader[0]].port
        self.is_current = named is None or (is_led and leader == leader_of(cluster, *named))
        return answer
