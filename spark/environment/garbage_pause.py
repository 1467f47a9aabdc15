"""No search for garbage while a plan is made: 100,000 ranges are a million objects and not one cycle.

Python's collector looks through all of them again and again while they come; that was a third of a plan's time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["garbage_pause"]


@contextmanager
def garbage_pause() -> Iterator[None]:
    """Pause the collector of cycles, unless it is off anyway. Also a decorator; may be nested, in any thread."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()
