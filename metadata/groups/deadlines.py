"""The deadlines of many groups in one heap, corrected when they come up.

A group whose deadline moves away, as it does with every heartbeat, costs nothing: its entry is looked at when the old
moment has come, and put back. Only a deadline that comes nearer is entered anew.
"""

from __future__ import annotations

import heapq
from typing import Final

__all__ = ["Deadlines"]

_STALE_MAX: Final = 1_000
"""Entries of groups that are gone, above the number of those that wait: then the heap is made anew."""


class Deadlines:
    """When to look at which group."""

    __slots__ = ("_heap", "_moments")

    def __init__(self) -> None:
        self._moments: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        """How many groups wait for something."""
        return len(self._moments)

    @property
    def entries(self) -> int:
        """How many entries are kept, those of groups that are gone among them."""
        return len(self._heap)

    def set(self, name: str, moment_ms: int) -> None:
        """Look at ``name`` at this moment, unless it is looked at earlier."""
        known = self._moments.get(name)
        if known is None or moment_ms < known:
            self._moments[name] = moment_ms
            heapq.heappush(self._heap, (moment_ms, name))

    def forget(self, name: str) -> None:
        """Do not look at ``name``."""
        self._moments.pop(name, None)
        if len(self._heap) > 2 * len(self._moments) + _STALE_MAX:
            self._heap = [(moment_ms, each) for each, moment_ms in self._moments.items()]
            heapq.heapify(self._heap)

    def next_ms(self) -> int | None:
        """The earliest moment; None if nothing is waited for."""
        heap = self._heap
        while heap:
            moment_ms, name = heap[0]
            if self._moments.get(name) == moment_ms:
                return moment_ms
            heapq.heappop(heap)
        return None

    def take(self, now_ms: int, *, at_most: int) -> list[str]:
        """Those whose moment has come, earliest first; they are forgotten until they are set again."""
        names: list[str] = []
        while len(names) < at_most:
            moment_ms = self.next_ms()
            if moment_ms is None or moment_ms > now_ms:
                break
            _, name = heapq.heappop(self._heap)
            del self._moments[name]
            names.append(name)
        return names
