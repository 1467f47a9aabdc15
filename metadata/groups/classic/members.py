"""The members of a classic group: their ids, their protocols, their leader, their waiting requests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct, field

from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["ClassicMember", "ClassicMembers"]


class ClassicMember(Struct, kw_only=True):
    """One member. Times in milliseconds."""

    member_id: str
    instance_id: str | None = None
    """Set for a static member (KIP-345)."""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]
    """Its subscription for every protocol that it supports, the one it likes best first."""
    assignment: bytes = b""
    session_ends_ms: int = 0
    """Monotonic; without meaning while it waits for an answer, unless it is new."""
    is_new: bool = False
    """It waits for the first generation that it is part of: its client may have given up."""
    join_token: Any = None
    """The JoinGroup that waits for the next generation."""
    join_version: int = 0
    sync_token: Any = None
    """The SyncGroup that waits for the leader's assignments."""

    @property
    def session_runs(self) -> bool:
        """Whether it is expected to be heard of: not while it waits for an answer, unless it is new."""
        return self.is_new or (self.join_token is None and self.sync_token is None)

    @property
    def held_bytes(self) -> int:
        """The bytes that it, and its leader for it, have said."""
        said = sum([len(name) + len(metadata) for name, metadata in self.protocols.items()])
        return said + len(self.assignment) + len(self.client_id) + len(self.instance_id or "")

    def record_bytes(self, protocols: dict[str, bytes], protocol: str) -> int:
        """The bytes that it adds to the record of its group, without its assignment, once it supports these protocols."""
        texts = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        return sum([len(text.encode()) for text in texts]) + len(protocols[protocol])

    def vote(self, candidates: set[str]) -> str:
        """The candidate that it likes best."""
        return next(name for name in self.protocols if name in candidates)

    def matches(self, protocols: dict[str, bytes]) -> bool:
        """Whether it already supports exactly these protocols, in this order, with these subscriptions."""
        return list(self.protocols.items()) == list(protocols.items())


class ClassicMembers(Struct):
    """All members of a group, in the order in which they came."""

    by_id: dict[str, ClassicMember] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    """Member id by instance id."""
    leader_id: str | None = None
    joined: int = 0
    """How many wait for the next generation."""
    held_bytes: int = 0
    """The bytes that are kept for all of them."""
    _supported: Counter[str] = field(default_factory=Counter)

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one leads."""
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids, f"{member.instance_id} is a member already"
            self.static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.by_id[member.member_id] = member
        self._supported.update(member.protocols.keys())
        self.held_bytes += member.held_bytes
        self.joined += member.join_token is not None

    def remove(self, member_id: str) -> None:
        """Remove a member that waits for nothing; another leads if it did."""
        member = self.by_id.pop(member_id)
        assert member.join_token is None
        assert member.sync_token is None
        self._supported.subtract(member.protocols.keys())
        self.held_bytes -= member.held_bytes
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.by_id), None)
        if not self.by_id:
            self._supported.clear()

    def support(self, member: ClassicMember, protocols: dict[str, bytes]) -> None:
        """A member supports these protocols from now on."""
        self._supported.subtract(member.protocols.keys())
        self._supported.update(protocols.keys())
        self.held_bytes -= member.held_bytes
        member.protocols = protocols
        self.held_bytes += member.held_bytes

    def assign(self, member: ClassicMember, assignment: bytes) -> None:
        """The leader has given this to a member."""
        self.held_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """A static member has come back as another process: it keeps its place under a new id."""
        old_id = member.member_id
        assert member.instance_id is not None
        self.by_id = {member_id if one_id == old_id else one_id: one for one_id, one in self.by_id.items()}
        member.member_id = member_id
        self.static_ids[member.instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id

    def await_join(self, member: ClassicMember, token: Any, version: int) -> Any:
        """Keep a JoinGroup until the next generation; an older one of the same member, which it replaces, or None."""
        replaced = self.take_join(member)
        member.join_token = token
        member.join_version = version
        self.joined += 1
        return replaced

    def take_join(self, member: ClassicMember) -> Any:
        """The JoinGroup that waits, or None; it waits no longer."""
        token, member.join_token = member.join_token, None
        self.joined -= token is not None
        return token

    @property
    def all_joined(self) -> bool:
        """Whether every member waits for the next generation."""
        return self.joined == len(self.by_id)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of all members."""
        return max((member.rebalance_timeout_ms for member in self.by_id.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """See to it that a member leads that has joined; False if none has."""
        if self.leader_id is None:
            return False
        if self.by_id[self.leader_id].join_token is None:
            joined = next((one for one in self.by_id.values() if one.join_token is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    def supports_any(self, protocols: dict[str, bytes]) -> bool:
        """Whether all members support one of these protocols."""
        count = len(self.by_id)
        return any(self._supported[name] == count for name in protocols)

    def chosen_protocol(self) -> str:
        """The protocol with the most votes among those that all support; the earlier voter's of two with as many."""
        count = len(self.by_id)
        candidates = {name for name, supporters in self._supported.items() if supporters == count}
        return Counter(member.vote(candidates) for member in self.by_id.values()).most_common(1)[0][0]

    def check(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member; raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another process has become this instance."""
        if instance_id is not None:
            known = self.static_ids.get(instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.by_id.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member
