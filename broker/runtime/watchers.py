"""Those who are called when something has changed, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Watchers"]


class Watchers(dict[Callable[[], object], None]):
    """A set with an order. That of a plain set hangs on addresses, and no two runs of a seed would be the same."""

    __slots__ = ()

    def add(self, watcher: Callable[[], object]) -> None:
        """Have it called from now on; nothing changes if it is."""
        self[watcher] = None

    def discard(self, watcher: Callable[[], object]) -> None:
        """Call it no longer."""
        self.pop(watcher, None)

    def call(self) -> None:
        """Call each that watches now; one that comes or goes meanwhile changes nothing about this time."""
        for watcher in tuple(self):
            watcher()
