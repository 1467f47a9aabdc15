"""Clients of replicated topics: idempotent producers with acks=all, readers, and what all of them know in the end.

They find the leader of a partition in the newest image that any node has, or, now and then, ask another broker, as a client
does whose metadata is old.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from sim.actors.link import Caller, Link, LinkLost
from sim.actors.producers import Batch, IdempotentProducer
from sim.actors.readers import Reader
from sim.cluster.surroundings import Surroundings
from sim.model import Model, PartitionModel, State, TopicModel, Violation
from sim.under.clock import SimClock
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

__all__ = ["Load"]

REPLICAS: Final = 3
_FOR_EVER: Final = str((1 << 63) - 1)
_CREATE_KEY: Final = 19
_TOLD_WITH_IDS: Final = 7
_TIMEOUT_MS: Final = 8000
_LOST_SIGHT: Final = 0.1
"""How often a client asks a broker that does not lead."""


class Load:
    """The clients of one run. It is their world: `sim.actors.surroundings.Surroundings`, as far as these actors need it."""

    def __init__(self, world: Surroundings, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self.trace = world.trace
        self.loop = world.loop
        self.clock = SimClock(world.loop)
        self.plan = world.plan
        self.model = Model()
        self.port = 0
        self.checker = self
        self._readers: list[RoutedReader] = []
        self._producers: list[RoutedProducer] = []

    def new_producer_id(self, producer_id: int, name: str) -> None:
        """A client got this producer id. Raises `Violation` if another one has it."""
        self._world.facts.producer_id_told(producer_id, f"{name}@{self.loop.time()}")

    def check_may_be_gone(self, _topic: TopicModel, _who: str) -> None:
        """A broker whose image is old knows no new topic, and one with an empty disk none at all, for a while."""

    # -- running -------------------------------------------------------------------------------------------------------

    async def create(self) -> None:
        """Make the topics, whatever it takes."""
        for number in range(self.plan.replicated_topics):
            configs = {
                "min.insync.replicas": str(self.plan.min_in_sync),
                "flush.messages": _FOR_EVER if self.plan.unsynced else "1",
                "message.timestamp.after.max.ms": _FOR_EVER,  # clocks of machines are set
                "retention.ms": "-1",
                "internal.segment.bytes": str(self._dice.choice((2000, 8000, 1 << 20))),
            }
            name = f"replicated{number}"
            caller = Caller(self.loop, "maker", self.any_port(), random.Random(self._dice.getrandbits(64)))
            caller.version_floors = {_CREATE_KEY: _TOLD_WITH_IDS}
            topic_id = None
            while topic_id is None:
                topic_id = await self._create(caller, name, configs)
            self.model.add(name, topic_id, self.plan.replicated_partitions, configs)

    async def _create(self, caller: Caller, name: str, configs: dict[str, str]) -> bytes | None:
        topic = CreatableTopic(
            name=name,
            num_partitions=self.plan.replicated_partitions,
            replication_factor=REPLICAS,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=False)
        try:
            answer = await caller.call(request, 15.0)
        except LinkLost:
            return None
        code = ErrorCode(answer.topics[0].error_code)
        if code is not ErrorCode.NONE:
            raise Violation(f"{name} cannot be made: {code.name} {answer.topics[0].error_message}")
        return bytes(answer.topics[0].topic_id)

    def start(self) -> list[asyncio.Task[Any]]:
        """Begin to write and to read; the tasks run until `finish` has ended them."""
        rounds = 1 << 30
        self._producers = [
            RoutedProducer(self, f"w{number}", random.Random(self._dice.getrandbits(64)), rounds)
            for number in range(self.plan.producers)
        ]
        self._readers = [self._reader(f"r{number}") for number in range(self.plan.readers)]
        return [asyncio.ensure_future(one.run()) for one in (*self._producers, *self._readers)]

    def stop(self) -> None:
        """Have producers end when all that they sent is known to be acknowledged, and readers at once."""
        for producer in self._producers:
            producer.rounds_left = 0
        for reader in self._readers:
            reader.stopped = True

    @property
    def acknowledged(self) -> int:
        """Records that producers were acknowledged."""
        partitions = [one for topic in self.model.topics.values() for one in topic.partitions]
        return sum(sent.state is State.ACKNOWLEDGED for one in partitions for sent in one.sent.values())

    def unanswered(self, clients: list[asyncio.Task[Any]]) -> str | None:
        """Return what clients still wait for after `stop`, or None once they have ended. Raises their errors."""
        for task in clients:
            if task.done():
                task.result()
        waiting = sum(not task.done() for task in clients)
        return f"{waiting} clients wait for answers" if waiting else None

    async def read_all(self) -> None:
        """Read every partition and compare it with all that was acknowledged or seen. Raises `Violation`."""
        reader = self._reader("final")
        reader.committed = False
        for topic in self.model.living():
            for partition in topic.partitions:
                start, records, end = await reader.read_all(partition, partition.end)
                partition.check_complete(start, records, end)

    def _reader(self, name: str) -> RoutedReader:
        return RoutedReader(self, name, random.Random(self._dice.getrandbits(64)))

    # -- routes --------------------------------------------------------------------------------------------------------

    def any_port(self) -> int:
        """The port of a broker, if possible of one that runs."""
        brokers = [one for one in self._world.members.values() if not one.is_controller]
        ready = [one for one in brokers if one.is_ready]
        return int(self._dice.choice(ready or brokers).port)

    def port_of(self, partition: PartitionModel) -> int:
        """The port of the leader, or of any broker."""
        topic = self._world.newest_image().topics.by_id.get(partition.topic.topic_id)
        state = None if topic is None else topic.partitions.get(partition.number)
        if state is None or state.leader < 0 or self._dice.random() < _LOST_SIGHT:
            return self.any_port()
        return int(self._world.members[state.leader].port)


class Routes:
    """One client's connections, one to each broker."""

    def __init__(self, load: Load, name: str, dice: random.Random) -> None:
        self._load = load
        self._name = name
        self._dice = dice
        self._callers: dict[int, Caller] = {}
        self.port = 0

    async def link(self, caller: Caller) -> Link:
        """The connection to the broker of the moment. Raises `LinkLost`."""
        port = self.port or self._load.any_port()
        found = self._callers.get(port)
        if found is None:
            found = Caller(self._load.loop, f"{self._name}-{port}", port, self._dice)
            self._callers[port] = found
        link = await found.link()
        caller._ranges = found._ranges
        return link

    def close(self) -> None:
        """End the connection to the broker of the moment."""
        found = self._callers.pop(self.port, None)
        if found is not None:
            found.close()


