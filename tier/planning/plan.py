"""Decides what to archive, when to commit and what may be evicted: one pure machine per led partition.

``step(event, now_ms)`` gives the actions to carry out, ``deadline()`` when to send the next `Tick`. A plan lives as
long as one leadership: it begins without a claim and, once fenced, never acts again. Rules 1 to 4, 6 and 7 of
``docs/safety.md``; the life of each range is the table of `tier.manifests.lifecycle`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final

from msgspec import Struct

from stratalog.tier.manifests.lifecycle import RangeEvent, RangeState
from stratalog.tier.planning.plan_events import (
    Action,
    ArchiveLost,
    Claimed,
    ClaimFailed,
    ClaimWanted,
    CommitDone,
    CommitFailed,
    Compared,
    ComparisonBegun,
    Configured,
    Event,
    EvictBelow,
    Evicted,
    FencedOut,
    Progress,
    RangeRef,
    ReadBackDone,
    ReadBackFailed,
    RemoteEndMoved,
    ReportGap,
    ReportLost,
    ReportQuarantine,
    Sealed,
    SendClaim,
    SendCommit,
    SendReadBack,
    SendUpload,
    StandDown,
    Throttled,
    Tick,
    UploadCorrupt,
    UploadDone,
    UploadFailed,
)
from stratalog.tier.planning.planned_range import PlannedRange
from stratalog.tier.stores.backoff import Backoff, BackoffSettings

__all__ = ["ArchivePlan", "Phase", "PlanSettings"]

_UNKNOWN: Final = -1
_BACKOFF: Final = BackoffSettings()


class Phase(Enum):
    """The state of this leadership's claim."""

    UNCLAIMED = "unclaimed"
    CLAIMING = "claiming"
    HELD = "held"
    LOST = "lost"
    FENCED = "fenced"


class PlanSettings(Struct, frozen=True):
    """At most ``uploads_max`` uploads at a time."""

    uploads_max: int = 2
    backoff: BackoffSettings = _BACKOFF


