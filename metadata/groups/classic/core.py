"""The state of a classic group: its members, its generation, its state, its deadlines and its record.

The modules beside this one change it: ``classic_join``, ``classic_sync``, ``classic_leave`` take requests,
``classic_rebalance`` turns generations, ``classic_time`` ends sessions.

A member's heartbeat only moves the end of its session; nothing is scheduled for it. The group keeps one moment, `wake_ms`,
before which nothing can be due, and looks at its members when that has come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stratalog.metadata.coordination import Action, CoordinatorRecord, Now, Reply
from stratalog.metadata.groups.classic.members import ClassicMember, ClassicMembers
from stratalog.metadata.groups.classic.state import NEXT_STATES, ClassicState
from stratalog.metadata.groups.classic.subscription import CONSUMER, subscribed_topics
from stratalog.metadata.groups.group import GroupSettings
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from stratalog.wire.messages.sync_group import SyncGroupResponse
from stratalog.wire.records.group import GroupMetadataKey, GroupMetadataValue, MemberMetadata, encode_key, encode_value

__all__ = ["NEVER_MS", "ClassicCore"]

NEVER_MS: Final = 1 << 62
"""A moment that does not come."""


class ClassicCore:
    """The data of a classic group, and the steps that all of its parts share. Times in milliseconds."""

    __slots__ = (
        "_state",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "is_initial",
        "join_ends_ms",
        "members",
        "newcomer",
        "pending",
        "pending_sync",
        "persisted",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "rebalances_completed",
        "sessions_expired",
        "settings",
        "state_since_ms",
        "sync_ends_ms",
        "topics",
        "wake_ms",
    )

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.settings = settings
        self._state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_since_ms = -1
        """Wall clock; -1 if not known."""
        self.generation = 0
        self.protocol_type = ""
        """``consumer`` for consumers; empty for a group that never had members."""
        self.protocol_name: str | None = None
        self.members = ClassicMembers()
        self.pending: dict[str, int] = {}
        """Member id to the monotonic time in ms at which the unclaimed id expires (KIP-394)."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not asked for their assignment."""
        self.topics: frozenset[str] | None = None
        """The topics that consumers subscribe to; None if that is not known."""
        self.persisted = False
        """Whether a record of the group is in the log, or on its way."""
        self.join_ends_ms = NEVER_MS
        self.is_initial = False
        """Whether the end of the join phase is that of an initial rebalance, which newcomers put off."""
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self.newcomer = False
        self.sync_ends_ms = NEVER_MS
        self.wake_ms = NEVER_MS
        self.rebalances_completed = 0
        self.sessions_expired = 0

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def phase(self) -> ClassicState:
        """Where the group is in its life."""
        return self._state

    def transition(self, state: ClassicState, now: Now) -> None:
        """Go on to ``state``, as the transition table allows."""
        assert state in NEXT_STATES[self._state], f"group {self.group_id}: {self._state} cannot become {state}"
        self.previous_state, self._state = self._state, state
        self.state_since_ms = now.wall_ms

    def restored(self, state: ClassicState, since_ms: int) -> None:
        """The log says that it is in ``state``."""
        self._state = state
        self.state_since_ms = since_ms

    @property
    def all_joined(self) -> bool:
        """Whether the next generation can begin: no member has to be waited for."""
        return self.members.all_joined and not self.pending

    def next_generation(self, now: Now) -> None:
        """Fix the members and the protocol of a new generation."""
        self.generation += 1
        self.pending_sync.clear()
        if self.members.by_id:
            self.protocol_name = self.members.chosen_protocol()
            self.transition(ClassicState.COMPLETING_REBALANCE, now)
        else:
            self.protocol_name = None
            self.transition(ClassicState.EMPTY, now)
        self.learn_topics()

    def learn_topics(self) -> None:
        """Read what the members subscribe to, if they are consumers."""
        name = self.protocol_name
        members = self.members.by_id.values()
        if self.protocol_type != CONSUMER or (members and name is None):
            self.topics = None
        else:
            self.topics = subscribed_topics(member.protocols[name or ""] for member in members)

    # -- time ---------------------------------------------------------------------------------------------------------

    def wake_at(self, moment_ms: int) -> None:
        """Something may be due at this moment."""
        self.wake_ms = min(self.wake_ms, moment_ms)

    def begin_session(self, member: ClassicMember, now: Now, session_ms: int | None = None) -> None:
        """The member was heard of, or is answered now: its session begins anew."""
        timeout_ms = member.session_timeout_ms if session_ms is None else session_ms
        ends_ms = member.session_ends_ms = now.monotonic_ms + timeout_ms
        self.wake_ms = min(self.wake_ms, ends_ms)

    def wait_for_joins(self, now: Now, wait_ms: int) -> None:
        """Members have so long to join."""
        self.join_ends_ms = now.monotonic_ms + wait_ms
        self.wake_at(self.join_ends_ms)

    def wait_for_syncs(self, now: Now) -> None:
        """Members have the rebalance time-out to ask for their assignments."""
        self.sync_ends_ms = now.monotonic_ms + self.members.rebalance_timeout_ms
        self.wake_at(self.sync_ends_ms)

    def heard_sync(self, member_id: str) -> None:
        """A member has asked for its assignment."""
        self.pending_sync.discard(member_id)
        if not self.pending_sync:
            self.sync_ends_ms = NEVER_MS

    # -- members ------------------------------------------------------------------------------------------------------

    def remove(self, member: ClassicMember, actions: list[Action], code: ErrorCode) -> None:
        """Remove a member; what it waits for is answered with ``code``."""
        token = self.members.take_join(member)
        if token is not None:
            actions.append(self.join_refused(token, "", code))
        self.refuse_sync(member, actions, code)
        self.members.remove(member.member_id)
        self.pending_sync.discard(member.member_id)

    def refuse_sync(self, member: ClassicMember, actions: list[Action], code: ErrorCode) -> None:
        """Answer a SyncGroup that waits with ``code``."""
        token, member.sync_token = member.sync_token, None
        if token is not None:
            actions.append(Reply(token, SyncGroupResponse(error_code=code)))

    # -- answers ------------------------------------------------------------------------------------------------------

    @staticmethod
    def join_refused(token: Any, member_id: str, code: ErrorCode) -> Reply:
        """The answer to a JoinGroup that is not taken."""
        return Reply(token, JoinGroupResponse(error_code=code, member_id=member_id))

    def joined(self, member_id: str, *, leader: str | None = None, skip_assignment: bool = False) -> JoinGroupResponse:
        """The answer to a JoinGroup: the present generation; with its members for the one that leads.

        ``leader``: whom to name instead.
        """
        leader_id = (self.members.leader_id or "") if leader is None else leader
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=leader_id,
            skip_assignment=skip_assignment,
            member_id=member_id,
            members=self._listed() if member_id == leader_id else [],
        )

    def _listed(self) -> list[JoinGroupResponseMember]:
        name = self.protocol_name
        assert name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.protocols[name]
            )
            for member in self.members.by_id.values()
        ]

    def assigned(self, member: ClassicMember) -> SyncGroupResponse:
        """The answer to a SyncGroup: the member's assignment."""
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )

    # -- the log ------------------------------------------------------------------------------------------------------

    def record(self) -> CoordinatorRecord:
        """The record of the present generation."""
        self.persisted = True
        name = self.protocol_name
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=name,
            leader=self.members.leader_id,
            current_state_timestamp=self.state_since_ms,
            members=[] if name is None else _stored(self.members.by_id.values(), name),
        )
        return CoordinatorRecord(encode_key(GroupMetadataKey(group=self.group_id)), encode_value(value))


def _stored(members: Iterable[ClassicMember], protocol: str) -> list[MemberMetadata]:
    return [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.protocols[protocol],
            assignment=member.assignment,
        )
        for member in members
    ]
