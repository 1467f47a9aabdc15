"""Members of consumer groups, of both protocols: they join, commit, stall, leave and crash."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from sim.actors.codes import COORDINATOR_RETRIABLE, GONE
from sim.actors.link import Caller, LinkLost
from sim.actors.surroundings import Surroundings
from sim.group_model import GroupModel
from sim.model import PartitionModel, Violation
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from stratalog.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    encode_protocol,
)

__all__ = ["ClassicMember", "ConsumerMember", "Member"]

_COMMIT, _FETCH = 8, 9
_SESSION_MS: Final = 6000
_OUT: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


class _Out(Exception):
    """The coordinator does not take this member for one any more, or wants it to join again."""


class Member(Caller):
    """Base of both kinds. ``model`` is the group's."""

    def __init__(self, world: Surroundings, name: str, dice: random.Random, model: GroupModel) -> None:
        super().__init__(world.loop, name, world.port, dice)
        self.world = world
        self.model = model
        self.stopped = False
        self.member_id = ""
        self.generation = -1
        self.positions: dict[PartitionModel, int] = {}

    async def run(self) -> None:
        """Be a member, again and again."""
        while not self.stopped:
            try:
                await self.live()
            except (LinkLost, _Out) as error:
                self.loop.trace.note(self.name, f"is out: {error}")
                self.let_go()
                await asyncio.sleep(self.dice.uniform(0, 0.5))
        self.let_go()

    async def live(self) -> None:
        """Join and work until something ends it. Raises `LinkLost`, `_Out`."""
        raise NotImplementedError

    async def beat(self) -> None:
        """Tell that it is alive. Raises `LinkLost`, `_Out`."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Leave the group. Raises `LinkLost`, `_Out`."""
        raise NotImplementedError

    async def work(self) -> None:
        """Read on, commit, and tell that it is alive, for a while."""
        for _ in range(self.dice.randint(3, 25)):
            await asyncio.sleep(self.dice.uniform(0.1, 0.7))
            if self.stopped:
                return
            fate = self.dice.random()
            if fate < 0.05:
                self.loop.trace.note(self.name, "stalls")
                await asyncio.sleep(self.dice.uniform(3, 12))
                await self.commit()  # before it hears that its session may be over
            elif fate < 0.08:
                self.loop.trace.note(self.name, "crashes")
                self.close()
                self.member_id = ""
                raise _Out("crashed")
            elif fate < 0.12:
                self.let_go()
                await self.leave()
                return
            await self.beat()
            if self.dice.random() < 0.6:
                await self.commit()

    def let_go(self) -> None:
        """From here on it works on nothing."""
        self.model.release(self)
        self.positions.clear()

    async def take(self, partitions: list[PartitionModel]) -> None:
        """It was given these. Raises `LinkLost`, `_Out`, `Violation`."""
        self.loop.trace.note(self.name, f"has {', '.join(map(str, partitions)) or 'nothing'} in {self.generation}")
        self.model.take(self, partitions, self.loop.time())
        missing = [one for one in partitions if one not in self.positions]
        self.positions = {one: position for one, position in self.positions.items() if one in partitions}
        for partition in missing:
            committed = await self.fetch_committed(partition)
            if committed is not None:
                self.positions[partition] = max(committed, partition.start)

    def heard(self) -> None:
        """The coordinator says that all is well."""
        self.model.heard(self, self.loop.time())

    # -- offsets -------------------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Commit a position further on. Raises `LinkLost`, `_Out`, `Violation`."""
        choices = [one for one in self.positions if not one.topic.deleting]
        if not choices:
            return
        partition = self.dice.choice(choices)
        offset = self.dice.randint(self.positions[partition], max(self.positions[partition], partition.end))
        floor = self.model.attempt(partition, offset)
        request = OffsetCommitRequest(
            group_id=self.model.name,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=partition.topic.name,
                    topic_id=partition.topic.topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition.number, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        answer = await self.call(request)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        self.loop.trace.note(self.name, f"commits {partition} at {offset} in {self.generation}: {code.name}")
        if code is ErrorCode.NONE:
            self.positions[partition] = offset
            self.model.committed(partition, offset, self.name, floor)
        elif code in _OUT:
            raise _Out(code.name)
        elif code in GONE:
            self.world.check_may_be_gone(partition.topic, self.name)
        elif code not in COORDINATOR_RETRIABLE:
            raise Violation(f"{self.name}: OffsetCommit answers {code.name}")

    async def fetch_committed(self, partition: PartitionModel) -> int | None:
        """The committed offsets of the group. Raises `LinkLost`, `_Out`, `Violation`."""
        name, topic_id, number = partition.topic.name, partition.topic.topic_id, partition.number
        request = OffsetFetchRequest(
            group_id=self.model.name,
            topics=[OffsetFetchRequestTopic(name=name, partition_indexes=[number])],
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self.model.name,
                    topics=[OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[number])],
                )
            ],
            require_stable=False,
        )
        floor = self.model.floor(partition)
        answer = await self.call(request)
        if not self.is_current:
            return None
        holder = answer.groups[0] if answer.groups else answer
        codes = [ErrorCode(holder.error_code)]
        if holder.topics:
            found = holder.topics[0].partitions[0]
            codes.append(ErrorCode(found.error_code))
            if not any(codes):
                self.model.fetched(partition, found.committed_offset, self.name, floor)
                return max(int(found.committed_offset), 0)
        for code in codes:
            if code in _OUT:
                raise _Out(code.name)
            if code and code not in COORDINATOR_RETRIABLE | GONE:
                raise Violation(f"{self.name}: OffsetFetch answers {code.name}")
        return None

    async def find_coordinator(self) -> None:
        """Have the coordinator's topic made. Raises `LinkLost`."""
        name = self.model.name
        await self.call(FindCoordinatorRequest(key=name, key_type=0, coordinator_keys=[name]))

    def check(self, what: str, number: int) -> bool:
        """Whether all is well; False if it is to be asked again. Raises `_Out`, `Violation`."""
        code = ErrorCode(number)
        if code in _OUT:
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self.member_id = ""
            raise _Out(f"{what}: {code.name}")
        if code and code not in COORDINATOR_RETRIABLE:
            raise Violation(f"{self.name}: {what} answers {code.name}")
        return not code


