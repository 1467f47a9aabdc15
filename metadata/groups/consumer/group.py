"""A consumer group of KIP-848: its members say by heartbeats what they want and have, the coordinator assigns.

All that lasts is in `ConsumerState`, made of records. Heartbeats are served by
`stratalog.metadata.groups.consumer.heartbeat`, members that speak the classic protocol by
`stratalog.metadata.groups.consumer.classic`. Sources: KIP-848, KIP-1251 (offset commits of older epochs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stratalog.metadata.coordination import Action, Now, Reply
from stratalog.metadata.groups.consumer.classic import serve_classic
from stratalog.metadata.groups.consumer.core import ConsumerCore, Timer
from stratalog.metadata.groups.consumer.fence import fence
from stratalog.metadata.groups.consumer.heartbeat import serve_heartbeat
from stratalog.metadata.groups.consumer.member import ConsumerMember, MemberState
from stratalog.metadata.groups.group import GroupRequest, GroupType, PartitionCheck
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.schema import Message
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["ConsumerGroup"]

_COMMIT_SINCE: Final = 9
"""The version of OffsetCommit from which on members can send their epoch."""
_FENCED_BYTES: Final = 1 << 20
"""After a load all sessions end in the same moment, and the ids of members may be long."""
_RECORDS_EACH: Final = 3
"""Tombstones of a member, each with its id and the group's."""
_UNKNOWN_SINCE: Final = -1


class ConsumerGroup(ConsumerCore):
    """One consumer group, as its shard sees it."""

    @property
    def type(self) -> GroupType:
        """A consumer group."""
        return GroupType.CONSUMER

    @property
    def state(self) -> str:
        """The state as it is listed."""
        return self.facts.state.value

    @property
    def protocol_type(self) -> str:
        """Members are consumers."""
        return "consumer"

    @property
    def member_count(self) -> int:
        """Its members."""
        return len(self.facts.members)

    @property
    def held_bytes(self) -> int:
        """The bytes that are kept for its members."""
        return self.facts.held_bytes

    @property
    def assigned_bytes(self) -> int:
        """Those of them that a leader's next assignments replace: no member leads."""
        return 0

    def bytes_held_of(self, member_id: str, instance_id: str | None) -> int | None:
        """The bytes that a member has kept; None for no member."""
        members = self.facts.members
        member = members.get(member_id) or members.get(self.facts.static_members.get(instance_id or "", ""))
        return None if member is None else member.held_bytes

    @property
    def empty_since_ms(self) -> int | None:
        """Unknown while it has no members: offsets count from when they were committed."""
        return None if self.facts.members else _UNKNOWN_SINCE

    def subscribes(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by expression."""
        return self.facts.subscribes(topic)

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP while it has members."""
        if self.facts.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def offset_committed(self, member_id: str, now: Now) -> None:
        """Does nothing: only heartbeats keep a session."""

    def parked(self) -> Sequence[Any]:
        """Always empty: no request waits."""
        return ()

    def replay(self, key: Message, value: Message | None) -> None:
        """Apply a record of the log."""
        self.facts.replay(key, value)

    def loaded(self, now: Now) -> list[Action]:
        """Sessions begin anew, and so does the time to give partitions up."""
        for member in self.facts.members.values():
            self.begin_session(member, now)
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                self.timers.set((Timer.REVOCATION, member.member_id), now.monotonic_ms + member.rebalance_timeout_ms)
        return []

    def deadline(self) -> int | None:
        """A moment not after the earliest deadline of a member."""
        return self.timers.next_ms()

    def due(self, now: Now) -> list[Action]:
        """Members whose deadline has passed are fenced: as many as one append should hold, the others in the next turn."""
        late: dict[str, ConsumerMember] = {}
        size_bytes = 0
        for kind, member_id in self.timers.passed(now.monotonic_ms):
            member = self.facts.members.get(member_id)
            if member is None or member_id in late:
                continue
            if size_bytes > _FENCED_BYTES:
                self.timers.set((kind, member_id), now.monotonic_ms)
                continue
            late[member_id] = member
            size_bytes += _RECORDS_EACH * (len(self.group_id.encode()) + len(member_id.encode()))
        return fence(self, list(late.values()), now) if late else []

    def step(self, event: GroupRequest, now: Now) -> list[Action]:
        """A request of a member: of the consumer protocol, or of the classic one."""
        request = event.request
        try:
            if isinstance(request, ConsumerGroupHeartbeatRequest):
                return serve_heartbeat(self, request, event, now)
            return serve_classic(self, event, now)
        except KafkaError as error:
            return [Reply(event.token, error)]

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, api_version: int
    ) -> PartitionCheck | None:
        """Whether a member may commit in this epoch.

        An older epoch than the member's own is fine for a partition that the member had then and has still, be it to
        give it up (KIP-1251): that is asked of each. Raises UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH,
        ILLEGAL_GENERATION.
        """
        if epoch < 0 and not self.facts.members:
            return None
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return None
        member = self.known_member(member_id)
        if not transactional and member.classic is None and api_version < _COMMIT_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(member, epoch)

        def check(topic: str, topic_id: Uuid, partition: int) -> None:
            known = self.surroundings.image.topics.by_name.get(topic) if topic_id == ZERO_UUID else None
            given_in = member.given_in(topic_id if known is None else known.topic_id, partition)
            if given_in is None or epoch < given_in:
                raise _stale(member, epoch)

        return check

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether a member may read offsets. Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION."""
        if member_id is None and member_epoch < 0:
            return
        member = self.known_member(member_id or "")
        if member_epoch != member.epoch:
            raise _stale(member, member_epoch)


def _stale(member: ConsumerMember, epoch: int) -> KafkaError:
    if member.classic is not None:
        return KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The received generation id {epoch} does not match the expected member epoch {member.epoch}.",
        )
    return KafkaError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}.",
    )
