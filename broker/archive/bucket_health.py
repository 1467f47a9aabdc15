"""Whether the bucket answers, by the reports of the commands that were
sent to it anyway. It sends no request to find out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stratalog.tier.messages import commands

__all__ = ["SILENT_SECONDS_MAX", "BucketHealth", "BucketState"]

SILENT_SECONDS_MAX: Final = 3.0
"""Seconds without any answer while commands wait, after which the bucket counts as failing."""


class BucketState(NamedTuple):
    """``unused`` before the first command, then ``ok`` or ``failing``; since when it fails, in ms, and why."""

    state: str
    failing_since_ms: int | None
    error: str


class BucketHealth:
    """Times in ms of the caller's clock, None for never."""

    __slots__ = ("answered_ms", "failing_since_ms", "last_error", "read_back_ms")

    def __init__(self) -> None:
        self.answered_ms: int | None = None
        """When the bucket last answered, a missing object included."""
        self.failing_since_ms: int | None = None
        """When the first command since then was sent that failed."""
        self.last_error = ""
        """The text of the latest failure; kept after it is over."""
        self.read_back_ms: int | None = None
        """When archived objects were last read back and agreed with the manifest."""

    def note(self, report: commands.Report, now_ms: int, *, asked_ms: int | None = None) -> None:
        """Take the outcome of a command that was sent at ``asked_ms``."""
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
        """The present state; no running command was answered for ``unanswered_seconds``."""
        if self.failing_since_ms is not None:
            return BucketState("failing", self.failing_since_ms, self.last_error)
        if unanswered_seconds >= SILENT_SECONDS_MAX:
            since_ms = now_ms - int(unanswered_seconds * 1000)
            return BucketState("failing", since_ms, f"no answer for {unanswered_seconds:.0f} s; it is waited for")
        return BucketState("unused" if self.answered_ms is None else "ok", None, self.last_error)
