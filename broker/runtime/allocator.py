"""Setting of the C allocator for a process that lives on large, short-lived buffers.

glibc gives every block above 128 KiB its own ``mmap`` and returns it to the kernel when freed, so that each
buffer of a receive, a read or a decompression costs two system calls and a page fault per 4 KiB: measured up to
eight times slower (docs/performance.md). Two ``mallopt`` calls keep such blocks in the heap.
"""

from __future__ import annotations

import ctypes

__all__ = ["tune_allocator"]

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

MMAP_THRESHOLD_BYTES = 32 << 20
"""Blocks below this stay in the heap; 32 MiB is the most that every 64-bit glibc accepts."""

TRIM_THRESHOLD_BYTES = 16 << 20
"""Free memory at the top of the heap above this goes back to the kernel."""


def tune_allocator() -> bool:
    """Tell glibc to keep large blocks; call once, at the start of a process.

    Returns False, and changes nothing, where the C library is another one.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    mapped = library.mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
    trimmed = library.mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    return bool(mapped and trimmed)
