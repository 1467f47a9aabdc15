"""Whether the bucket answers, by the reports of the commands that were sent to it anyway. Nothing is sent to find out."""

from __future__ import annotations

from stratalog.tier import commands

__all__ = ["BucketHealth"]


class BucketHealth:
    """Times in ms of the caller's clock, None for never."""

    __slots__ = ("answered_ms", "failing_since_ms", "last_error", "read_back_ms")

    def __init__(self) -> None:
        self.answered_ms: int | None = None
        """The last command that the bucket answered, well or with what it does not have."""
        self.failing_since_ms: int | None = None
        """The first of the failures since that answer."""
        self.last_error = ""
        """What the latest failure said; kept after it is over."""
        self.read_back_ms: int | None = None
        """When archived objects were last read back and found as the manifest says."""

    def note(self, report: commands.Report, now_ms: int) -> None:
        """A command has been carried out, or not."""
        if isinstance(report, commands.FailedReport):
            self.last_error = report.message
            if self.failing_since_ms is None:
                self.failing_since_ms = now_ms
            return
        self.answered_ms, self.failing_since_ms = now_ms, None
        if isinstance(report, commands.VerifiedUpTo):
            self.read_back_ms = now_ms
