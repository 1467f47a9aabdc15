"""The broker's clock on virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sim.under.loop import VirtualLoop

__all__ = ["SimClock"]

_WALL_ORIGIN_MS: Final = 1_700_000_000_000


class SimClock:
    """Virtual time; the wall clock may be set."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._ahead_ms = 0
        self.monotonic = loop.time

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, as far as this machine knows."""
        return _WALL_ORIGIN_MS + self._ahead_ms + int(self._loop.time() * 1000)

    def jump(self, jump_ms: int) -> None:
        """An operator sets the clock."""
        self._ahead_ms += jump_ms
