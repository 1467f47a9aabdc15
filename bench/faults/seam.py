"""The seam between a real node and its disk and clock: the campaign writes to a page that the node's process maps.

The file port of the hot log writes down which bytes of each file were synced, so that a power cut can drop the others
afterwards, when the process was killed: the page cache itself survives that. Names of files survive a cut; the simulation
(`sim.under.disk`) loses them, too. Files written by other ways than the port, such as archived objects, are taken for synced.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import time
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from stratalog.broker.runtime.clock import SystemClock
from stratalog.hot.storage.filesystem import RealFile, RealFilesystem
from stratalog.hot.storage.kernel_sync import KernelSync

__all__ = ["DiskMode", "SeamPage", "cut_power", "plant", "seam_path", "synced_bytes"]

_PAGE: Final = struct.Struct("<IIq")
"""The mode of the disk, the delay of its syncs in milliseconds, how far its clock is ahead in milliseconds."""
_NOTE: Final = struct.Struct("<IQq")
"""The kind of a note, an inode, and a size in bytes."""
_SYNCED, _CUT, _GONE = 1, 2, 3


class DiskMode(IntEnum):
    """How the disk of a node behaves."""

    WHOLE = 0
    BROKEN = 1
    """Writes and syncs fail with EIO."""
    FULL = 2
    """Writes fail with ENOSPC; syncs are well."""
    SLOW = 3
    """Each sync takes longer."""


def seam_path(properties: str) -> str:
    """The page of the node with this properties file."""
    return properties.removesuffix(".properties") + ".seam"


class SeamPage:
    """The page of one node, shared by its processes and the campaign."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes = Path(f"{path}.synced")
        """Appended to by the node: what it has synced."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(descriptor).st_size < _PAGE.size:
            os.ftruncate(descriptor, _PAGE.size)
        self._bytes = mmap.mmap(descriptor, _PAGE.size)
        os.close(descriptor)

    def set(self, mode: DiskMode, *, delay_ms: int = 0) -> None:
        """Let the disk behave so from now on."""
        _PAGE.pack_into(self._bytes, 0, mode, delay_ms, self.ahead_ms)

    def set_clock(self, ahead_ms: int) -> None:
        """Let the wall clock be ahead of the machine's, or behind it."""
        mode, delay_ms, _ = _PAGE.unpack_from(self._bytes)
        _PAGE.pack_into(self._bytes, 0, mode, delay_ms, ahead_ms)

    @property
    def mode(self) -> int:
        """How the disk behaves."""
        return int(_PAGE.unpack_from(self._bytes)[0])

    @property
    def delay_seconds(self) -> float:
        """How much longer a sync takes."""
        return float(_PAGE.unpack_from(self._bytes)[1]) / 1000

    @property
    def ahead_ms(self) -> int:
        """How far the wall clock is ahead."""
        return int(_PAGE.unpack_from(self._bytes)[2])


class _Notes:
    """Writes down what is synced. A note is appended in one call, after the sync, so that none claims too much."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def note(self, kind: int, inode: int, size_bytes: int = 0) -> None:
        os.write(self._descriptor, _NOTE.pack(kind, inode, size_bytes))

    def gone(self, path: str) -> None:
        """A name goes: its inode may come back with another file."""
        try:
            self.note(_GONE, os.stat(path).st_ino)  # noqa: PTH116 - paths are strings in the port
        except FileNotFoundError:
            return


def plant(path: str) -> None:
    """Let all files and the wall clock of this process obey the page at ``path``."""
    page = SeamPage(path)
    notes = _Notes(page.notes)
    _plant_in_files(page, notes)
    _plant_in_names(page, notes)
    clock: Any = SystemClock
    clock.wall_ms = lambda _: time.time_ns() // 1_000_000 + page.ahead_ms
    kernel: Any = KernelSync
    kernel.open = classmethod(lambda *_: None)  # threads sync, through the port


def _checked(page: SeamPage, path: str, *, syncs: bool = False) -> None:
    """Fail or wait as the disk does. Raises `OSError`."""
    mode = page.mode
    if mode == DiskMode.WHOLE:
        return
    if mode == DiskMode.BROKEN:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)
    if mode == DiskMode.FULL and not syncs:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    if mode == DiskMode.SLOW and syncs:
        time.sleep(page.delay_seconds)


def _plant_in_files(page: SeamPage, notes: _Notes) -> None:
    files: Any = RealFile
    writev, truncate, sync = files.writev, files.truncate, files.fdatasync

    def checked_writev(self: RealFile, buffers: Any) -> int:
        _checked(page, self.path)
        return int(writev(self, buffers))

    def noted_truncate(self: RealFile, size_bytes: int) -> None:
        truncate(self, size_bytes)
        notes.note(_CUT, os.fstat(self.fileno()).st_ino, size_bytes)

    def noted_sync(self: RealFile) -> None:
        descriptor = self.fileno()
        status = os.fstat(descriptor)
        _checked(page, self.path, syncs=True)
        sync(self)
        notes.note(_SYNCED, status.st_ino, status.st_size)

    files.writev, files.truncate, files.fdatasync = checked_writev, noted_truncate, noted_sync


def _plant_in_names(page: SeamPage, notes: _Notes) -> None:
    names: Any = RealFilesystem
    open_append, rename, unlink, sync_directory = names.open_append, names.rename, names.unlink, names.sync_directory

    def noted_open(self: RealFilesystem, path: str) -> RealFile:
        if page.mode == DiskMode.FULL and not os.path.exists(path):  # noqa: PTH110 - as above
            _checked(page, path)
        file: RealFile = open_append(self, path)
        status = os.fstat(file.fileno())
        if not status.st_size:
            notes.note(_CUT, status.st_ino, 0)
        return file

    def noted_rename(self: RealFilesystem, source: str, target: str) -> None:
        _checked(page, source, syncs=True)
        notes.gone(target)
        rename(self, source, target)

    def noted_unlink(self: RealFilesystem, path: str) -> None:
        notes.gone(path)
        unlink(self, path)

    def checked_sync(self: RealFilesystem, path: str) -> None:
        _checked(page, path, syncs=True)
        sync_directory(self, path)

    names.open_append, names.rename = noted_open, noted_rename
    names.unlink, names.sync_directory = noted_unlink, checked_sync


def synced_bytes(notes: bytes) -> dict[int, int]:
    """How many bytes of each inode are on the disk, by the notes of a node. Inodes without a note are synced whole."""
    synced: dict[int, int] = {}
    for kind, inode, size_bytes in _NOTE.iter_unpack(notes[: len(notes) // _NOTE.size * _NOTE.size]):
        if kind == _SYNCED:
            synced[inode] = max(synced.get(inode, 0), size_bytes)
        elif kind == _CUT:
            synced[inode] = min(synced.get(inode, size_bytes), size_bytes)
        else:
            synced.pop(inode, None)
    return synced


def cut_power(page: SeamPage, directory: Path, *, on_dropped: Callable[[Path, int], object] | None = None) -> int:
    """Drop all bytes below ``directory`` that were not synced; how many there were. No process of the node may run."""
    synced = synced_bytes(page.notes.read_bytes()) if page.notes.exists() else {}
    dropped = 0
    for path in sorted(one for one in directory.rglob("*") if one.is_file()):
        status = path.stat()
        left = synced.get(status.st_ino, status.st_size)
        if left < status.st_size:
            os.truncate(path, left)
            dropped += status.st_size - left
            if on_dropped is not None:
                on_dropped(path, status.st_size - left)
    page.notes.unlink(missing_ok=True)  # what is left is on the disk
    return dropped
