"""The metadata quorum as the rest of a node sees it: who leads, how far each replica is, and a way to ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from stratalog.metadata.raft.messages import NO_LEADER, UNKNOWN_OFFSET, Answer, Request
from stratalog.metadata.raft.voter_set import Endpoints, ReplicaKey, VoterSet
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = ["UNKNOWN_TIME_MS", "LeaderAndEpoch", "LeaderListener", "QuorumStatus", "QuorumView", "ReplicaStatus"]

UNKNOWN_TIME_MS = -1
"""A time that is not known, as on the wire."""


class LeaderAndEpoch(Struct, frozen=True):
    """The leader of the metadata quorum, as one node knows it."""

    leader_id: int = NO_LEADER
    """`NO_LEADER` if it is not known."""
    epoch: int = 0
    endpoints: Endpoints = ()
    """Where the leader listens; empty if that is not known."""


LeaderListener = Callable[[LeaderAndEpoch, bool], None]
"""Called with the leader, and with whether the controller of this node is active."""


class ReplicaStatus(Struct, frozen=True):
    """How far a replica of the metadata log is, as its leader knows it. Times are of the wall clock."""

    key: ReplicaKey
    log_end_offset: int = UNKNOWN_OFFSET
    last_fetch_ms: int = UNKNOWN_TIME_MS
    """When it has fetched last; for the leader itself: now."""
    last_caught_up_ms: int = UNKNOWN_TIME_MS
    """The last time at which it had all that the leader had; for the leader itself: now."""
    endpoints: Endpoints = ()
    """Where a voter listens, by the newest voters; empty for an observer."""


class QuorumStatus(Struct, frozen=True):
    """The quorum as its leader knows it."""

    leader: LeaderAndEpoch
    high_watermark: int
    """`UNKNOWN_OFFSET` until the first record of the epoch is committed."""
    voters: tuple[ReplicaStatus, ...]
    observers: tuple[ReplicaStatus, ...] = ()


class QuorumView(Protocol):
    """The part of this node in the metadata quorum, as a voter or as an observer."""

    @property
    def node_id(self) -> int:
        """The id of this node."""

    @property
    def directory_id(self) -> Uuid:
        """The id of the directory that holds the metadata log."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader, as this node knows it now."""

    @property
    def voters(self) -> VoterSet:
        """The voters, as this node knows them now."""

    @property
    def is_active(self) -> bool:
        """Whether the controller of this node decides: the first record of its epoch is committed and applied."""

    @property
    def high_watermark(self) -> int:
        """The records below this offset are committed."""

    @property
    def log_end_offset(self) -> int:
        """The offset behind the last record of this node's log."""

    def receive(self, request: Request, /) -> asyncio.Future[Answer]:
        """The answer to a request of another replica, or of an administrator. It may wait for news."""

    def propose(self, records: Sequence[Message], /, *, epoch: int) -> asyncio.Future[int]:
        """Write records in the epoch in which they were decided; the offset of the last one, once all are applied.

        Fails with `KafkaError`: NOT_CONTROLLER if the leadership has gone, and the outcome is then unknown;
        KAFKA_STORAGE_ERROR if the log cannot be written.
        """

    @property
    def kraft_version(self) -> int:
        """The committed level of ``kraft.version``: 0 static voters, 1 voters that change."""

    def upgrade(self, level: int, /, *, validate_only: bool = False) -> asyncio.Future[int]:
        """Raise ``kraft.version`` to ``level``; done once the level and the voters are committed and applied.

        With ``validate_only`` nothing is written. Raises `KafkaError` NOT_CONTROLLER where this node does not decide, and
        fails with it if the leadership goes; fails with INVALID_UPDATE_VERSION, whose text says why.
        """

    def describe(self) -> QuorumStatus:
        """All replicas, and how far they are. Raises `KafkaError` NOT_LEADER_OR_FOLLOWER where this node does not lead."""

    def on_leader_change(self, listener: LeaderListener, /) -> None:
        """Call ``listener`` whenever the leader, its epoch or `is_active` has changed."""
