"""Access rules that are added while the broker runs, taken from what the garbage collector looks at.

The objects that a start makes are frozen: no collection looks at them again. A hundred thousand rules that come later
are half a million objects, and each full collection would look at them all, with everything else standing still for up
to 0.3 s. So they are frozen, too, each time the broker holds many more than ever before. That happens right after a
full collection, when nothing is garbage.

Other objects that live in that moment are frozen with them. Objects in cycles, a connection for instance, then stay in
memory when they end. So only a new highest number of rules counts, not each rule that is added: who adds and removes
rules again and again has nothing frozen.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, Final

__all__ = ["GROWN_RULES", "GrownRules"]

GROWN_RULES: Final = 2_000
"""So many rules more than ever before are frozen. A full collection looks at ten thousand objects for as many."""
_OLDEST: Final = 2
"""The generation of a full collection."""


class GrownRules:
    """Freezes what survived a full collection when the broker holds many more rules than ever before."""

    def __init__(self, count: Callable[[], int]) -> None:
        """``count`` tells the number of rules; it is called in any thread. Those of now are frozen already."""
        self._count = count
        self._most = count()
        gc.callbacks.append(self._collected)

    def close(self) -> None:
        """Freeze nothing any more. Frozen objects stay frozen."""
        gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, details: dict[str, Any]) -> None:
        if phase != "stop" or details["generation"] != _OLDEST:
            return
        count = self._count()
        if count - self._most >= GROWN_RULES:
            self._most = count
            gc.freeze()
