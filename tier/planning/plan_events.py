"""Events in the archiving of one partition, and the actions that its plan returns."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

__all__ = [
    "Action",
    "ArchiveLost",
    "ClaimFailed",
    "ClaimWanted",
    "Claimed",
    "CommitDone",
    "CommitFailed",
    "Compared",
    "ComparisonBegun",
    "Configured",
    "Event",
    "EvictBelow",
    "Evicted",
    "FencedOut",
    "Progress",
    "RangeRef",
    "ReadBackDone",
    "ReadBackFailed",
    "RemoteEndMoved",
    "ReportGap",
    "ReportLost",
    "ReportQuarantine",
    "Sealed",
    "SendClaim",
    "SendCommit",
    "SendReadBack",
    "SendUpload",
    "StandDown",
    "Throttled",
    "Tick",
    "UploadCorrupt",
    "UploadDone",
    "UploadFailed",
]


class RangeRef(Struct, frozen=True):
    """One upload attempt of the offsets ``[base, end)``. The attempt number never repeats within a plan."""

    base: int
    end: int
    attempt: int


# Events.


class Sealed(Struct, frozen=True):
    """A local segment ``[base, end)`` was frozen; segments come in offset order."""

    base: int
    end: int


class Progress(Struct, frozen=True):
    """Exclusive ends of the offsets that are committed, decided, on disk, and past the copy lag.

    ``resume_at`` is the batch border from which the log is archived: no record below it may be read.
    """

    high_watermark: int
    last_stable_offset: int
    flushed_offset: int
    eligible_end: int = (1 << 63) - 1
    resume_at: int = 0


class Claimed(Struct, frozen=True):
    """The manifest carries our claim; its archive ends at ``remote_end``."""

    remote_end: int


class ClaimWanted(Struct, frozen=True):
    """The manifest needs a change without a copy: a log start, the trash."""


class ClaimFailed(Struct, frozen=True):
    """The store did not answer the claim. ``jitter`` is a random number in ``[0, 1)``."""

    jitter: float


class ComparisonBegun(Struct, frozen=True):
    """A comparison of log and archive has begun: the plan writes nothing until `Compared`."""


class Compared(Struct, frozen=True):
    """The comparison is over; the log may have begun again. It begins at ``local_start`` on the local disk."""

    local_start: int


class ArchiveLost(Struct, frozen=True):
    """A reply said that the bucket does not hold the known archive. ``jitter`` as in `ClaimFailed`."""

    reason: str
    jitter: float


class FencedOut(Struct, frozen=True):
    """A reply said that a higher claim exists."""

    reason: str


class UploadDone(Struct, frozen=True):
    """The object of this attempt is complete and was checked by HEAD."""

    ref: RangeRef


class UploadFailed(Struct, frozen=True):
    """The attempt failed and may be repeated under a new key."""

    ref: RangeRef
    jitter: float


class UploadCorrupt(Struct, frozen=True):
    """The local bytes of the range fail their check."""

    ref: RangeRef
    reason: str


class CommitDone(Struct, frozen=True):
    """The manifest names all ranges below ``remote_end``."""

    remote_end: int


class CommitFailed(Struct, frozen=True):
    """The commit may or may not have been made: it is sent again, and recognised by its uuids."""

    jitter: float


class RemoteEndMoved(Struct, frozen=True):
    """The archive has another end than the plan believed: a commit was refused, or the log start moved past it."""

    remote_end: int


class ReadBackDone(Struct, frozen=True):
    """Under our claim the manifest was read back, and HEAD agreed for every object below ``verified_end``."""

    verified_end: int


class ReadBackFailed(Struct, frozen=True):
    """The read-back did not finish and permits no eviction."""

    jitter: float


class Evicted(Struct, frozen=True):
    """The local log now starts at ``local_start``."""

    local_start: int


class Configured(Struct, frozen=True):
    """Whether this topic is to be copied (``remote.storage.enable`` and not ``remote.log.copy.disable``)."""

    copy_enabled: bool


class Throttled(Struct, frozen=True):
    """The byte budget for copying is spent until ``until_ms``."""

    until_ms: int


class Tick(Struct, frozen=True):
    """Time has passed. ``resumes``: requests that failed may succeed now, and wait no longer."""

    resumes: bool = False


Event: TypeAlias = (
    Sealed
    | Progress
    | Claimed
    | ClaimFailed
    | ClaimWanted
    | ComparisonBegun
    | Compared
    | ArchiveLost
    | FencedOut
    | UploadDone
    | UploadFailed
    | UploadCorrupt
    | CommitDone
    | CommitFailed
    | RemoteEndMoved
    | ReadBackDone
    | ReadBackFailed
    | Evicted
    | Configured
    | Throttled
    | Tick
)


# Actions.


class SendClaim(Struct, frozen=True):
    """Raise the manifest's claim to ours."""


class SendUpload(Struct, frozen=True):
    """Build and upload this range under a key of its own."""

    ref: RangeRef


class SendCommit(Struct, frozen=True):
    """Commit these consecutive uploaded attempts by one compare-and-swap."""

    refs: tuple[RangeRef, ...]


class SendReadBack(Struct, frozen=True):
    """Read the manifest back and HEAD the objects of ``[start, end)``."""

    start: int
    end: int


class EvictBelow(Struct, frozen=True):
    """Local retention may now delete below ``offset``; the local log start moves before the files go."""

    offset: int


class StandDown(Struct, frozen=True):
    """A newer owner exists; this plan has stopped."""

    reason: str


class ReportLost(Struct, frozen=True):
    """The archive is not in the bucket: uploads and evictions stop until a claim finds it again."""

    reason: str


class ReportGap(Struct, frozen=True):
    """The local log starts at ``local_start``, beyond the archive's end: nothing can be copied until this is settled."""

    remote_end: int
    local_start: int


class ReportQuarantine(Struct, frozen=True):
    """The range is corrupt: it and everything behind it stays out of the archive."""

    base: int
    end: int
    reason: str


Action: TypeAlias = (
    SendClaim
    | SendUpload
    | SendCommit
    | SendReadBack
    | EvictBelow
    | StandDown
    | ReportGap
    | ReportLost
    | ReportQuarantine
)
