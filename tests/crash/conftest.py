"""A file system in memory that journals every call, and the images a power cut may leave of it.

Bytes become durable by ``fdatasync`` of their file, names by ``sync_directory`` of their directory; whatever came
after may survive, be dropped, or (bytes) be torn, in any combination, page by page.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from stratalog.hot.storage.filesystem import Entry, FileStatus

PAGE_BYTES = 4096


class Event(NamedTuple):
    """One call: what it did to which inode or name."""

    kind: str  # write, truncate, sync, name, move, syncdir, mark
    inode: int = -1
    position: int = 0
    data: bytes = b""
    source: str = ""
    target: str = ""
    mark: object = None


class MemoryFile:
    """An open file; it reads its inode directly, so it outlives its name."""

    def __init__(self, files: JournaledFilesystem, inode: int) -> None:
        self._files = files
        self.inode = inode

    def fileno(self) -> int:
        raise ValueError("a file in memory has no descriptor")

    def size_bytes(self) -> int:
        return len(self._files.inodes[self.inode])

    def pread(self, length: int, position: int) -> bytes:
        return bytes(self._files.inodes[self.inode][position : position + length])

    def writev(self, buffers: Sequence[bytes | bytearray | memoryview]) -> int:
        content = self._files.inodes[self.inode]
        data = b"".join(buffers)
        limit = self._files.free_bytes
        if limit is not None:
            data = data[: max(limit, 0)]
            self._files.free_bytes = limit - len(data)
            if not data and any(map(len, buffers)):
                raise OSError(errno.ENOSPC, "no space left")
        self._files.journal.append(Event("write", self.inode, len(content), data))
        content += data
        return len(data)

    def truncate(self, size_bytes: int) -> None:
        content = self._files.inodes[self.inode]
        if len(content) == size_bytes:
            return
        self._files.journal.append(Event("truncate", self.inode, size_bytes))
        del content[size_bytes:]
        content += bytes(max(0, size_bytes - len(content)))

    def fdatasync(self) -> None:
        if self._files.sync_failures > 0:
            self._files.sync_failures -= 1
            raise OSError(errno.EIO, "sync failed")
        self._files.journal.append(Event("sync", self.inode))

    def drop_cache(self) -> None:
        self._files.dropped.add(self.inode)

    def close(self) -> None:
        return


class JournaledFilesystem:
    """The `Filesystem` port over dictionaries. ``mark`` notes what the workload promised at that moment."""

    def __init__(self) -> None:
        self.inodes: dict[int, bytearray] = {}
        self.names: dict[str, int] = {}
        self.directories: set[str] = {"/d"}
        self.journal: list[Event] = []
        self.free_bytes: int | None = None
        self.sync_failures = 0
        self.dropped: set[int] = set()
        self.failing_directories: set[str] = set()
        self._next_inode = 0

    def mark(self, what: object) -> None:
        """Note what holds from here on."""
        self.journal.append(Event("mark", mark=what))

    def open_append(self, path: str) -> MemoryFile:
        if path not in self.names:
            if _parent(path) not in self.directories:
                raise FileNotFoundError(path)
            self._next_inode += 1
            self.inodes[self._next_inode] = bytearray()
            self.names[path] = self._next_inode
            self.journal.append(Event("name", self._next_inode, target=path))
        return MemoryFile(self, self.names[path])

    def open_read(self, path: str) -> MemoryFile:
        if path not in self.names:
            raise FileNotFoundError(path)
        return MemoryFile(self, self.names[path])

    def read_bytes(self, path: str) -> bytes:
        file = self.open_read(path)
        return file.pread(file.size_bytes(), 0)

    def scan(self, directory: str, *, sized: tuple[str, ...] = ("",)) -> list[Entry]:
        if directory not in self.directories:
            raise FileNotFoundError(directory)
        found = [
            Entry(path.rpartition("/")[2], len(self.inodes[inode]), 0, is_directory=False)
            for path, inode in self.names.items()
            if _parent(path) == directory
        ]
        found += [
            Entry(path.rpartition("/")[2], 0, 0, is_directory=True)
            for path in self.directories
            if _parent(path) == directory
        ]
        return sorted(found)

    def status(self, path: str) -> FileStatus:
        """Times tell nothing here: trust in a file by its status needs better reasons."""
        if path in self.directories:
            return FileStatus(0, 0, 0, 0)
        if path not in self.names:
            raise FileNotFoundError(path)
        return FileStatus(self.names[path], len(self.inodes[self.names[path]]), 0, 0)

    def rename(self, source: str, target: str) -> None:
        if source in self.directories:
            self._move(source, target)
            self.journal.append(Event("move", source=source, target=target))
            return
        if source not in self.names:
            raise FileNotFoundError(source)
        inode = self.names.pop(source)
        self.names[target] = inode
        self.journal.append(Event("name", inode, source=source, target=target))

    def _move(self, source: str, target: str) -> None:
        """Give a directory without directories in it another name."""
        if target in self.directories and any(_parent(path) == target for path in self.names):
            raise OSError(errno.ENOTEMPTY, "not empty", target)
        self.directories.discard(source)
        self.directories.add(target)
        for path in [one for one in self.names if _parent(one) == source]:
            self.names[target + path[len(source) :]] = self.names.pop(path)

    def unlink(self, path: str) -> None:
        if path in self.names:
            self.journal.append(Event("name", self.names.pop(path), source=path))

    def unlink_gradually(self, path: str) -> None:
        if path in self.names:
            self.open_read(path).truncate(len(self.inodes[self.names[path]]) // 2)
        self.unlink(path)

    def make_directory(self, path: str) -> None:
        self.directories.add(path)  # directories are taken to be durable: their loss is an empty log

    def remove_directory(self, path: str) -> None:
        self.directories.discard(path)

    def sync_directory(self, path: str) -> None:
        if path in self.failing_directories:
            raise OSError(errno.EIO, "sync failed", path)
        self.journal.append(Event("syncdir", target=path))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def cut_power(before: JournaledFilesystem, base: JournaledFilesystem | None, index: int, rng: random.Random):
    """Possible remains, after a power cut behind ``index`` journalled calls, of a file system that began as ``base``."""
    image = JournaledFilesystem()
    image.directories = set(before.directories)
    if base is not None:
        image.inodes = {inode: bytearray(data) for inode, data in base.inodes.items()}
        image.names = dict(base.names)
        image._next_inode = base._next_inode
    journal = before.journal[:index]
    synced = {event.inode: number for number, event in enumerate(journal) if event.kind == "sync"}
    named = {event.target: number for number, event in enumerate(journal) if event.kind == "syncdir"}
    mood = rng.choice(("drop", "keep", "mixed", "mixed", "mixed"))
    for number, event in enumerate(journal):
        durable = number < synced.get(event.inode, -1)
        if event.kind in ("write", "truncate"):
            content = image.inodes.setdefault(event.inode, bytearray())
            if durable or mood == "keep":
                _apply(content, event)
            elif mood == "mixed":
                _apply_partly(content, event, rng)
    _apply_names(image, journal, named, mood, rng, [event for event in before.journal if event.kind == "move"])
    for inode in image.names.values():
        image.inodes.setdefault(inode, bytearray())
    image._next_inode = before._next_inode
    image.base_directories = image.directories
    return image


def _apply(content: bytearray, event: Event) -> None:
    if event.kind == "truncate":
        del content[event.position :]
        content += bytes(max(0, event.position - len(content)))
        return
    _put(content, event.position, event.data)


def _put(content: bytearray, position: int, data: bytes) -> None:
    if data:
        content += bytes(max(0, position - len(content)))
        content[position : position + len(data)] = data


def _apply_partly(content: bytearray, event: Event, rng: random.Random) -> None:
    """Each page of an unsynced write is kept, dropped or torn; an unsynced truncation is kept or dropped."""
    if event.kind == "truncate":
        if rng.random() < 0.5:
            _apply(content, event)
        return
    at = 0
    while at < len(event.data):
        room = PAGE_BYTES - (event.position + at) % PAGE_BYTES
        piece = event.data[at : at + room]
        fate = rng.random()
        if fate < 0.35:
            _put(content, event.position + at, piece)
        elif fate < 0.6:
            _put(content, event.position + at, piece[: rng.randrange(len(piece) + 1)])
        elif fate < 0.7:
            _put(content, event.position + at, bytes(len(piece)))  # the size reached the disk, the page did not
        at += len(piece)


def _apply_names(
    image: JournaledFilesystem,
    journal: list[Event],
    named: dict[str, int],
    mood: str,
    rng: random.Random,
    before_moves: Sequence[Event],
) -> None:
    """Names: durable ones in order; of the others a prefix, or any subset."""
    prefix = rng.randrange(len(journal) + 1) if rng.random() < 0.5 else None
    for event in reversed(before_moves):
        image._move(event.target, event.source)
    lost: dict[str, str] = {}
    for number, event in enumerate(journal):
        if event.kind not in ("name", "move"):
            continue
        parents = {_parent(path) for path in (event.source, event.target) if path}
        durable = all(number < named.get(parent, -1) for parent in parents)
        if not durable and mood != "keep" and _is_dropped(mood, prefix, number, rng):
            if event.kind == "move":
                lost[event.target] = event.source
            continue
        if event.kind == "move":
            origin = lost.pop(event.source, event.source)
            if origin != event.target:
                image._move(origin, event.target)
            continue
        if event.source:
            image.names.pop(_found_at(event.source, lost), None)
        if event.target:
            image.names[_found_at(event.target, lost)] = event.inode


def _is_dropped(mood: str, prefix: int | None, number: int, rng: random.Random) -> bool:
    return mood == "drop" or (number >= prefix if prefix is not None else rng.random() < 0.5)


def _found_at(path: str, lost: dict[str, str]) -> str:
    """Where a name is whose directory did not get its other name."""
    parent = _parent(path)
    return lost[parent] + path[len(parent) :] if parent in lost else path


@dataclass
class Promise:
    """Answers that the workload had got when the power went."""

    acknowledged: int = 0
    """Everything below was answered to producers."""
    deleted_below: int = 0
    """Retention may have removed whatever lies below."""
    batches: dict[int, bytes] = field(default_factory=dict)
    """Base offset to the bytes of the batch last appended there."""


@pytest.fixture(scope="session")
def journaled() -> Callable[[], JournaledFilesystem]:
    """Makes empty journalled file systems."""
    return JournaledFilesystem


@pytest.fixture(scope="session")
def power_cut():
    """Cuts the power: ``power_cut(files, base, index, rng)`` is the file system found afterwards."""
    return cut_power


@pytest.fixture(scope="session")
def promise_type() -> type[Promise]:
    """The record of promises."""
    return Promise


@pytest.fixture
def marks() -> Callable[[JournaledFilesystem, int], Iterator[object]]:
    """The marks among the first ``index`` events."""

    def until(files: JournaledFilesystem, index: int) -> Iterator[object]:
        return (event.mark for event in files.journal[:index] if event.kind == "mark")

    return until
