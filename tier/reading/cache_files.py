"""The cache's files as the worker handles them: whole chunks under their names, what is there, what is free."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from stratalog.tier.messages.commands import ScanCache
from stratalog.tier.messages.reports import CacheScanned
from stratalog.tier.stores.store import ObjectStore

__all__ = ["free_bytes_beside", "is_disk_full", "scan_cache", "write_chunk_file"]

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def write_chunk_file(path: str, data: memoryview, *, sync: bool) -> None:
    """Write a temporary file and rename it: a reader of the cache sees a whole chunk or none. Raises `OSError`."""
    temporary = f"{path}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        try:
            done = 0
            while done < len(data):
                done += os.write(descriptor, data[done:])
            if sync:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        _name(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _name(temporary: str, path: str) -> None:
    Path(temporary).replace(path)


def is_disk_full(error: OSError) -> bool:
    """Whether a write failed because there is no room, on the disk or in its owner's quota."""
    return error.errno in _NO_ROOM


def free_bytes_beside(path: str) -> int:
    """Bytes that this process may still write to the file system of ``path``. Raises `OSError`."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def scan_cache(_: ObjectStore, command: ScanCache) -> CacheScanned:
    """List the cache's directory; no file is opened or removed. Raises `OSError`."""
    Path(command.directory).mkdir(parents=True, exist_ok=True)
    found = []
    with os.scandir(command.directory) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                found.append((status.st_mtime_ns, entry.name, status.st_size))
    found.sort()
    return CacheScanned(tuple((name, size) for _, name, size in found), free_bytes_beside(command.directory))
