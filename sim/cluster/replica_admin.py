"""An administrator of the topics that clients use: moves replicas and leaders, changes min.insync.replicas, deletes records."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from sim.actors.admin import Admin
from sim.actors.link import LinkLost
from sim.cluster.routes import COORDINATORS, GROUPS, TRANSACTIONS, Routed
from sim.model import TopicModel, Violation
from stratalog.metadata.image.configs_image import ResourceType
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from stratalog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

__all__ = ["CHANGES", "ReplicaAdmin"]

_TIMEOUT_MS: Final = 8000
_PREFERRED: Final = 0
_UNKNOWN: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""The command was carried out, or may be; a broker whose image is old knows no new topic."""
_NOT_MOVED: Final = frozenset(
    {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICATION_FACTOR}
)
_NOT_ELECTED: Final = frozenset({ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE})


class ReplicaAdmin(Routed, Admin):
    """One command after the other until `stopped` is set."""

    refusals = frozenset(
        {
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.POLICY_VIOLATION,
        }
    )

    def __init__(self, world: Any, name: str, dice: random.Random) -> None:
        super().__init__(world, name, dice)
        self._kinds = [_KINDS[kind] for kind in world.plan.changes]

    async def run(self, changes: int = 0) -> None:
        """Make changes; ``changes`` is not looked at."""
        del changes
        while not self.stopped:
            await asyncio.sleep(self.dice.uniform(0.5, 3))
            topic = self.dice.choice(self.world.model.living())
            try:
                await self.dice.choice(self._kinds)(self, topic)
            except LinkLost:
                continue

    def _heard(self, what: str, code: int, wanted: frozenset[ErrorCode]) -> None:
        error = ErrorCode(code)
        self.loop.trace.note(self.name, f"{what}: {error.name}")
        if error not in wanted | _UNKNOWN:
            raise Violation(f"{self.name}: {what} is answered with {error.name}")

    async def elect(self, topic: TopicModel) -> None:
        """Have the preferred replica lead, or coordinate. Raises `LinkLost`, `Violation`."""
        name = self.dice.choice((topic.name, GROUPS, TRANSACTIONS))
        number = self.dice.randrange(len(topic.partitions) if name == topic.name else COORDINATORS)
        request = ElectLeadersRequest(
            election_type=_PREFERRED,
            topic_partitions=[TopicPartitions(topic=name, partitions=[number])],
            timeout_ms=_TIMEOUT_MS,
        )
        answer = await self.call(request, timeout=15)
        results = [one for each in answer.replica_election_results for one in each.partition_result]
        code = answer.error_code or (results[0].error_code if results else 0)
        self._heard(f"elects the preferred leader of {name}-{number}", code, _NOT_ELECTED)

    async def reassign(self, topic: TopicModel) -> None:
        """Place a partition on two or three brokers, in another order, or stop doing so. Raises `LinkLost`, `Violation`."""
        number = self.dice.randrange(len(topic.partitions))
        brokers = [one.id for one in self.world.cluster.members.values() if not one.is_controller]
        is_cancelled = self.dice.random() < 0.2
        replicas = None if is_cancelled else self.dice.sample(brokers, self.dice.choice((2, 3, 3, 3)))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=_TIMEOUT_MS,
            topics=[
                ReassignableTopic(
                    name=topic.name, partitions=[ReassignablePartition(partition_index=number, replicas=replicas)]
                )
            ],
        )
        answer = await self.call(request, timeout=15)
        code = answer.error_code or answer.responses[0].partitions[0].error_code
        self._heard(f"places {topic.name}-{number} on {replicas}", code, _NOT_MOVED)

    async def change_minimum(self, topic: TopicModel) -> None:
        """Ask for one or two replicas in sync. Raises `LinkLost`, `Violation`."""
        minimum = self.dice.choice("12")
        setting = AlterableConfig(name="min.insync.replicas", config_operation=0, value=minimum)
        resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic.name, configs=[setting])
        answer = await self.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), timeout=15)
        self._heard(f"sets min.insync.replicas={minimum} of {topic.name}", answer.responses[0].error_code, frozenset())

    async def delete(self, topic: TopicModel) -> None:
        """Delete records below an offset. Raises `LinkLost`, `Violation`."""
        await self.delete_records(self.dice.choice(topic.partitions))


_KINDS: Final[dict[str, Callable[[ReplicaAdmin, TopicModel], Awaitable[None]]]] = {
    "elect": ReplicaAdmin.elect,
    "reassign": ReplicaAdmin.reassign,
    "minimum": ReplicaAdmin.change_minimum,
    "delete": ReplicaAdmin.delete,
}
CHANGES: Final = tuple(_KINDS)
