"""Objects that stay and came while the node runs, taken from what the garbage collector looks at.

The objects that a start makes are frozen: no collection looks at them again. A hundred thousand access rules or thirty
thousand logs that come later are a million objects and more, and each full collection would look at them all, with everything
else standing still for a second. So they are frozen, too, each time the node holds many more than ever before. That
happens right after a full collection, when nothing is garbage; the collection is made here, before there is much to look at.

Other objects that live in that moment are frozen with them. Objects in cycles, a connection for instance, then stay in
memory when they end. So only a new highest number counts, not each object that is added: who adds and removes
rules again and again has nothing frozen.

A log gets more objects than are counted: indexes at its first write, figures of its archive at the first scrape. So the
survivors of any full collection are frozen as well, if they are many, and as long as no more were frozen in all than the
counted things may have. That bounds the memory that stays in vain.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, Final

__all__ = ["GROWN_OBJECTS", "GrownObjects"]

GROWN_OBJECTS: Final = 10_000
"""So many objects more than ever before are frozen; a full collection looks at them in some 2 ms."""
_AT_ONCE: Final = 100_000
"""So many objects have come at once, with an image perhaps: no collection looks at them before they are frozen."""
_FOR_EACH: Final = 3
"""So many objects may be frozen for each that is counted. A log has 60 at its creation, and 160 when it is written, archived
and shown on the page.
"""
_YOUNG, _OLDEST = 1, 2
"""The generations of a collection of what is not old, and of a full one."""


class GrownObjects:
    """Freezes what survives a collection when the node holds many more objects that stay than ever before."""

    def __init__(self, count: Callable[[], int], later: Callable[[Callable[[], None]], object]) -> None:
        """``count`` tells how many objects stay, about; it is called in any thread. Those of now are frozen already.

        ``later`` calls a callable soon, from any thread: no collection can begin inside of another.
        """
        self._count = count
        self._later = later
        self._most = count()
        self._frozen = 0
        """Objects that were frozen here; some have ended since."""
        self._is_due = self._is_closed = False
        gc.callbacks.append(self._collected)

    def close(self) -> None:
        """Freeze nothing any more. Frozen objects stay frozen."""
        self._is_closed = True
        gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, details: dict[str, Any]) -> None:
        if phase != "stop" or details["generation"] < _YOUNG or self._is_due:
            return
        count = self._count()
        if count - self._most < GROWN_OBJECTS:
            if details["generation"] == _OLDEST:
                self._freeze_uncounted(count)
        elif details["generation"] == _OLDEST:
            self._freeze(count)
        else:
            self._is_due = True
            self._later(self._collect)

    def _freeze_uncounted(self, count: int) -> None:
        """Freeze what this collection has left, if it is much and not too much for what is counted."""
        alive = len(gc.get_objects(_OLDEST))
        if alive >= GROWN_OBJECTS and self._frozen + alive <= _FOR_EACH * count:
            self._frozen += alive
            gc.freeze()

    def _collect(self) -> None:
        if self._is_closed:
            return
        count = self._count()
        gc.collect(_YOUNG if count - self._most >= _AT_ONCE else _OLDEST)
        self._freeze(count)
        self._is_due = False

    def _freeze(self, count: int) -> None:
        self._frozen += max(count - self._most, 0)
        self._most = max(self._most, count)
        gc.freeze()
