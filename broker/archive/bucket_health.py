"""Whether the bucket answers, and when requests to it that failed are sent again.

`BucketHealth` looks at the reports of the commands that were sent to it anyway, and sends no request to find out. A failure may
be that of a follower or a client that asks for no more: then the answer to the question below ends it.

The pause after a failure doubles, for each kind of request of each partition, up to half a minute: an outage of a minute would
keep archives still for half a minute more. `Resumption` has all that failed sent again as soon as it may succeed: when the
controller answers again, or the bucket does. While requests to the bucket fail, it is asked for its identity every two seconds.

A bucket that answers this and refuses the rest would be sent everything again and again: the time between two resumptions
doubles up to the longest pause, until all is calm for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.broker.workers.io_worker import Executed
from stratalog.tier.messages import commands
from stratalog.wire.errors import Retriable

__all__ = ["ASK_MS", "SILENT_SECONDS_MAX", "BucketHealth", "BucketState", "Resumption", "ResumptionPorts"]

SILENT_SECONDS_MAX: Final = 3.0
"""Seconds without any answer while commands wait, after which the bucket counts as failing."""
ASK_MS: Final = 2_000
"""The time between two questions to a bucket that fails."""
_GAP_MS_MIN: Final = 1_000
_GAP_MS_MAX: Final = 30_000
_FORGOTTEN_MS: Final = 120_000
"""Requests that are still wanted are sent again in this time, and fail again."""
_CALM_MS: Final = 60_000
"""After so long without a resumption the next but one is not put off any more."""


class BucketState(NamedTuple):
    """``unused`` before the first command, then ``ok`` or ``failing``; since when it fails, in ms, and why."""

    state: str
    failing_since_ms: int | None
    error: str


class BucketHealth:
    """Times in ms of the caller's clock, None for never."""

    __slots__ = ("_failed_ms", "_only_looks_failed", "answered_ms", "failing_since_ms", "last_error", "read_back_ms")

    def __init__(self) -> None:
        self.answered_ms: int | None = None
        """When the bucket last answered, a missing object included."""
        self.failing_since_ms: int | None = None
        """When the first command since then was sent that failed."""
        self.last_error = ""
        """The text of the latest failure; kept after it is over."""
        self.read_back_ms: int | None = None
        """When archived objects were last read back and agreed with the manifest."""
        self._failed_ms = 0
        self._only_looks_failed = True

    def note(self, report: commands.Report, now_ms: int, *, asked_ms: int | None = None, is_look: bool = False) -> None:
        """Take the outcome of a command that was sent at ``asked_ms``; ``is_look`` for a look at the bucket's identity."""
        if isinstance(report, commands.FailedReport):
            if report.local:
                return  # the bucket was not asked, or is not to blame
            self.last_error, self._failed_ms = report.message, now_ms
            self._only_looks_failed = is_look and (self.failing_since_ms is None or self._only_looks_failed)
            if self.failing_since_ms is None:
                since_ms = now_ms if asked_ms is None else asked_ms
                self.failing_since_ms = max(since_ms, self.answered_ms or since_ms)
            return
        self.answered_ms, self.failing_since_ms = now_ms, None
        if isinstance(report, commands.VerifiedUpTo):
            self.read_back_ms = now_ms

    def looked(self, now_ms: int) -> None:
        """Take an answer to a look: it is no proof that other requests succeed, so it counts where none has failed lately."""
        is_forgotten = now_ms - self._failed_ms >= _FORGOTTEN_MS
        if self.failing_since_ms is not None and (self._only_looks_failed or is_forgotten):
            self.answered_ms, self.failing_since_ms = now_ms, None

    def state(self, now_ms: int, unanswered_seconds: float) -> BucketState:
        """The present state; no running command was answered for ``unanswered_seconds``."""
        if self.failing_since_ms is not None:
            return BucketState("failing", self.failing_since_ms, self.last_error)
        if unanswered_seconds >= SILENT_SECONDS_MAX:
            since_ms = now_ms - int(unanswered_seconds * 1000)
            return BucketState("failing", since_ms, f"no answer for {unanswered_seconds:.0f} s; it is waited for")
        return BucketState("unused" if self.answered_ms is None else "ok", None, self.last_error)


class ResumptionPorts(Struct, frozen=True):
    """The ports that the archive side of a broker hands in.

    ``is_failing`` is whether the last request to the bucket failed. ``looked`` hears of each answer to the question. ``submit`` takes the question ``command()`` past the
    gate, and calls back with the outcome; it raises `Retriable` while the broker closes.
    """

    in_contact: Callable[[], bool]
    is_failing: Callable[[], bool]
    looked: Callable[[], None]
    submit: Callable[[commands.Command, Callable[[Executed | None, Exception | None], object]], object]
    command: Callable[[], commands.Command]


class _Return:
    """One cause of failures: notices its end, at most once in a gap that grows."""

    __slots__ = ("_gap_ms", "_is_due", "_next_ms", "_was_well")

    def __init__(self) -> None:
        self._was_well = True
        self._is_due = False
        self._gap_ms = _GAP_MS_MIN
        self._next_ms = 0

    def look(self, now_ms: int, *, is_well: bool, has_answered: bool = False) -> bool:
        """Whether failed requests are to be sent again now."""
        if has_answered or (is_well and not self._was_well):
            self._is_due = True
        self._was_well = is_well
        if not self._is_due or now_ms < self._next_ms:
            return False
        self._is_due = False
        self._gap_ms = _GAP_MS_MIN if now_ms - self._next_ms >= _CALM_MS else min(2 * self._gap_ms, _GAP_MS_MAX)
        self._next_ms = now_ms + self._gap_ms
        return True


class Resumption:
    """One per broker. Times are those of a clock that does not jump."""

    def __init__(self, ports: ResumptionPorts) -> None:
        self.count = 0
        """Rises when requests that failed are to be sent again; each archive compares it with what it has seen."""
        self._ports = ports
        self._contact, self._bucket = _Return(), _Return()
        self._failing = False
        self._is_asking = False
        self._has_answered = False
        self._ask_at_ms = 0

    def look(self, now_ms: int) -> None:
        """Look at both; ask the bucket if it is time."""
        ports = self._ports
        was_failing, self._failing = self._failing, ports.is_failing()
        has_answered, self._has_answered = self._has_answered and self._failing, False
        contact_is_back = self._contact.look(now_ms, is_well=ports.in_contact())
        if self._bucket.look(now_ms, is_well=not self._failing, has_answered=has_answered) or contact_is_back:
            self.count += 1
        if self._failing and not was_failing:
            self._ask_at_ms = now_ms + ASK_MS
        if self._failing and not self._is_asking and now_ms >= self._ask_at_ms:
            self._ask_at_ms = now_ms + ASK_MS
            self._is_asking = True
            try:
                ports.submit(ports.command(), self._answered)
            except Retriable:  # the broker closes
                self._is_asking = False

    def _answered(self, executed: Executed | None, _: Exception | None) -> None:
        self._is_asking = False
        self._has_answered = executed is not None and isinstance(executed.report, commands.BucketSeen)
        if self._has_answered:
            self._ports.looked()
