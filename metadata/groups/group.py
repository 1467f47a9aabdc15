"""The interface of every group to its shard, whichever protocol its members speak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from stratalog.metadata.coordination import Action, CoordinatorRecord, Now
from stratalog.wire.topic import Uuid

__all__ = ["Group", "GroupRequest", "GroupSettings", "GroupType", "PartitionCheck"]


class GroupType(StrEnum):
    """The rebalance protocol of a group, as ListGroups names it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupSettings(Struct, frozen=True, kw_only=True):
    """The broker settings that groups obey. Times in milliseconds; names and defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 604_800_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    consumer_max_size: int = 2_147_483_647
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_interval_ms: int = 600_000


class GroupRequest(Struct):
    """A request of a member or an administrator, as an event.

    ``request`` is the message as it came, or for requests over many groups the part of one. ``fresh_id`` is the text of
    a random UUID, for a member id if one is needed. ``client_host`` begins with a slash, as Kafka prints it.
    ``may_see`` says whether the caller may know of a topic; without it of all.
    """

    token: Any
    group_id: str
    api_version: int
    request: Any
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    fresh_id: str = ""
    may_see: Callable[[str], bool] | None = None


PartitionCheck = Callable[[str, Uuid, int], None]
"""Whether a partition, by topic name and id, may be committed; raises as `Group.check_offset_commit` (KIP-1251)."""


class Group(Protocol):
    """One group, classic or consumer. The shard keeps it, and its committed offsets beside it."""

    group_id: str

    @property
    def successor(self) -> Group | None:
        """The group that takes its place, once it has turned into one of the other kind; asked after every event."""
        ...

    @property
    def type(self) -> GroupType:
        """Which protocol."""
        ...

    @property
    def state(self) -> str:
        """The state as ListGroups and DescribeGroups name it (``Stable``, ``Empty``, ``PreparingRebalance`` ...)."""
        ...

    @property
    def protocol_type(self) -> str:
        """``consumer`` for consumers, what the members said for others, empty for a group of offsets alone."""
        ...

    @property
    def member_count(self) -> int:
        """Its members, and the member ids that were given out and not used yet."""
        ...

    @property
    def held_bytes(self) -> int:
        """The bytes that are kept for them: subscriptions, assignments that they made, topics that expressions matched."""
        ...

    @property
    def assigned_bytes(self) -> int:
        """Those of them that a leader's next assignments replace."""
        ...

    def bytes_held_of(self, member_id: str, instance_id: str | None) -> int | None:
        """The bytes that one of them has kept, by its id, or as this instance; None if there is none."""
        ...

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, api_version: int
    ) -> PartitionCheck | None:
        """Whether this member, in this generation or member epoch, may commit; a check of each partition besides.

        Raises `KafkaError`: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH, FENCED_INSTANCE_ID,
        REBALANCE_IN_PROGRESS.
        """
        ...

    def offset_committed(self, member_id: str, now: Now) -> None:
        """A commit of this member was taken: for a classic member it counts as a heartbeat."""
        ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether these offsets may be read in this name. Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""
        ...

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND unless the group may be deleted."""
        ...

    def subscribes(self, topic: str) -> bool:
        """Whether a live member may read the topic: its offsets neither expire nor are deleted."""
        ...

    @property
    def empty_since_ms(self) -> int | None:
        """Wall-clock time since when it has no members, -1 if that is not known; None while it has some."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group (not its offsets)."""
        ...

    def loaded(self, now: Now) -> list[Action]:
        """Its records are applied: sessions begin."""
        ...

    def step(self, event: GroupRequest, now: Now) -> list[Action]:
        """A request of a member."""
        ...

    def deadline(self) -> int | None:
        """When `due` is to be called, in monotonic milliseconds; it may be too early. Asked after every event."""
        ...

    def due(self, now: Now) -> list[Action]:
        """Sessions end, rebalances time out."""
        ...

    def parked(self) -> Sequence[Any]:
        """Tokens of members that wait for a join or a sync."""
        ...