class RoutedProducer(IdempotentProducer):
    """Sends each attempt to the leader of its moment."""

    def __init__(self, load: Load, name: str, dice: random.Random, rounds: int) -> None:
        super().__init__(load, name, dice, rounds)  # type: ignore[arg-type]  # the part of a world that it uses
        self._load = load
        self._routes = Routes(load, name, dice)
        self.rounds_left = rounds

    async def run(self) -> None:
        """Send until `Load.stop`; everything that was begun is then sent to its end."""
        while self.rounds_left > 0:
            self.rounds_left -= 1
            partition = self.pick()
            if partition is not None:
                await self._send_bundle(partition)
            await self.rest(0.2)

    async def link(self) -> Link:
        """The connection of this attempt. Raises `LinkLost`."""
        return await self._routes.link(self)

    def close(self) -> None:
        """End the connection of this attempt."""
        self._routes.close()

    async def _attempt(self, partition: PartitionModel, batches: list[Batch]) -> None:
        self._routes.port = self._load.port_of(partition)
        try:
            await super()._attempt(partition, batches)
        finally:
            self._routes.port = 0


class RoutedReader(Reader):
    """Asks the leader of the moment."""

    def __init__(self, load: Load, name: str, dice: random.Random) -> None:
        super().__init__(load, name, dice)  # type: ignore[arg-type]  # the part of a world that it uses
        self._load = load
        self._routes = Routes(load, name, dice)

    async def link(self) -> Link:
        """The connection of this request. Raises `LinkLost`."""
        return await self._routes.link(self)

    def close(self) -> None:
        """End the connection of this request."""
        self._routes.close()

    async def fetch_raw(self, partition: PartitionModel, position: int, max_wait_ms: int | None = None) -> Any:
        """The leader's answer; None if it has to be asked again."""
        self._routes.port = self._load.port_of(partition)
        return await super().fetch_raw(partition, position, max_wait_ms)

    async def offset_of(self, partition: PartitionModel, timestamp: int) -> int | None:
        """The leader's answer to ListOffsets; None if it has to be asked again."""
        self._routes.port = self._load.port_of(partition)
        return await super().offset_of(partition, timestamp)
