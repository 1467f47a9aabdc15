"""Everything that a node of the quorum does: the driver carries out the actions of a step in their order.

An action is done before the next one begins, and all before the next event. The order is a rule of safety: a vote is
on disk before it leaves (`StoreQuorumState` before `Reply`). Only `Flush`, `WriteSnapshot`, `LoadSnapshot` and the
requests of `Send` go on beside; an event says when they have ended. An action that fails ends the process.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft.messages import Answer, Batch, OffsetAndEpoch, Request
from stratalog.metadata.raft.voter_set import Endpoints
from stratalog.wire.errors import ErrorCode

__all__ = [
    "BOOTSTRAP",
    "Accepted",
    "Action",
    "Append",
    "BecameLeader",
    "Committed",
    "DeleteLogBefore",
    "Flush",
    "LoadSnapshot",
    "LostLeadership",
    "Refused",
    "Reply",
    "ReplyWithRecords",
    "ReplyWithSnapshot",
    "Send",
    "ShutDown",
    "Stop",
    "StoreQuorumState",
    "Truncate",
    "WriteSnapshot",
    "WriteSnapshotChunk",
]

BOOTSTRAP = -1
"""The peer of a request to any one of ``controller.quorum.bootstrap.servers``, drawn by the driver."""


class StoreQuorumState(Struct, frozen=True):
    """Write ``quorum-state``, sync it, and put it in place."""

    state: QuorumState


class Send(Struct, frozen=True):
    """Send a request; `Answered` or `Failed` follows, with this peer and this request."""

    peer: int
    request: Request
    endpoints: Endpoints = ()


class Reply(Struct, frozen=True):
    """Answer a request."""

    token: Any
    answer: Answer


class ReplyWithRecords(Struct, frozen=True):
    """Answer a Fetch, with batches from ``[offset, end_offset)`` of the log put in: the first whole, then up to 1 MiB."""

    token: Any
    answer: Answer
    offset: int
    end_offset: int


class ReplyWithSnapshot(Struct, frozen=True):
    """Answer a FetchSnapshot, with size and bytes put in; POSITION_OUT_OF_RANGE for a position beyond the file."""

    token: Any
    answer: Answer
    snapshot: OffsetAndEpoch
    position: int


class Append(Struct, frozen=True):
    """Append batches at the log end. Fetches may read them from then on."""

    batches: tuple[Batch, ...]


class Flush(Struct, frozen=True):
    """Sync the log up to ``end_offset``; `Flushed` says when it is done. A later `Flush` covers an earlier one."""

    end_offset: int
    truncations: int


class Truncate(Struct, frozen=True):
    """Cut the log off at ``offset``, durably."""

    offset: int


class DeleteLogBefore(Struct, frozen=True):
    """Remove segments and snapshots below this snapshot, which is on disk."""

    snapshot: OffsetAndEpoch


class WriteSnapshot(Struct, frozen=True):
    """Write the image, which has exactly the records below the offset, under this name; then `SnapshotWritten`."""

    snapshot: OffsetAndEpoch


class WriteSnapshotChunk(Struct, frozen=True):
    """Keep bytes of the leader's snapshot. Position 0 begins the file anew."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes


class LoadSnapshot(Struct, frozen=True):
    """The leader's snapshot is whole: sync it, begin an empty log behind it, load it; then `SnapshotLoaded`.

    The log goes only after the snapshot is synced.
    """

    snapshot: OffsetAndEpoch


class Committed(Struct, frozen=True):
    """All records below ``high_watermark`` are committed: only these are ever applied."""

    high_watermark: int


class BecameLeader(Struct, frozen=True):
    """The controller of this node is active: the first record of its epoch is committed, and so all before it."""

    epoch: int


class LostLeadership(Struct, frozen=True):
    """The controller of this node is active no more. Outcomes of its uncommitted records are unknown."""

    epoch: int


class Accepted(Struct, frozen=True):
    """The records of a `Proposed` or of an `UpgradeProposed` are ``[base_offset, end_offset)``; they hold once they are committed."""

    token: Any
    base_offset: int
    end_offset: int


class Refused(Struct, frozen=True):
    """The records of a `Proposed` or of an `UpgradeProposed` were not appended; ``message`` is for people."""

    token: Any
    error: ErrorCode
    message: str = ""


class ShutDown(Struct, frozen=True):
    """The process may end."""


class Stop(Struct, frozen=True):
    """The process must end at once: the quorum's promises are broken, and going on would spread it."""

    reason: str


Action = (
    StoreQuorumState
    | Send
    | Reply
    | ReplyWithRecords
    | ReplyWithSnapshot
    | Append
    | Flush
    | Truncate
    | DeleteLogBefore
    | WriteSnapshot
    | WriteSnapshotChunk
    | LoadSnapshot
    | Committed
    | BecameLeader
    | LostLeadership
    | Accepted
    | Refused
    | ShutDown
    | Stop
)
