"""Memory of an executor's worker: what was freed is kept for the next range, what is loaded is not searched for garbage.

A task reads range after range into buffers of some megabytes. The C library gives such memory back to the kernel when it is
freed and gets it again, zeroed, page by page. Told to keep `KEPT_BYTES`, it does not. Only for processes that do nothing else: never in a user's own.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache
from itertools import count
from typing import Final

__all__ = ["KEPT_BYTES", "freeze_modules", "keep_freed_memory"]

KEPT_BYTES: Final = 64 << 20
"""As much as the ranges on their way and what is decoded from them take."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_MMAP_THRESHOLD_MAX: Final = 32 << 20
"""glibc refuses more on 64 bits; larger buffers come from the kernel each time."""
_FREEZES: Final = 2
"""The first task finds most modules loaded, the second one those that the first has needed."""

_tasks = count()


@cache
def keep_freed_memory() -> bool:
    """Tell this process's C library so, once; False where it is not glibc, which changes nothing."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _MMAP_THRESHOLD_MAX)) and bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES))


def freeze_modules() -> None:
    """Take what this process has loaded out of the garbage collector's sight; to be called with each task.

    PySpark collects after every task. That walks all objects of all modules, 16 to 38 ms of CPU, while a stream's next
    micro-batch waits for the core. Garbage that is made later is collected as ever.
    """
    if next(_tasks) < _FREEZES:
        gc.freeze()
