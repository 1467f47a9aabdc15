"""An administrator of the topics that clients use: moves replicas and leaders, changes who may lead, deletes records."""

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
from stratalog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

__all__ = ["CHANGES", "ReplicaAdmin"]

_TIMEOUT_MS: Final = 8000
_ELECT_KEY: Final = 43
_ELECT_WITH_TYPE: Final = 1
_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_SET: Final = 0
_DELETE: Final = 1
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_MINIMUM: Final = "min.insync.replicas"
_UNKNOWN: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""The command was carried out, or may be; a broker whose image is old knows no new topic."""
_NOT_MOVED: Final = frozenset(
    {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICATION_FACTOR}
)
_NOT_ELECTED: Final = frozenset({ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE})
_NOT_ELECTED_UNCLEANLY: Final = frozenset({ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE})


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
        self.version_floors[_ELECT_KEY] = _ELECT_WITH_TYPE
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
        await self._elect(_PREFERRED, name, [number], _NOT_ELECTED)

    async def _elect(self, kind: int, name: str, numbers: list[int], wanted: frozenset[ErrorCode]) -> None:
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=[TopicPartitions(topic=name, partitions=numbers)],
            timeout_ms=_TIMEOUT_MS,
        )
        answer = await self.call(request, timeout=15)
        what = f"elects {'the preferred' if kind == _PREFERRED else 'any'} leader of {name}"
        if answer.error_code:
            self._heard(what, answer.error_code, wanted)
        for one in (one for each in answer.replica_election_results for one in each.partition_result):
            self._heard(f"{what}-{one.partition_id}", one.error_code, wanted)

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
        """Ask for one to three replicas in sync. Raises `LinkLost`, `Violation`."""
        if self.world.plan.one_minimum and self.dice.random() < 0.3:
            await self._set(ResourceType.TOPIC, topic.name, _MINIMUM, None)
        else:
            await self._set(ResourceType.TOPIC, topic.name, _MINIMUM, self.dice.choice("123"))

    async def change_cluster_minimum(self, topic: TopicModel) -> None:
        """Ask for one to three replicas in sync in all topics without a number of their own. Raises `LinkLost`, `Violation`."""
        del topic
        await self._set(ResourceType.BROKER, "", _MINIMUM, self.dice.choice("123"))

    async def change_unclean(self, topic: TopicModel) -> None:
        """Let replicas lead that may lack records, or no more. Raises `LinkLost`, `Violation`."""
        value = self.dice.choice(("true", "false"))
        await self._set(ResourceType.TOPIC, topic.name, "unclean.leader.election.enable", value)

    async def _set(self, kind: ResourceType, name: str, setting: str, value: str | None) -> None:
        config = AlterableConfig(name=setting, config_operation=_SET if value is not None else _DELETE, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        answer = await self.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), timeout=15)
        self._heard(f"sets {setting}={value} of {name or 'all'}", answer.responses[0].error_code, frozenset())

    async def change_level(self, topic: TopicModel) -> None:
        """Begin to keep eligible leader replicas, or give them up. Raises `LinkLost`, `Violation`."""
        del topic
        level = self.dice.choice((0, 1))
        update = FeatureUpdateKey(
            feature="eligible.leader.replicas.version",
            max_version_level=level,
            allow_downgrade=level == 0,
            upgrade_type=_UPGRADE if level else _SAFE_DOWNGRADE,
        )
        request = UpdateFeaturesRequest(timeout_ms=_TIMEOUT_MS, feature_updates=[update], validate_only=False)
        answer = await self.call(request, timeout=15)
        code = answer.error_code or next((one.error_code for one in answer.results or ()), 0)
        self._heard(f"sets the level of eligible replicas to {level}", code, frozenset())

    async def elect_uncleanly(self, topic: TopicModel) -> None:
        """Have any replica lead that lives, where there is no leader. Raises `LinkLost`, `Violation`."""
        numbers = [one.number for one in topic.partitions]
        await self._elect(_UNCLEAN, topic.name, numbers, _NOT_ELECTED_UNCLEANLY)

    async def delete(self, topic: TopicModel) -> None:
        """Delete records below an offset. Raises `LinkLost`, `Violation`."""
        await self.delete_records(self.dice.choice(topic.partitions))


_KINDS: Final[dict[str, Callable[[ReplicaAdmin, TopicModel], Awaitable[None]]]] = {
    "elect": ReplicaAdmin.elect,
    "reassign": ReplicaAdmin.reassign,
    "minimum": ReplicaAdmin.change_minimum,
    "cluster minimum": ReplicaAdmin.change_cluster_minimum,
    "level": ReplicaAdmin.change_level,
    "unclean": ReplicaAdmin.elect_uncleanly,
    "unclean setting": ReplicaAdmin.change_unclean,
    "delete": ReplicaAdmin.delete,
}
CHANGES: Final = tuple(_KINDS)
