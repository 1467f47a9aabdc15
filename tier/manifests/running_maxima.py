"""The first number at or behind a place that is at least so large, among very many: a tree of maxima. Pure.

Timestamps of archived ranges do not always grow with their offsets, so bisection does not always do. Where it does not,
the tree is asked: it has sixteen children a node; a look-up touches a few of them on each level, whatever the number.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate, islice
from typing import Final

__all__ = ["RunningMaxima"]

_FANOUT: Final = 16


class RunningMaxima:
    """A sequence of numbers that grows at its end and shrinks at its front."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._levels: list[array[int]] = [array("q")]
        self._so_far: array[int] = array("q")
        """The largest number up to each place, those that were dropped included."""
        self._dropped = 0
        self.extend(values)

    def __len__(self) -> int:
        return len(self._levels[0]) - self._dropped

    def extend(self, values: Iterable[int]) -> None:
        """Add numbers at the end."""
        below = self._levels[0]
        first = len(below)
        below.extend(values)
        before = self._so_far[-1:] or below[:1]
        grown = islice(below, first, None)
        self._so_far.extend(islice(accumulate(grown, max, initial=before[0]), 1, None) if before else ())
        level = 1
        while len(below) > _FANOUT:
            if level == len(self._levels):
                self._levels.append(array("q"))
                first = 0
            first //= _FANOUT
            above = self._levels[level]
            del above[first:]
            above.extend(max(below[start : start + _FANOUT]) for start in range(first * _FANOUT, len(below), _FANOUT))
            below = above
            level += 1

    def truncate(self, count: int) -> None:
        """Forget all but the first ``count``."""
        kept = self._levels[0][self._dropped : self._dropped + count]
        self._levels, self._so_far, self._dropped = [array("q")], array("q"), 0
        self.extend(kept)

    def drop_front(self, count: int) -> None:
        """Forget the first ``count``; what they take is given back when they are more than half of all."""
        self._dropped += count
        if self._dropped * 2 > len(self._levels[0]):
            self.truncate(len(self))

    def largest(self, start: int = 0) -> int | None:
        """The largest number from index ``start`` on; None if there is none."""
        best: int | None = None
        at = start + self._dropped
        for level, numbers in enumerate(self._levels, 1):
            border = -(-at // _FANOUT) * _FANOUT if level < len(self._levels) else len(numbers)
            found = max(numbers[at:border], default=None)
            best = found if best is None or (found is not None and found > best) else best
            at = border // _FANOUT
        return best

    def find(self, least: int, start: int = 0) -> int | None:
        """The first index from ``start`` on whose number is at least ``least``."""
        at = max(start, 0) + self._dropped
        reached = bisect_left(self._so_far, least)
        if reached >= at:
            return reached - self._dropped if reached < len(self._so_far) else None
        level = 0
        while at < len(self._levels[level]):
            if self._levels[level][at] >= least:
                if not level:
                    return at - self._dropped
                level -= 1
                at *= _FANOUT
            elif (at + 1) % _FANOUT == 0 and level + 1 < len(self._levels):
                at = (at + 1) // _FANOUT
                level += 1
            else:
                at += 1
        return None
