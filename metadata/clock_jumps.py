"""A wall clock that jumps forwards makes nothing old: what expires by it waits until the time has really passed.

Data that is kept for days carries the wall clock's time, because it outlives the process. Within one process the
monotonic clock tells jumps from time: a jump forwards is believed only after the caller's patience, when everything
that stood before it has really been kept for that long. A jump backwards keeps things longer, which is harmless.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from stratalog.metadata.coordination import Now

__all__ = ["ClockJumps"]

_SLACK_MS: Final = 1_000
"""Differences of the two clocks between two looks that are no jump: a clock that is being slewed."""


class ClockJumps:
    """The jumps of the wall clock since the first look."""

    __slots__ = ("_jumps", "_seen")

    def __init__(self) -> None:
        self._seen: Now | None = None
        self._jumps: deque[tuple[int, int]] = deque()
        """When each was noticed, in monotonic time, and how far it went."""

    def believed_ms(self, now: Now, patience_ms: int) -> int:
        """The wall-clock time by which to expire what is kept for ``patience_ms``; to be asked now and then."""
        seen, self._seen = self._seen or now, now
        ahead_ms = now.wall_ms - seen.wall_ms - (now.monotonic_ms - seen.monotonic_ms)
        if ahead_ms > _SLACK_MS:
            self._jumps.append((now.monotonic_ms, ahead_ms))
        while self._jumps and self._jumps[0][0] + patience_ms <= now.monotonic_ms:
            self._jumps.popleft()
        return now.wall_ms - sum(jump_ms for _, jump_ms in self._jumps)
