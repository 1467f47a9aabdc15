"""The file port of the hot log and its real implementation.

Everything that ``hot/`` does to a disk goes through `Filesystem` and `File`, so that tests can run the same code
on a journalled file system and cut its power at any moment. Each method's contract says what is durable
when a call returns; more is not promised:

* ``writev`` and ``truncate`` reach the page cache; ``fdatasync`` makes the bytes and the size durable.
* ``open_append`` of a new file, ``rename``, ``unlink`` and ``make_directory`` become durable with the next
  ``sync_directory`` of the directory that holds the name, and may be lost or reordered before it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["Entry", "File", "FileStatus", "Filesystem", "RealFile", "RealFilesystem", "append_all"]

Buffer = bytes | bytearray | memoryview

_IOV_MAX = 1024
_SHRINK_STEP_BYTES = 1 << 20


class Entry(NamedTuple):
    """One name in a directory, with the size in bytes and the time of the last change of its file."""

    name: str
    size_bytes: int
    modified_ms: int
    is_directory: bool


class FileStatus(NamedTuple):
    """The state of a file or directory, without opening it; equal states mean that it has not changed."""

    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int
    """The last change of the file or of what is known of it, which no call can set to another time."""


class File(Protocol):
    """An open file. It stays readable while an object refers to it, also after its name was removed."""

    def fileno(self) -> int:
        """The descriptor, for ``sendfile`` and ``preadv``."""
        ...

    def size_bytes(self) -> int:
        """The current size."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Up to ``length`` bytes from ``position``; shorter only at the end of the file. Raises `OSError`."""
        ...

    def writev(self, buffers: Sequence[Buffer]) -> int:
        """Append the buffers to the end of the file; returns how many bytes were taken, which may be fewer.

        Raises `OSError` (``ENOSPC``, ``EIO``); bytes of a failed call may or may not be in the file.
        """
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to ``size_bytes``. Raises `OSError`."""
        ...

    def fdatasync(self) -> None:
        """Make the bytes and the size durable. After an `OSError` the descriptor must not be synced again."""
        ...

    def drop_cache(self) -> None:
        """Ask the system to forget its cached pages of this file, so that the next read comes from the disk."""
        ...

    def close(self) -> None:
        """Release the descriptor; a second call does nothing."""
        ...


class Filesystem(Protocol):
    """The operations on names that a log needs. All raise `OSError`."""

    def open_append(self, path: str) -> File:
        """Open for reading and appending; an absent file is created empty."""
        ...

    def open_read(self, path: str) -> File:
        """Open an existing file for reading. Raises `FileNotFoundError`."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """The whole content. Raises `FileNotFoundError`."""
        ...

    def scan(self, directory: str, *, sized: tuple[str, ...] = ("",)) -> list[Entry]:
        """Every name in ``directory``, sorted. Sizes and times are zero unless it ends in one of ``sized``."""
        ...

    def status(self, path: str) -> FileStatus:
        """How a file or directory stands now. Raises `FileNotFoundError`."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name, replacing a file of that name in one step."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a name; an absent one is fine."""
        ...

    def unlink_gradually(self, path: str) -> None:
        """Remove a name whose bytes are not needed any more, even if it should come back; an absent one is fine.

        A large file that no process has open shrinks before it goes, so that no sync of another file waits for long.
        """
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; an existing one is fine."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; an absent one is fine."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make every creation, renaming and removal in ``path`` so far durable."""
        ...


def append_all(file: File, buffers: Sequence[Buffer]) -> int:
    """Append every byte of ``buffers``, however short the single writes are; returns their total.

    Raises `OSError`; then an unknown part of the bytes is in the file.
    """
    total = written = 0
    if len(buffers) <= _IOV_MAX:
        for buffer in buffers:
            total += len(buffer)
        written = file.writev(buffers)
        if written == total:
            return total
    return _append_rest(file, buffers, written)


def _append_rest(file: File, buffers: Sequence[Buffer], skip: int) -> int:
    total = sum(map(len, buffers))
    views = [memoryview(buffer) for buffer in buffers]
    done = skip
    while done < total:
        while views and skip >= len(views[0]):
            skip -= len(views.pop(0))
        views[0] = views[0][skip:]
        skip = file.writev(views[:_IOV_MAX])
        if skip <= 0:
            raise OSError(f"a write of {total - done} bytes took none of them")
        done += skip
    return total


