"""Deadlines of members, cheap to push back: a heartbeat only writes a number."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

__all__ = ["MemberTimers"]

K = TypeVar("K", bound=Hashable)

_STALE_MAX: Final = 1_000
"""Entries of keys that are gone, above the number of those that wait: then the heap is made anew."""


def _deadline(entry: tuple[int, object]) -> int:
    return entry[0]


class MemberTimers(Generic[K]):
    """Deadlines in milliseconds by key. One that is pushed back is found again when its former one has passed."""

    __slots__ = ("_deadlines", "_heap", "_numbers", "_queued")

    def __init__(self) -> None:
        self._deadlines: dict[K, int] = {}
        self._queued: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._numbers = count()

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    @property
    def entries(self) -> int:
        """How many entries are kept, those of keys that are gone among them."""
        return len(self._heap)

    def set(self, key: K, deadline_ms: int) -> None:
        """Set or move a deadline."""
        self._deadlines[key] = deadline_ms
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued:
            self._queue(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """No deadline any more."""
        self._deadlines.pop(key, None)
        if len(self._heap) > 2 * len(self._deadlines) + _STALE_MAX:
            self._queued = dict(self._deadlines)
            self._heap = [(deadline_ms, next(self._numbers), each) for each, deadline_ms in self._queued.items()]
            heapify(self._heap)

    def next_ms(self) -> int | None:
        """A moment not after the earliest deadline; None if there is none."""
        while self._heap and self._heap[0][2] not in self._deadlines:
            self._drop_first()
        return self._heap[0][0] if self._heap else None

    def passed(self, now_ms: int) -> list[K]:
        """Take out the keys whose deadline has come, the earliest first."""
        found: list[tuple[int, K]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            key = self._drop_first()
            deadline_ms = self._deadlines.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms <= now_ms:
                del self._deadlines[key]
                self._queued.pop(key, None)
                found.append((deadline_ms, key))
            elif key not in self._queued:
                self._queue(key, deadline_ms)
        found.sort(key=_deadline)  # an entry that was pushed back came up by its former moment
        return [key for _, key in found]

    def _queue(self, key: K, deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        heappush(self._heap, (deadline_ms, next(self._numbers), key))

    def _drop_first(self) -> K:
        deadline_ms, _, key = heappop(self._heap)
        if self._queued.get(key) == deadline_ms:
            del self._queued[key]
        return key