class ClassicMember(Member):
    """A member of the classic protocol; the leader spreads the partitions."""

    async def live(self) -> None:
        """Join, be given something, work. A member that joins again gives up all its partitions first: the eager protocol."""
        self.let_go()
        joined = await self._join()
        if joined is None:
            await asyncio.sleep(0.2)
            return
        assignments = []
        if joined.leader == self.member_id:
            assignments = self._assign([one.member_id for one in joined.members])
        answer = await self.call(
            SyncGroupRequest(
                group_id=self.model.name,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            ),
            timeout=20,
        )
        if not self.check("SyncGroup", answer.error_code):
            return
        given = decode_assignment(answer.assignment).assigned_partitions if answer.assignment else []
        await self.take(self.model.find([(one.topic, number) for one in given for number in one.partitions]))
        await self.work()

    async def _join(self) -> Any:
        await self.find_coordinator()
        topics = [topic.name for topic in self.world.model.living()]
        metadata = encode_protocol(ConsumerProtocolSubscription(topics=topics), 0)
        answer = await self.call(
            JoinGroupRequest(
                group_id=self.model.name,
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=5000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
            ),
            timeout=20,
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return None
        if not self.check("JoinGroup", answer.error_code):
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def _assign(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        shares: dict[str, list[OwnedPartitions]] = {member: [] for member in members}
        partitions = [one for topic in self.world.model.living() for one in topic.partitions]
        for turn, partition in enumerate(partitions):
            share = shares[members[turn % len(members)]]
            share.append(OwnedPartitions(topic=partition.topic.name, partitions=[partition.number]))
        return [
            SyncGroupRequestAssignment(
                member_id=member,
                assignment=encode_protocol(ConsumerProtocolAssignment(assigned_partitions=share), 0),
            )
            for member, share in shares.items()
        ]

    async def beat(self) -> None:
        """Heartbeat."""
        answer = await self.call(
            HeartbeatRequest(group_id=self.model.name, generation_id=self.generation, member_id=self.member_id)
        )
        if self.check("Heartbeat", answer.error_code):
            self.heard()

    async def leave(self) -> None:
        """LeaveGroup."""
        member, self.member_id = self.member_id, ""
        answer = await self.call(
            LeaveGroupRequest(group_id=self.model.name, member_id=member, members=[MemberIdentity(member_id=member)])
        )
        self.check("LeaveGroup", answer.error_code)


class ConsumerMember(Member):
    """A member of the protocol of KIP-848; the coordinator spreads the partitions."""

    def __init__(self, world: Surroundings, name: str, dice: random.Random, model: GroupModel) -> None:
        super().__init__(world, name, dice, model)
        self.version_floors = {_COMMIT: 9, _FETCH: 9}
        self._lives = 0
        self._target: list[PartitionModel] = []

    async def live(self) -> None:
        """Join under a new id, and work on whatever heartbeats bring."""
        self.let_go()
        await self.find_coordinator()
        self._lives += 1
        self.member_id, self.generation, self._target = f"{self.name}-{self._lives}", 0, []
        await self.beat()
        await self.work()

    async def beat(self) -> None:
        """ConsumerGroupHeartbeat; takes what it is given, lets go of what it is not."""
        joining = self.generation == 0
        if not joining:
            await self._follow()
        owned: dict[bytes, list[int]] = {}
        for one in self.positions:
            owned.setdefault(one.topic.topic_id, []).append(one.number)
        answer = await self.call(
            ConsumerGroupHeartbeatRequest(
                group_id=self.model.name,
                member_id=self.member_id,
                member_epoch=self.generation,
                rebalance_timeout_ms=5000,
                subscribed_topic_names=sorted(topic.name for topic in self.world.model.living()),
                topic_partitions=[TopicPartitions(topic_id=key, partitions=value) for key, value in owned.items()],
            )
        )
        if not self.check("ConsumerGroupHeartbeat", answer.error_code):
            if joining:
                raise _Out("not joined yet")
            return
        self.member_id, self.generation = answer.member_id or self.member_id, answer.member_epoch
        self.heard()
        if answer.assignment is not None:
            given = answer.assignment.topic_partitions
            self._target = self.model.find([(one.topic_id, number) for one in given for number in one.partitions])
        await self._follow()

    async def _follow(self) -> None:
        if set(self._target) != set(self.positions):
            await self.take(self._target)

    async def leave(self) -> None:
        """Leave with epoch -1."""
        answer = await self.call(
            ConsumerGroupHeartbeatRequest(group_id=self.model.name, member_id=self.member_id, member_epoch=-1)
        )
        self.check("leaving", answer.error_code)
