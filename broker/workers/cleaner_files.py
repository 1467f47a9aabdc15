"""The disk as the cleaner uses it: what it writes passes by the page cache, like an archived object.

Half a gigabyte of new pages would be written back by whichever sync of the log comes next on the same disk, and
producers would wait for it (`stratalog.tier.stores.direct_file`). The rest of the port is the operating system's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from stratalog.hot.storage.filesystem import File, RealFilesystem
from stratalog.tier.stores.direct_file import DirectFile

__all__ = ["CleanerFilesystem"]

Buffer = bytes | bytearray | memoryview

_WRITTEN_DIRECTLY = ".log.cleaned"


class CleanerFilesystem(RealFilesystem):
    """A file system whose new segments are written a piece at a time, directly to the disk."""

    __slots__ = ()

    def open_append(self, path: str) -> File:  # type: ignore[override]  # another File than the parent's
        """As the parent does; a new segment's log is always begun anew."""
        if path.endswith(_WRITTEN_DIRECTLY):
            return _NewLog(path)
        return super().open_append(path)


class _NewLog:
    """A ``.log.cleaned`` file, filled from its start to its end and then synced, once."""

    def __init__(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)
        self._path = path
        self._file = DirectFile(path)
        self._size_bytes = 0
        self._finished = False

    def fileno(self) -> int:
        """There is none to give: the descriptor's flags change. Raises `ValueError`."""
        raise ValueError(f"{self._path} is being written")

    def size_bytes(self) -> int:
        """The bytes that were appended."""
        return self._size_bytes

    def pread(self, length: int, position: int) -> bytes:
        """Up to ``length`` bytes from ``position``, of what has reached the file."""
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, length, position)
        finally:
            os.close(fd)

    def writev(self, buffers: Sequence[Buffer]) -> int:
        """Append all of it; what does not fill a piece waits in memory. Raises `OSError`."""
        count = 0
        for buffer in buffers:
            for part in self._file.append(buffer):
                count += len(part)
        self._size_bytes += count
        return count

    def truncate(self, size_bytes: int) -> None:
        """Only to what is there: it was begun anew. Raises `ValueError` otherwise."""
        if size_bytes != self._size_bytes:
            raise ValueError(f"{self._path} has {self._size_bytes} bytes and cannot be cut to {size_bytes}")

    def fdatasync(self) -> None:
        """Write what waits, and make all of it durable; nothing is appended afterwards. Raises `OSError`."""
        if not self._finished:
            self._file.finish(sync=True)
            self._finished = True

    def drop_cache(self) -> None:
        """It is not in the cache."""

    def close(self) -> None:
        """Release the descriptor; a second call does nothing."""
        self._file.close()
