"""A group of the classic rebalance protocol, in which a member computes the assignments.

Sources: Kafka's ``ClassicGroup`` and ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stratalog.metadata.coordination import Action, CoordinatorRecord, Now, Reply
from stratalog.metadata.groups.classic.core import NEVER_MS, ClassicCore
from stratalog.metadata.groups.classic.join import join
from stratalog.metadata.groups.classic.leave import leave
from stratalog.metadata.groups.classic.members import ClassicMember
from stratalog.metadata.groups.classic.rebalance import prepare_rebalance
from stratalog.metadata.groups.classic.state import ClassicState
from stratalog.metadata.groups.classic.subscription import CONSUMER
from stratalog.metadata.groups.classic.sync import sync
from stratalog.metadata.groups.classic.time import time_has_come
from stratalog.metadata.groups.group import GroupRequest, GroupSettings, GroupType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from stratalog.wire.messages.join_group import JoinGroupRequest
from stratalog.wire.messages.leave_group import LeaveGroupRequest
from stratalog.wire.messages.sync_group import SyncGroupRequest
from stratalog.wire.records.group import GroupMetadataKey, GroupMetadataValue, encode_key

__all__ = ["ClassicGroup"]


class ClassicGroup(ClassicCore):
    """A classic group as a `Group`; without members and protocol it is one that only holds offsets."""

    __slots__ = ()

    type = GroupType.CLASSIC
    successor = None

    # -- from the log, and from a group of the other kind -------------------------------------------------------------

    @classmethod
    def restored_from(cls, group_id: str, settings: GroupSettings, value: GroupMetadataValue) -> ClassicGroup:
        """The group as its record says; sessions begin with :meth:`loaded`."""
        group = cls(group_id, settings)
        group.persisted = True
        group.generation = value.generation
        group.protocol_type = value.protocol_type
        group.protocol_name = value.protocol
        for one in value.members:
            group.members.add(
                ClassicMember(
                    member_id=one.member_id,
                    instance_id=one.group_instance_id,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    rebalance_timeout_ms=(
                        one.session_timeout if one.rebalance_timeout == -1 else one.rebalance_timeout
                    ),
                    session_timeout_ms=one.session_timeout,
                    protocols={value.protocol or "": one.subscription},
                    assignment=one.assignment,
                )
            )
        if value.leader in group.members.by_id:
            group.members.leader_id = value.leader
        group.restored(ClassicState.STABLE if value.members else ClassicState.EMPTY, value.current_state_timestamp)
        group.learn_topics()
        return group

    @classmethod
    def converted(
        cls,
        group_id: str,
        settings: GroupSettings,
        *,
        generation: int,
        protocol_name: str,
        leader: str,
        members: Iterable[ClassicMember],
        now: Now,
    ) -> ClassicGroup:
        """A stable group of consumers that had another kind until now; their sessions begin."""
        group = cls(group_id, settings)
        group.generation = generation
        group.protocol_type = CONSUMER
        group.protocol_name = protocol_name
        for member in members:
            group.members.add(member)
            group.begin_session(member, now)
        group.members.leader_id = leader
        group.restored(ClassicState.STABLE, now.wall_ms)
        group.learn_topics()
        return group

    def loaded(self, now: Now) -> list[Action]:
        """Sessions begin; a group that is too large by now rebalances, so that its last members are turned away."""
        for member in self.members.by_id.values():
            self.begin_session(member, now)
        if len(self.members.by_id) > self.settings.max_size:
            return self.prepare_rebalance(now)
        return []

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """The state's name."""
        return self._state.value

    @property
    def member_count(self) -> int:
        """Its members, and the member ids that were given out and not used yet."""
        return len(self.members.by_id) + len(self.pending)

    @property
    def held_bytes(self) -> int:
        """The bytes that are kept for its members."""
        return self.members.held_bytes

    @property
    def assigned_bytes(self) -> int:
        """Those of them that the leader's next assignments replace."""
        return sum([len(member.assignment) for member in self.members.by_id.values()])

    def bytes_held_of(self, member_id: str, instance_id: str | None) -> int | None:
        """The bytes that a member has kept; 0 for one that may become one, None for no member."""
        members = self.members
        member = members.by_id.get(member_id) or members.by_id.get(members.static_ids.get(instance_id or "", ""))
        return member.held_bytes if member is not None else 0 if member_id in self.pending else None

    @property
    def empty_since_ms(self) -> int | None:
        """Wall-clock time since when it has no members, -1 if that is not known; None while it has some."""
        return self.state_since_ms if self._state is ClassicState.EMPTY else None

    def subscribes(self, topic: str) -> bool:
        """Whether a consumer of the group reads the topic, or may, if its subscription cannot be read."""
        if self.topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.topics

    def tombstones(self) -> list[CoordinatorRecord]:
        """The record that deletes the group, if there is one to delete."""
        if not self.persisted:
            return []
        return [CoordinatorRecord(encode_key(GroupMetadataKey(group=self.group_id)), None)]

    def metadata_record(self) -> CoordinatorRecord:
        """The record of its present generation."""
        return self.record()

    # -- offsets and deletion -----------------------------------------------------------------------------------------

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, api_version: int
    ) -> None:
        """Whether this member may commit in this generation; without a generation only while there are no members.

        Raises UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS.
        """
        del api_version
        if self._state is ClassicState.EMPTY and epoch < 0:
            return
        if epoch >= 0 or member_id or instance_id is not None:
            self.members.check(member_id, instance_id)
            if epoch != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and self._state is not ClassicState.EMPTY:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self._state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def offset_committed(self, member_id: str, now: Now) -> None:
        """A member that commits is alive."""
        member = self.members.by_id.get(member_id)
        if member is not None and not member.is_new:
            self.begin_session(member, now)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Every client may read offsets."""

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP while there are members or a rebalance is under way."""
        if self._state is not ClassicState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    # -- events -------------------------------------------------------------------------------------------------------

    def step(self, event: GroupRequest, now: Now) -> list[Action]:
        """A request of a member."""
        request: Any = event.request
        kind = type(request)
        if kind is HeartbeatRequest:
            return [Reply(event.token, HeartbeatResponse(error_code=self.heartbeat(request, now)))]
        if kind is JoinGroupRequest:
            return join(self, event, now)
        if kind is SyncGroupRequest:
            return sync(self, event, now)
        assert kind is LeaveGroupRequest, kind
        return leave(self, event, now)

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> int:
        """A member is alive; the error code of the answer."""
        member = self.members.by_id.get(request.member_id)
        if member is None or request.group_instance_id is not None:
            try:
                member = self.members.check(request.member_id, request.group_instance_id)
            except KafkaError as error:
                return error.code
        if request.generation_id != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        ends_ms = member.session_ends_ms = now.monotonic_ms + member.session_timeout_ms
        if ends_ms < self.wake_ms:  # noqa: PLR1730 - no call: this is what a group does most
            self.wake_ms = ends_ms
        return ErrorCode.REBALANCE_IN_PROGRESS if self._state is ClassicState.PREPARING_REBALANCE else 0

    def prepare_rebalance(self, now: Now) -> list[Action]:
        """Ask all members to join again."""
        actions: list[Action] = []
        prepare_rebalance(self, now, actions)
        return actions

    def deadline(self) -> int | None:
        """When to call :meth:`due`."""
        return None if self.wake_ms == NEVER_MS else self.wake_ms

    def due(self, now: Now) -> list[Action]:
        """Sessions end, rebalances time out."""
        return time_has_come(self, now) if self.wake_ms <= now.monotonic_ms else []

    # -- those that wait ----------------------------------------------------------------------------------------------

    def parked(self) -> list[Any]:
        """Tokens of the members that wait for a join or a sync."""
        tokens = [token for one in self.members.by_id.values() for token in (one.join_token, one.sync_token)]
        return [token for token in tokens if token is not None]

    def parked_replies(self, code: ErrorCode) -> list[Action]:
        """Answer every waiting request with ``code``."""
        actions: list[Action] = []
        for member in self.members.by_id.values():
            token = self.members.take_join(member)
            if token is not None:
                actions.append(self.join_refused(token, member.member_id, code))
            self.refuse_sync(member, actions, code)
        return actions
