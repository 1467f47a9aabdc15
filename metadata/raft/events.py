"""Everything that happens to a node of the quorum: one of these at a time goes into `Raft.step`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stratalog.metadata.raft.messages import Answer, OffsetAndEpoch, Request
from stratalog.metadata.raft.voter_set import VoterSet
from stratalog.wire.errors import ErrorCode

__all__ = [
    "Answered",
    "CleanLog",
    "Event",
    "Failed",
    "Flushed",
    "HandOver",
    "Proposed",
    "Received",
    "Shutdown",
    "SnapshotDue",
    "SnapshotLoaded",
    "SnapshotWritten",
    "Tick",
    "UpgradeProposed",
]


class Received(Struct, frozen=True):
    """A request has come in. ``token`` stands in the answer, which may come from a later step."""

    token: Any
    request: Request


class Answered(Struct, frozen=True):
    """The answer to a request that was sent to ``peer``."""

    peer: int
    request: Request
    answer: Answer


class Failed(Struct, frozen=True):
    """A request to ``peer`` has no answer: the connection is gone, or ``controller.quorum.request.timeout.ms`` over.

    With UNSUPPORTED_VERSION the peer has no version of the request that says what it has to say. ``refused``: its host
    refused the connection, so its process is gone. Silence says no such thing.
    """

    peer: int
    request: Request
    error: ErrorCode = ErrorCode.REQUEST_TIMED_OUT
    refused: bool = False


class Proposed(Struct, frozen=True):
    """The controller has records to append in the epoch in which it has decided them, ``count`` of them, as one batch."""

    token: Any
    epoch: int
    count: int
    data: Any


class UpgradeProposed(Struct, frozen=True):
    """An administrator wants ``kraft.version`` at ``level``: UpdateFeatures. `Accepted` or `Refused` is the answer.

    `Accepted` has an empty range if nothing was appended: the level is there, or ``validate_only`` asks only whether it
    could be. The level holds once the end of the range is committed.
    """

    token: Any
    epoch: int
    level: int
    validate_only: bool = False


class Flushed(Struct, frozen=True):
    """The sync that `Flush` has asked for is done."""

    end_offset: int
    truncations: int
    """As in `Flush`: a sync that began before a truncation says nothing of what was appended after it."""


class SnapshotDue(Struct, frozen=True):
    """The image has all records below ``end_offset`` and should be written out."""

    end_offset: int


class SnapshotWritten(Struct, frozen=True):
    """A snapshot of the image is whole and synced."""

    snapshot: OffsetAndEpoch


class CleanLog(Struct, frozen=True):
    """Retention no longer needs what is below this snapshot (``metadata.max.retention.bytes``, ``.ms``).

    The log may begin there already, or later: the snapshot may be gone when the event comes.
    """

    snapshot: OffsetAndEpoch


class SnapshotLoaded(Struct, frozen=True):
    """The leader's snapshot is on disk in place of the log, with the voters and the level that it has."""

    snapshot: OffsetAndEpoch
    voters: VoterSet
    kraft_version: int


class Tick(Struct, frozen=True):
    """Time has passed: `Raft.deadline_ms` has come."""


class HandOver(Struct, frozen=True):
    """Another voter should lead: this node will stop soon. A leader resigns, and follows the next one until it stops."""


class Shutdown(Struct, frozen=True):
    """The process ends. A leader hands over for ``timeout_ms`` at most; `ShutDown` says when it may go."""

    timeout_ms: int


Event = (
    Received
    | Answered
    | Failed
    | Proposed
    | Flushed
    | SnapshotDue
    | SnapshotWritten
    | CleanLog
    | SnapshotLoaded
    | Tick
    | HandOver
    | Shutdown
    | UpgradeProposed
)
