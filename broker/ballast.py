"""A file in each log directory that is there to be given up: on a full disk it makes room for what must be written.

Killed on a full disk, a broker could not start: a start writes an epoch, checkpoints and indexes. So the start takes the
chunk cache away where it lies on the same file system, and if that is not enough the ballast. Before clients are let in
the ballast takes back what is left of the room, or their records would fill it. While the broker runs, a checkpoint that
finds no room is written in the room of the ballast.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from stratalog.hot.directory import BALLAST

__all__ = ["DISK_FULL", "NOTHING_SPARE", "Ballast", "Spare", "clear_cache", "raise_if_full", "same_file_system"]

DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_SHARE: Final = 16
"""A ballast is no larger than this part of its file system."""
_START_BYTES: Final = 1 << 20
"""With less than this a start makes room first."""
_MARGIN_BYTES: Final = 64 << 10
"""What a ballast that is taken back leaves to others."""

log = logging.getLogger(__name__)


class Spare(NamedTuple):
    """What may give way to a start on a full disk."""

    cache_dir: str
    """The chunk cache, which can be fetched again."""
    ballast_bytes: int
    """The size of each log directory's ballast; 0 is none."""


NOTHING_SPARE: Final = Spare("", 0)


class Ballast:
    """The ballast of one log directory, of ``size_bytes`` where the file system is large enough; 0 is none."""

    __slots__ = ("_directory", "_given_up", "_size_bytes", "path")

    def __init__(self, directory: str, size_bytes: int) -> None:
        self.path = f"{directory}/{BALLAST}"
        self._directory = directory
        self._size_bytes = size_bytes
        self._given_up = False

    @property
    def held_bytes(self) -> int:
        """Bytes that would be given up now."""
        try:
            return os.stat(self.path).st_blocks * 512  # noqa: PTH116 - paths are strings throughout
        except FileNotFoundError:
            return 0

    def make_room(self, cache_directory: str) -> None:
        """Before a start: where the disk is full, let the chunk cache go, then the ballast. Raises `OSError`."""
        if _free_bytes(self._directory) >= _START_BYTES:
            return
        if same_file_system(self._directory, cache_directory):
            removed = clear_cache(cache_directory)
            log.warning("the disk of %s is full: %d files of the chunk cache have gone", self._directory, removed)
        if _free_bytes(self._directory) < _START_BYTES:
            held_bytes = self.held_bytes
            if self.release():
                log.warning(
                    "the disk of %s is full: its ballast of %d bytes is given up for the start",
                    self._directory,
                    held_bytes,
                )

    def release(self) -> bool:
        """Give the room to others; False if there was none. Raises `OSError`."""
        try:
            os.unlink(self.path)  # noqa: PTH108 - as above
        except FileNotFoundError:
            return False
        self._given_up = True
        return True

    def hold(self) -> None:
        """Take the room where there is twice as much; of what was given up, all that is still there.

        An error is logged: records are served without it.
        """
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
            self._take(wanted)

    def _take(self, size_bytes: int) -> None:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, size_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            log.warning("the ballast %s of %d bytes cannot be made: %s", self.path, size_bytes, error)
            with suppress(OSError):
                self.release()

    def lend(self, write: Callable[[], None]) -> None:
        """Have something small written; if the disk is full, in the room of the ballast. Raises `OSError`."""
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
    """Raise the error of a start that found no room in spite of everything with file and remedy; else do nothing."""
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        words = (
            "no space is left on the disk, and the chunk cache and the ballast file have given way already: make some MiB of "
            "room on this file system, but remove no segments and no checkpoints. What was being written"
        )
        raise OSError(error.errno, words, error.filename or "a file of the log directory") from error


def same_file_system(directory: str, other: str) -> bool:
    """Whether both are there and lie on one file system."""
    try:
        return os.stat(directory).st_dev == os.stat(other).st_dev  # noqa: PTH116 - paths are strings throughout
    except FileNotFoundError:
        return False


def clear_cache(directory: str) -> int:
    """Remove every chunk of a cache that no broker uses; how many there were. Raises `OSError`."""
    paths = [path for path in Path(directory).iterdir() if path.is_file()]
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def _free_bytes(directory: str) -> int:
    volume = os.statvfs(directory)
    return volume.f_bavail * volume.f_frsize
