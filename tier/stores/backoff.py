"""When a failed request may be sent again: doubling, capped, spread by a random number that the caller brings."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Backoff", "BackoffSettings"]


class BackoffSettings(Struct, frozen=True):
    """The wait after the first failure, and the longest one."""

    min_ms: int = 500
    max_ms: int = 60_000

    def wait_ms(self, failures: int, jitter: float) -> int:
        """The wait after the ``failures``-th failure in a row; ``jitter`` in ``[0, 1)`` spreads it over its upper half."""
        whole = min(self.max_ms, self.min_ms << min(failures - 1, 30))
        return int(whole * (0.5 + jitter / 2))


class Backoff(Struct):
    """One kind of request; at most one is under way."""

    busy: bool = False
    failures: int = 0
    not_before_ms: int = 0

    def may_start(self, now_ms: int) -> bool:
        """Whether it may be sent now."""
        return not self.busy and now_ms >= self.not_before_ms

    def start(self) -> None:
        """It was sent."""
        self.busy = True

    def succeed(self) -> None:
        """It was answered."""
        self.busy, self.failures, self.not_before_ms = False, 0, 0

    def fail(self, settings: BackoffSettings, jitter: float, now_ms: int) -> None:
        """It failed: the next one waits."""
        self.busy = False
        self.failures += 1
        self.not_before_ms = now_ms + settings.wait_ms(self.failures, jitter)

    def resume(self) -> None:
        """The cause of its failures may be over: the next one waits no longer, and pauses begin anew."""
        self.failures, self.not_before_ms = 0, 0
