"""A file in each log directory that can be given up: on a full disk it makes room for what must be written.

A broker that was killed on a full disk could not start: a start writes an epoch, checkpoints and indexes. So the start
removes the chunk cache where it lies on the same file system, and then the ballast if there is still too little room.
Before clients are let in the ballast takes back what is left of the room, or their records would fill it. While the broker
runs, a checkpoint that finds no room is written in the room of the ballast.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from stratalog.hot.directory import BALLAST

__all__ = [
    "DISK_FULL",
    "NOTHING_SPARE",
    "Ballast",
    "Spare",
    "clear_cache",
    "is_of_cache",
    "raise_if_full",
    "same_file_system",
]

DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_SHARE: Final = 16
"""A ballast is no larger than one part in so many of its file system."""
_START_BYTES: Final = 1 << 20
"""A start makes room first where less than this is free."""
_MARGIN_BYTES: Final = 64 << 10
"""A ballast that is taken back leaves this much free."""
_BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks``, whatever the file system's own blocks are."""
_OF_CACHE: Final = re.compile(r"(?:[0-9a-f]{32}\.){1,2}\d+\.chunk(?:\..*)?")

log = logging.getLogger(__name__)


class Spare(NamedTuple):
    """A file that may be removed for a start on a full disk."""

    cache_dir: str
    """The directory of the chunk cache, whose chunks can be fetched again; empty for none."""
    ballast_bytes: int
    """The size of each log directory's ballast; 0 for none."""


NOTHING_SPARE: Final = Spare("", 0)


class Ballast:
    """The ballast of one log directory: ``size_bytes`` where the file system is large enough, 0 for none."""

    __slots__ = ("_directory", "_given_up", "_size_bytes", "path")

    def __init__(self, directory: str, size_bytes: int) -> None:
        self.path = f"{directory}/{BALLAST}"
        self._directory = directory
        self._size_bytes = size_bytes
        self._given_up = False
        """Whether room was released that `hold` may take back before records fill it."""

    @property
    def held_bytes(self) -> int:
        """Bytes on the disk that `release` would give up. Raises `OSError`."""
        try:
            return os.stat(self.path).st_blocks * _BLOCK_BYTES  # noqa: PTH116 - paths are strings throughout
        except FileNotFoundError:
            return 0

    def make_room(self, cache_directory: str) -> None:
        """Before a start on a full disk: remove the chunk cache, then the ballast. Raises `OSError`."""
        if _free_bytes(self._directory) >= _START_BYTES:
            return
        if same_file_system(self._directory, cache_directory):
            self._clear(cache_directory)
        if _free_bytes(self._directory) < _START_BYTES:
            held_bytes = self.held_bytes
            if self.release():
                log.warning(
                    "the disk of %s is full: its ballast of %d bytes is given up for the start",
                    self._directory,
                    held_bytes,
                )

    def _clear(self, cache_directory: str) -> None:
        """Remove the cache's chunks. An error of its directory is none of the log directory's: the ballast is there, too."""
        try:
            removed = clear_cache(cache_directory)
        except OSError as error:
            log.warning("the chunk cache %s cannot be cleared: %s", cache_directory, error)
        else:
            log.warning("the disk of %s is full: %d files of the chunk cache have gone", self._directory, removed)

    def release(self) -> bool:
        """Remove the file; False if there was none. Raises `OSError`."""
        try:
            os.unlink(self.path)  # noqa: PTH108 - as above
        except FileNotFoundError:
            return False
        self._given_up = True
        return True

    def hold(self) -> None:
        """Take the room where twice as much is free; take back all that is left of what was given up.

        An error is logged and not raised: records are served without a ballast as well.
        """
        try:
            self._hold()
        except OSError as error:
            log.warning("the ballast %s of %d bytes cannot be made: %s", self.path, self._size_bytes, error)

    def _hold(self) -> None:
        volume = os.statvfs(self._directory)
        wanted = min(self._size_bytes, volume.f_blocks * volume.f_frsize // _SHARE)
        if wanted <= 0:
            self.release()
            return
        held, free = self.held_bytes, volume.f_bavail * volume.f_frsize
        if held >= wanted:
            return
        if free < 2 * wanted:
            if not self._given_up:
                return
            wanted = min(wanted, held + free - _MARGIN_BYTES)
        if wanted > held:
            self._grow(wanted)

    def _grow(self, size_bytes: int) -> None:
        """Make the file ``size_bytes`` long, on blocks of its own. Raises `OSError`; then it is as large as before."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            before_bytes = os.fstat(descriptor).st_size
            try:
                os.posix_fallocate(descriptor, 0, size_bytes)
            except OSError:
                # Some of the room may have been taken, which is for records.
                if before_bytes:
                    os.ftruncate(descriptor, before_bytes)
                else:
                    os.unlink(self.path)  # noqa: PTH108 - as above
                raise
        finally:
            os.close(descriptor)

    def lend(self, write: Callable[[], None]) -> None:
        """Call ``write``, which writes something small; on a full disk, in the room of the ballast. Raises `OSError`."""
        try:
            write()
        except OSError as error:
            if error.errno not in DISK_FULL or not self.release():
                raise
            try:
                write()
            finally:
                self.hold()


def raise_if_full(error: BaseException) -> None:
    """Raise an `OSError` with file and remedy if a start ended with ``error`` because the disk is full; else do nothing."""
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        words = (
            "no space is left on the disk, and the chunk cache and the ballast file have given way already: make some MiB of "
            "room on this file system, but remove no segments and no checkpoints. The broker was writing"
        )
        raise OSError(error.errno, words, error.filename or "a file of the log directory") from error


def same_file_system(directory: str, other: str) -> bool:
    """Whether both directories can be looked at, and lie on one file system. The disk of one may be dead."""
    try:
        return os.stat(directory).st_dev == os.stat(other).st_dev  # noqa: PTH116 - paths are strings throughout
    except OSError:
        return False


def is_of_cache(name: str) -> bool:
    """Whether a file of this name is the chunk cache's, of this release or an earlier one."""
    return _OF_CACHE.fullmatch(name) is not None


def clear_cache(directory: str) -> int:
    """Remove every chunk of a cache that no broker uses, and return how many there were. Raises `OSError`.

    The directory may be that of other things, too: their files stay.
    """
    paths = [path for path in Path(directory).iterdir() if is_of_cache(path.name) and path.is_file()]
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def _free_bytes(directory: str) -> int:
    volume = os.statvfs(directory)
    return volume.f_bavail * volume.f_frsize