class ArchivePlan:
    """The plan of one leadership. ``local_start`` is the first offset on local disk."""

    def __init__(self, settings: PlanSettings, *, local_start: int, copy_enabled: bool = True) -> None:
        self._settings = settings
        self.phase = Phase.UNCLAIMED
        self.remote_end = _UNKNOWN
        self.verified_end = local_start
        self._local_start = local_start
        self._limit = self._resume_at = 0
        self._borders: list[int] = []
        self._ranges: deque[PlannedRange] = deque()  # beyond the remote end, at most 2 * uploads_max
        self._archived: deque[PlannedRange] = deque()  # committed, still local
        self._attempts = 0
        self._now_ms = 0
        self._claim = Backoff()
        self._commit = Backoff()
        self._read_back = Backoff()
        self._copy_enabled = copy_enabled
        self._claim_wanted = False
        self._comparing = False
        self._throttled_until_ms = 0
        self._quarantined_end = _UNKNOWN
        self._gap_reported = False

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take ``event``; returns the actions to carry out now, none if the plan is fenced."""
        if self.fenced:
            return []
        self._now_ms = now_ms
        actions = self._HANDLERS[type(event)](self, event, now_ms)
        return actions if self.fenced else actions + self._next(now_ms)

    @property
    def fenced(self) -> bool:
        """True if a newer owner was seen; then this leadership writes no more."""
        return self.phase is Phase.FENCED

    @property
    def blocked(self) -> bool:
        """True if a range that is in quarantine lies behind the archive's end: no later one is uploaded then."""
        return self._quarantined_end > max(self.remote_end, self._local_start)

    def deadline(self) -> int | None:
        """When the next `Tick` is due, in the clock of ``now_ms``; `None` if only an event can change anything."""
        if self.fenced or not self._may_write():
            return None
        times = [self._throttled_until_ms] if self._copy_enabled else []
        times += [step.not_before_ms for step in (self._claim, self._commit, self._read_back) if not step.busy]
        times += [r.retry.not_before_ms for r in self._ranges if r.state is RangeState.SEALED]
        return min((t for t in times if t > self._now_ms), default=None)

    @property
    def lag(self) -> tuple[int, int]:
        """``(first offset not archived, end of what is sealed and stable)``: Kafka's copy lag, in offsets."""
        index = bisect_right(self._borders, self._limit) - 1
        end = self._borders[index] if index >= 0 else self.remote_end
        return self.remote_end, max(end, self.remote_end)

    # Reactions to each event.

    def _on_sealed(self, event: Sealed, _: int) -> list[Action]:
        if event.end > max([self._local_start, *self._borders[-1:]]):
            self._borders.append(event.end)
        return []

    def _on_progress(self, event: Progress, _: int) -> list[Action]:
        """Rule 3: the least of high watermark, last stable offset, flushed offset and the copy lag's limit."""
        limits = (event.high_watermark, event.last_stable_offset, event.flushed_offset, event.eligible_end)
        self._limit = min(limits)
        self._resume_at = event.resume_at
        return []

    def _on_claimed(self, event: Claimed, _: int) -> list[Action]:
        self.phase = Phase.HELD
        self._claim.succeed()
        return self._set_remote_end(event.remote_end)

    def _on_claim_wanted(self, _: ClaimWanted, __: int) -> list[Action]:
        self._claim_wanted = True
        return []

    def _on_claim_failed(self, event: ClaimFailed, now_ms: int) -> list[Action]:
        if self.phase is not Phase.LOST:
            self.phase = Phase.UNCLAIMED
        self._claim.fail(self._settings.backoff, event.jitter, now_ms)
        return []

    def _on_comparison_begun(self, _: ComparisonBegun, __: int) -> list[Action]:
        self._comparing = True
        return []

    def _on_compared(self, event: Compared, now_ms: int) -> list[Action]:
        """Forget earlier seals, uploads and read-backs: behind the remote end the log may be another one."""
        self._comparing, self._quarantined_end = False, _UNKNOWN
        self._local_start = self.verified_end = event.local_start
        self._limit = 0
        self._borders.clear()
        self._ranges.clear()
        self._archived.clear()
        self._commit, self._read_back = Backoff(), Backoff()
        self._on_claim_failed(ClaimFailed(0.0), now_ms)
        return [EvictBelow(event.local_start)]

    def _on_lost(self, event: ArchiveLost, now_ms: int) -> list[Action]:
        """Forget earlier read-backs, and claim until a claim finds the archive again."""
        news = [] if self.phase is Phase.LOST else [ReportLost(event.reason)]
        self.phase = Phase.LOST
        self._claim.fail(self._settings.backoff, event.jitter, now_ms)
        self._ranges.clear()
        self._commit, self._read_back = Backoff(), Backoff()
        self.verified_end = self._local_start
        return [*news, EvictBelow(self._local_start)]

    def _on_fenced(self, event: FencedOut, _: int) -> list[Action]:
        """Forget earlier read-backs, too: the new owner may remove what they have seen."""
        self.phase = Phase.FENCED
        self._ranges.clear()
        return [StandDown(event.reason), EvictBelow(self._local_start)]

    def _on_upload_done(self, event: UploadDone, _: int) -> list[Action]:
        if found := self._find(event.ref):
            found.take(RangeEvent.UPLOAD_DONE)
        return []

    def _on_upload_failed(self, event: UploadFailed, now_ms: int) -> list[Action]:
        if found := self._find(event.ref):
            found.take(RangeEvent.UPLOAD_FAILED)
            found.retry.fail(self._settings.backoff, event.jitter, now_ms)
        return []

    def _on_upload_corrupt(self, event: UploadCorrupt, _: int) -> list[Action]:
        found = self._find(event.ref)
        if not found:
            return []
        found.take(RangeEvent.UPLOAD_CORRUPT)
        self._quarantined_end = max(self._quarantined_end, found.end)
        return [ReportQuarantine(found.base, found.end, event.reason)]

    def _on_commit_failed(self, event: CommitFailed, now_ms: int) -> list[Action]:
        self._commit.fail(self._settings.backoff, event.jitter, now_ms)
        return []

    def _on_commit_done(self, event: CommitDone | RemoteEndMoved, _: int) -> list[Action]:
        self._commit.succeed()
        return self._set_remote_end(event.remote_end)

    def _on_read_back_done(self, event: ReadBackDone, now_ms: int) -> list[Action]:
        if self.phase is not Phase.HELD:
            return []  # looked at before the archive was lost
        verified_end = min(event.verified_end, self.remote_end)  # an archive that was repaired may end earlier
        if verified_end <= max(self.verified_end, self._local_start):
            self._read_back.fail(self._settings.backoff, 0.0, now_ms)  # nothing new: not again at once
            return []
        self._read_back.succeed()
        self.verified_end = verified_end
        for planned in self._archived:
            if planned.end <= verified_end and planned.state is RangeState.COMMITTED:
                planned.take(RangeEvent.READ_BACK)
        return [EvictBelow(self.verified_end)]

    def _on_read_back_failed(self, event: ReadBackFailed, now_ms: int) -> list[Action]:
        self._read_back.fail(self._settings.backoff, event.jitter, now_ms)
        return []

    def _on_evicted(self, event: Evicted, _: int) -> list[Action]:
        """Take the removal of local files: after a read-back, or because the log start moved past them."""
        self._local_start = max(self._local_start, event.local_start)
        del self._borders[: bisect_right(self._borders, self._local_start)]
        while self._archived and self._archived[0].end <= self._local_start:
            gone = self._archived.popleft()
            if gone.state is RangeState.EVICTABLE:
                gone.take(RangeEvent.EVICT)
        if self._ranges and self._ranges[0].base < self._local_start:
            self._ranges.clear()
        return []

    def _on_configured(self, event: Configured, _: int) -> list[Action]:
        self._copy_enabled = event.copy_enabled
        return []

    def _on_throttled(self, event: Throttled, _: int) -> list[Action]:
        self._throttled_until_ms = event.until_ms
        return []

    def _on_tick(self, event: Tick, _: int) -> list[Action]:
        for one in (
            [self._claim, self._commit, self._read_back, *(r.retry for r in self._ranges)] if event.resumes else ()
        ):
            one.resume()
        return []

    # Actions that follow from the present state.

    def _next(self, now_ms: int) -> list[Action]:
        if not self._may_write():
            return []
        if self.phase is not Phase.HELD:
            return self._claim_if_due(now_ms)
        return [*self._commit_if_due(now_ms), *self._read_back_if_due(now_ms), *self._uploads(now_ms)]

    def _may_write(self) -> bool:
        return not self._comparing and not self.fenced

    def _claim_if_due(self, now_ms: int) -> list[Action]:
        """Rule 1: claim lazily, when there is something to copy or to remove."""
        copies = self._copy_enabled and bool(self._borders) and self._borders[0] <= self._limit
        lost = self.phase is Phase.LOST
        if not (copies or self._claim_wanted or lost) or not self._claim.may_start(now_ms):
            return []
        if not lost:
            self.phase = Phase.CLAIMING
        self._claim.start()
        return [SendClaim()]

    def _commit_if_due(self, now_ms: int) -> list[Action]:
        """Commit all consecutive uploaded ranges by one compare-and-swap."""
        if not self._commit.may_start(now_ms):
            return []
        refs = []
        for planned in self._ranges:
            if planned.state is RangeState.UPLOADED:
                refs.append(planned.ref)
            else:
                break
        if not refs:
            return []
        self._commit.start()
        return [SendCommit(tuple(refs))]

    def _read_back_if_due(self, now_ms: int) -> list[Action]:
        """Rule 4: read back; waits for the next range, within bounds, so that one GET serves several."""
        start = max(self.verified_end, self._local_start)
        if self.remote_end <= start or not self._read_back.may_start(now_ms):
            return []
        unverified = sum(planned.state is RangeState.COMMITTED for planned in self._archived)
        coming = self._commit.busy or any(planned.state is RangeState.COPYING for planned in self._ranges)
        if coming and 0 < unverified < self._settings.uploads_max:
            return []
        self._read_back.start()
        return [SendReadBack(start, self.remote_end)]

    def _uploads(self, now_ms: int) -> list[Action]:
        if not self._copy_enabled or self.blocked or now_ms < self._throttled_until_ms:
            return []
        if self.remote_end < self._local_start:
            return self._report_gap()
        if self.remote_end < self._resume_at:
            return []  # the records before it are deleted: the archive goes on there once its log start has moved
        free = self._settings.uploads_max - sum(r.state is RangeState.COPYING for r in self._ranges)
        waiting = [r for r in self._ranges if r.state is RangeState.SEALED]
        actions: list[Action] = []
        for planned in waiting:
            if free > 0 and planned.retry.may_start(now_ms):
                actions.append(self._copy(planned))
                free -= 1
        while free > 0 and (fresh := self._cut()) is not None:
            self._ranges.append(fresh)
            actions.append(self._copy(fresh))
            free -= 1
        return actions

    def _cut(self) -> PlannedRange | None:
        """The next range: from where the last one ends to the next border of a sealed segment, if that is stable.

        The border need not be that of the segment which holds the base: another replica rolled elsewhere. The
        uploads ahead of a commit are bounded, so that a leader who turns out to be fenced leaves few orphans.
        """
        base = self._ranges[-1].end if self._ranges else self.remote_end
        index = bisect_right(self._borders, base)
        if len(self._ranges) >= 2 * self._settings.uploads_max or index == len(self._borders):
            return None
        return PlannedRange(base, self._borders[index]) if self._borders[index] <= self._limit else None

    def _copy(self, planned: PlannedRange) -> SendUpload:
        """Rule 2: give each attempt a number, and so a key, of its own."""
        self._attempts += 1
        planned.attempt = self._attempts
        planned.take(RangeEvent.COPY)
        return SendUpload(planned.ref)

    def _report_gap(self) -> list[Action]:
        if self._gap_reported:
            return []
        self._gap_reported = True
        return [ReportGap(self.remote_end, self._local_start)]

    def _set_remote_end(self, remote_end: int) -> list[Action]:
        """Ranges wholly below it are committed; what then does not begin there is abandoned and cut anew."""
        self.remote_end = remote_end
        self._gap_reported = False
        while self._ranges and self._ranges[0].end <= remote_end:
            planned = self._ranges.popleft()
            planned.settle()
            self._archived.append(planned)
        if self._ranges and self._ranges[0].base != remote_end:
            for planned in self._ranges:
                if planned.state is RangeState.UPLOADED:
                    planned.take(RangeEvent.COMMIT_REFUSED)
            self._ranges.clear()
        actions = self._on_evicted(Evicted(self._local_start), 0)
        if remote_end >= self.verified_end or self.verified_end <= self._local_start:
            return actions
        self.verified_end = remote_end  # a repair took ranges out: what is local of them has to stay
        return [*actions, EvictBelow(remote_end)]

    def _find(self, ref: RangeRef) -> PlannedRange | None:
        """The range whose running attempt this is; `None` for a late answer to an abandoned one."""
        for planned in self._ranges:
            if planned.ref == ref and planned.state is RangeState.COPYING:
                return planned
        return None

    _HANDLERS: ClassVar[dict[type, Callable[[ArchivePlan, Any, int], list[Action]]]] = {
        Sealed: _on_sealed,
        Progress: _on_progress,
        Claimed: _on_claimed,
        ClaimFailed: _on_claim_failed,
        ClaimWanted: _on_claim_wanted,
        ComparisonBegun: _on_comparison_begun,
        Compared: _on_compared,
        ArchiveLost: _on_lost,
        FencedOut: _on_fenced,
        UploadDone: _on_upload_done,
        UploadFailed: _on_upload_failed,
        UploadCorrupt: _on_upload_corrupt,
        CommitDone: _on_commit_done,
        CommitFailed: _on_commit_failed,
        RemoteEndMoved: _on_commit_done,
        ReadBackDone: _on_read_back_done,
        ReadBackFailed: _on_read_back_failed,
        Evicted: _on_evicted,
        Configured: _on_configured,
        Throttled: _on_throttled,
        Tick: _on_tick,
    }
