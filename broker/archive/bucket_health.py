"""Whether the bucket answers, by the reports of the commands that were
sent to it anyway. It sends no request to find out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stratalog.tier.messages import commands

__all__ = ["SILENT_SECONDS_MAX", "BucketHealth", "BucketState"]

SILENT_SECONDS_MAX: Final = 3.0
"""Seconds without an answer to any command, though all wait for one, after which the bucket counts as failing."""


class BucketState(NamedTuple):
    """``unused`` as long as nothing was asked, then ``ok`` or ``failing``. Since when it fails, in ms, and why."""

    state: str
    failing_since_ms: int | None
    error: str


class BucketHealth:
    """Times in ms of the caller's clock, None for never."""

    __slots__ = ("answered_ms", "failing_since_ms", "last_error", "read_back_ms")

    def __init__(self) -> None:
        self.answered_ms: int | None = None
        """The last command that the bucket answered, well or with what it does not have."""
        self.failing_since_ms: int | None = None
        """When the first of the failures since that answer was asked for."""
        self.last_error = ""
        """The text of the latest failure; kept after it is over."""
        self.read_back_ms: int | None = None
        """When archived objects were last read back and found as the manifest says."""

    def note(self, report: commands.Report, now_ms: int, *, asked_ms: int | None = None) -> None:
        """A command that was sent at ``asked_ms`` has been carried out, or not."""
        if isinstance(report, commands.FailedReport):
            if report.local:
                return  # the bucket was not asked, or is not to blame
            self.last_error = report.message
            if self.failing_since_ms is None:
                since_ms = now_ms if asked_ms is None else asked_ms
                self.failing_since_ms = max(since_ms, self.answered_ms or since_ms)
            return
        self.answered_ms, self.failing_since_ms = now_ms, None
        if isinstance(report, commands.VerifiedUpTo):
            self.read_back_ms = now_ms

    def state(self, now_ms: int, unanswered_seconds: float) -> BucketState:
        """The state as known now; for ``unanswered_seconds`` no command under way has been answered."""
        if self.failing_since_ms is not None:
            return BucketState("failing", self.failing_since_ms, self.last_error)
        if unanswered_seconds >= SILENT_SECONDS_MAX:
            since_ms = now_ms - int(unanswered_seconds * 1000)
            return BucketState("failing", since_ms, f"no answer for {unanswered_seconds:.0f} s; it is waited for")
        return BucketState("unused" if self.answered_ms is None else "ok", None, self.last_error)
