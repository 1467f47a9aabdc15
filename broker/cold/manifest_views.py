"""Which partitions have their archived ranges in memory: those used last, so many ranges in all.

A broker may lead thousands of partitions with a thousand archived ranges each; few of them are read from the archive
at a time. Ranges that were let go are read again on demand.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

__all__ = ["ENTRIES_MAX", "RemoteViews", "Unloadable"]

ENTRIES_MAX: Final = 400_000
"""Ranges in memory, about 100 bytes each."""


class Unloadable(Protocol):
    """A partition that can let its ranges go."""

    def unload(self) -> None:
        """Let them go."""


class RemoteViews:
    """The partitions whose ranges are in memory, the one used longest ago first."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self.entries_max = entries_max
        self.entry_count = 0
        """Ranges in memory, as of when each partition was loaded."""
        self._counts: OrderedDict[Unloadable, int] = OrderedDict()

    def loaded(self, remote: Unloadable, count: int) -> None:
        """A partition has its ``count`` ranges in memory; others may have to go, but never this one."""
        self.forget(remote)
        self._counts[remote] = count
        self.entry_count += count
        while self.entry_count > self.entries_max and len(self._counts) > 1:
            oldest, gone = self._counts.popitem(last=False)
            self.entry_count -= gone
            oldest.unload()

    def used(self, remote: Unloadable) -> None:
        """A partition's ranges are used."""
        if remote in self._counts:
            self._counts.move_to_end(remote)

    def forget(self, remote: Unloadable) -> None:
        """A partition is not led any more, or has let its ranges go itself."""
        self.entry_count -= self._counts.pop(remote, 0)
