"""Events in the archiving of one partition, and the actions that its plan returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True)
class RangeRef:
    """One upload attempt of the offsets ``[base, end)``. The attempt number never repeats within a plan."""

    base: int
    end: int
    attempt: int


# Events.


@dataclass(frozen=True, slots=True)
class Sealed:
    """A local segment ``[base, end)`` was frozen; segments come in offset order."""

    base: int
    end: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Exclusive ends of the offsets that are committed, decided, on disk, and past the copy lag."""

    high_watermark: int
    last_stable_offset: int
    flushed_offset: int
    eligible_end: int = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Claimed:
    """The manifest carries our claim; its archive ends at ``remote_end``."""

    remote_end: int


@dataclass(frozen=True, slots=True)
class ClaimWanted:
    """The manifest needs a change without a copy: a log start, the trash."""


@dataclass(frozen=True, slots=True)
class ClaimFailed:
    """The store did not answer the claim. ``jitter`` is a random number in ``[0, 1)``."""

    jitter: float


@dataclass(frozen=True, slots=True)
class ComparisonBegun:
    """A comparison of log and archive has begun: the plan writes nothing until `Compared`."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison is over; the log may have begun again. It begins at ``local_start`` on the local disk."""

    local_start: int


@dataclass(frozen=True, slots=True)
class ArchiveLost:
    """A reply said that the bucket does not hold the known archive. ``jitter`` as in `ClaimFailed`."""

    reason: str
    jitter: float


@dataclass(frozen=True, slots=True)
class FencedOut:
    """A reply said that a higher claim exists."""

    reason: str


@dataclass(frozen=True, slots=True)
class UploadDone:
    """The object of this attempt is complete and was checked by HEAD."""

    ref: RangeRef


@dataclass(frozen=True, slots=True)
class UploadFailed:
    """The attempt failed and may be repeated under a new key."""

    ref: RangeRef
    jitter: float


@dataclass(frozen=True, slots=True)
class UploadCorrupt:
    """The local bytes of the range fail their check."""

    ref: RangeRef
    reason: str


@dataclass(frozen=True, slots=True)
class CommitDone:
    """The manifest names all ranges below ``remote_end``."""

    remote_end: int


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """The commit may or may not have been made: it is sent again, and recognised by its uuids."""

    jitter: float


@dataclass(frozen=True, slots=True)
class RemoteEndMoved:
    """The archive has another end than the plan believed: a commit was refused, or the log start moved past it."""

    remote_end: int


@dataclass(frozen=True, slots=True)
class ReadBackDone:
    """Under our claim the manifest was read back, and HEAD agreed for every object below ``verified_end``."""

    verified_end: int


@dataclass(frozen=True, slots=True)
class ReadBackFailed:
    """The read-back did not finish and permits no eviction."""

    jitter: float


@dataclass(frozen=True, slots=True)
class Evicted:
    """The local log now starts at ``local_start``."""

    local_start: int


@dataclass(frozen=True, slots=True)
class Configured:
    """Whether this topic is to be copied (``remote.storage.enable`` and not ``remote.log.copy.disable``)."""

    copy_enabled: bool


@dataclass(frozen=True, slots=True)
class Throttled:
    """The byte budget for copying is spent until ``until_ms``."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class Tick:
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


@dataclass(frozen=True, slots=True)
class SendClaim:
    """Raise the manifest's claim to ours."""


@dataclass(frozen=True, slots=True)
class SendUpload:
    """Build and upload this range under a key of its own."""

    ref: RangeRef


@dataclass(frozen=True, slots=True)
class SendCommit:
    """Commit these consecutive uploaded attempts by one compare-and-swap."""

    refs: tuple[RangeRef, ...]


@dataclass(frozen=True, slots=True)
class SendReadBack:
    """Read the manifest back and HEAD the objects of ``[start, end)``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EvictBelow:
    """Local retention may now delete below ``offset``; the local log start moves before the files go."""

    offset: int


@dataclass(frozen=True, slots=True)
class StandDown:
    """A newer owner exists; this plan has stopped."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReportLost:
    """The archive is not in the bucket: uploads and evictions stop until a claim finds it again."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReportGap:
    """The local log starts at ``local_start``, beyond the archive's end: nothing can be copied until this is settled."""

    remote_end: int
    local_start: int


@dataclass(frozen=True, slots=True)
class ReportQuarantine:
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
