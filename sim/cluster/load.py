"""Clients of replicated topics: producers, transactions, groups, readers, and what all of them know in the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from sim.actors.groups import Member
from sim.actors.link import Caller, LinkLost
from sim.actors.progress import Progress
from sim.cluster.clients import (
    RoutedClassicMember,
    RoutedConsumerMember,
    RoutedProducer,
    RoutedReader,
    RoutedTransactions,
)
from sim.cluster.plan import Kind, Unclean
from sim.cluster.replica_admin import ReplicaAdmin
from sim.cluster.routes import Routes
from sim.cluster.surroundings import Surroundings
from sim.group_model import GroupModel
from sim.model import State, TopicModel, Violation
from sim.under.clock import SimClock
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

__all__ = ["Load"]

REPLICAS: Final = 3
_FOR_EVER: Final = str((1 << 63) - 1)
_CREATE_KEY: Final = 19
_TOLD_WITH_IDS: Final = 7
_TIMEOUT_MS: Final = 8000
_ROUNDS: Final = 1 << 30
_ALLOWED: Final = frozenset({Unclean.SETTING, Unclean.BOTH})


class Load:
    """The clients of one run. It is their world: `sim.actors.surroundings.Surroundings`, as far as these actors need it."""

    def __init__(self, cluster: Surroundings, dice: random.Random) -> None:
        self.cluster = cluster
        self._dice = dice
        self.trace = cluster.trace
        self.loop = cluster.loop
        self.bucket = cluster.bucket
        self.clock = SimClock(cluster.loop)
        self.plan = cluster.plan
        self.model = cluster.model
        self.port = 0
        self.checker = self
        self._producers: list[Any] = []
        self._others: list[Any] = []
        self._groups: list[GroupModel] = []
        self._progress: list[Progress] = []

    def new_producer_id(self, producer_id: int, name: str) -> None:
        """A client got this producer id. Raises `Violation` if another one has it."""
        self.cluster.facts.producer_id_told(producer_id, f"{name}@{self.loop.time()}")

    def check_may_be_gone(self, _topic: TopicModel, _who: str) -> None:
        """A broker whose image is old knows no new topic, and one with an empty disk none at all, for a while."""

    # -- running -------------------------------------------------------------------------------------------------------

    async def create(self) -> None:
        """Make the topics, whatever it takes."""
        for number in range(self.plan.replicated_topics):
            configs = self._configs()
            name = f"replicated{number}"
            port = Routes(self.cluster, "maker", self._dice).any_port()
            caller = Caller(self.loop, "maker", port, random.Random(self._dice.getrandbits(64)))
            caller.version_floors = {_CREATE_KEY: _TOLD_WITH_IDS}
            topic_id = None
            while topic_id is None:
                topic_id = await self._create(caller, name, configs)
            self.model.add(name, topic_id, self.plan.replicated_partitions, configs).replicated = True

    def _configs(self) -> dict[str, str]:
        dice, kind = self._dice, self.plan.kind
        configs = {
            **({} if self.plan.one_minimum else {"min.insync.replicas": str(self.plan.min_in_sync)}),
            **({"unclean.leader.election.enable": "true"} if self.plan.unclean in _ALLOWED else {}),
            "flush.messages": _FOR_EVER if self.plan.unsynced else "1",
            "message.timestamp.after.max.ms": _FOR_EVER,  # clocks of machines are set
            "retention.ms": "-1",
            "internal.segment.bytes": str(dice.choice((2000, 8000, 1 << 20))),
        }
        if kind is Kind.TIERED:
            configs |= {
                "remote.storage.enable": "true",
                "local.retention.bytes": str(dice.choice((0, 0, 3000))),
                "internal.segment.bytes": str(dice.choice((2000, 3000))),
                "segment.ms": str(dice.choice((3000, 604_800_000))),
            }
        elif kind is Kind.COMPACTED:
            configs |= {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": str(dice.choice((0.01, 0.3))),
                "max.compaction.lag.ms": str(dice.choice((1000, 9_223_372_036_854_775_807))),
                "internal.segment.bytes": str(dice.choice((2000, 3000))),
            }
        elif kind is Kind.EXPIRING:
            configs |= {"retention.ms": str(dice.choice((3000, 10_000))), "internal.segment.bytes": "2000"}
        return configs

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

    def _drawn(self) -> random.Random:
        return random.Random(self._dice.getrandbits(64))

    def start(self) -> list[asyncio.Task[Any]]:
        """Begin to write and to read; the tasks run until `stop` has ended them."""
        plan, world = self.plan, self._as_actors_see_it()
        jobs = [RoutedTransactions(world, f"x{one}", self._drawn(), _ROUNDS) for one in range(plan.transactions)]
        self._progress = [job.progress for job in jobs if job.progress is not None]
        self._producers = [RoutedProducer(world, f"w{one}", self._drawn(), _ROUNDS) for one in range(plan.producers)]
        self._producers += jobs
        self._others = [self._reader(f"r{one}") for one in range(plan.readers)]
        self._others += self._members()
        if plan.changes:
            self._others.append(ReplicaAdmin(world, "changes", self._drawn()))
        return [asyncio.ensure_future(one.run()) for one in (*self._producers, *self._others)]

    def _as_actors_see_it(self) -> Any:
        """The part of a world that they use."""
        return self

    def _members(self) -> list[Member]:
        members: list[Member] = []
        kinds: tuple[tuple[type[Member], int], ...] = (
            (RoutedClassicMember, self.plan.classic_members),
            (RoutedConsumerMember, self.plan.consumer_members),
        )
        for kind, count in kinds:
            if count:
                group = GroupModel(kind.__name__, self.model, one_coordinator=False)
                self._groups.append(group)
                world, stem = self._as_actors_see_it(), "cl" if kind is RoutedClassicMember else "co"
                members += [kind(world, f"{stem}{number}", self._drawn(), group) for number in range(count)]
        return members

    def stop(self) -> None:
        """Have producers end when all that they sent is known to be acknowledged, and others at once."""
        for producer in self._producers:
            producer.rounds = 0
        for other in self._others:
            other.stopped = True

    @property
    def acknowledged(self) -> int:
        """Records that producers were acknowledged."""
        partitions = [one for topic in self.model.topics.values() for one in topic.partitions]
        return sum(sent.state is State.ACKNOWLEDGED for one in partitions for sent in one.sent.values())

    def unanswered(self, clients: Sequence[asyncio.Task[Any]]) -> str | None:
        """Return what clients still wait for after `stop`, or None once they have ended. Raises their errors."""
        for task in clients:
            if task.done():
                task.result()
        waiting = sum(not task.done() for task in clients)
        return f"{waiting} clients wait for answers" if waiting else None

    async def read_all(self) -> None:
        """Read every partition and compare it with all that was acknowledged or seen. Raises `Violation`."""
        everything, committed = self._reader("final"), self._reader("committed")
        everything.committed, committed.committed = False, True
        for topic in self.model.living():
            for partition in topic.partitions:
                start, records, end = await everything.read_all(partition, partition.promised_end)
                partition.check_complete(start, records, end)
                if self.plan.transactions or topic.compacted:
                    start, records, _ = await committed.read_all(partition, end)
                    partition.check_committed(start, records)
        for group in self._groups:
            await self._check_offsets_of(group)
        for progress in self._progress:
            await progress.check()

    async def _check_offsets_of(self, group: GroupModel) -> None:
        """Committed offsets are what members were told last."""
        asking = RoutedClassicMember(self._as_actors_see_it(), "asking", self._drawn(), group)
        for partition in group.partitions:
            while True:
                with suppress(LinkLost):
                    if await asking.fetch_committed(partition) is not None:
                        break
                await asyncio.sleep(0.2)

    def _reader(self, name: str) -> RoutedReader:
        return RoutedReader(self._as_actors_see_it(), name, self._drawn())