class RealFile:
    """A `File` of the operating system; the descriptor closes with the last reference."""

    __slots__ = ("__weakref__", "_fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path

    def fileno(self) -> int:
        """The descriptor. Raises `ValueError` once closed."""
        if self._fd < 0:
            raise ValueError(f"{self.path} is closed")
        return self._fd

    def size_bytes(self) -> int:
        """The current size."""
        return os.fstat(self.fileno()).st_size

    def pread(self, length: int, position: int) -> bytes:
        """Up to ``length`` bytes from ``position``."""
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        pieces = [data]
        have = len(data)
        while have < length:
            data = os.pread(self._fd, length - have, position + have)
            if not data:
                break
            pieces.append(data)
            have += len(data)
        return b"".join(pieces)

    def writev(self, buffers: Sequence[Buffer]) -> int:
        """Append the buffers; returns how many bytes were taken."""
        try:
            return os.writev(self._fd, buffers)
        except OSError as error:
            error.filename = self.path  # what a full disk keeps from being written
            raise

    def truncate(self, size_bytes: int) -> None:
        """Cut the file."""
        os.ftruncate(self._fd, size_bytes)

    def fdatasync(self) -> None:
        """Make the bytes and the size durable."""
        os.fdatasync(self._fd)

    def drop_cache(self) -> None:
        """Forget the clean cached pages of the whole file."""
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Release the descriptor."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        """The last reader has gone: release the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __repr__(self) -> str:
        return f"RealFile({self.path!r})"


class RealFilesystem:
    """The `Filesystem` of the operating system."""

    __slots__ = ()

    def open_append(self, path: str) -> RealFile:
        """Open for reading and appending, creating the file when absent."""
        return RealFile(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644), path)

    def open_read(self, path: str) -> RealFile:
        """Open an existing file for reading."""
        return RealFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path)

    def read_bytes(self, path: str) -> bytes:
        """The whole content."""
        file = self.open_read(path)
        try:
            return file.pread(file.size_bytes(), 0)
        finally:
            file.close()

    def scan(self, directory: str, *, sized: tuple[str, ...] = ("",)) -> list[Entry]:
        """Every name in ``directory``, sorted; what does not end in one of ``sized`` is not asked for its size."""
        with os.scandir(directory) as names:
            entries = []
            for name in names:
                is_directory = name.is_dir(follow_symlinks=False)
                size_bytes = modified_ms = 0
                if name.name.endswith(sized):
                    status = name.stat(follow_symlinks=False)
                    size_bytes, modified_ms = status.st_size, status.st_mtime_ns // 1_000_000
                entries.append(Entry(name.name, size_bytes, modified_ms, is_directory))
        entries.sort()
        return entries

    def status(self, path: str) -> FileStatus:
        """How a file or directory stands now; of a link, the link."""
        found = os.lstat(path)
        return FileStatus(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name."""
        os.replace(source, target)  # noqa: PTH105 - a `Path` costs more than the call, for each of thousands of logs

    def unlink(self, path: str) -> None:
        """Remove a name if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - as above

    def unlink_gradually(self, path: str) -> None:
        """Remove a name if it is there, its file step by step: a journal's commit waits for the step under way."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # whatever it is, a name can go without being opened
            self.unlink(path)
            return
        try:
            status = os.fstat(fd)
            if status.st_size > _SHRINK_STEP_BYTES and status.st_nlink == 1 and _open_here_only(fd):
                for size_bytes in range(status.st_size - _SHRINK_STEP_BYTES, 0, -_SHRINK_STEP_BYTES):
                    os.ftruncate(fd, size_bytes)
        finally:
            os.close(fd)
        self.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory if it is there."""
        try:
            Path(path).rmdir()
        except FileNotFoundError:
            return

    def sync_directory(self, path: str) -> None:
        """Make the names in ``path`` durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _open_here_only(fd: int) -> bool:
    """Whether the file is open here only, as far as the system can tell: it grants a lease for writing only then."""
    try:
        # A process that opens it meanwhile breaks the lease, which raises this signal here; it is ignored by default.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except (AttributeError, OSError):  # not Linux, no leases here, or another process reads it
        return False
    return True
