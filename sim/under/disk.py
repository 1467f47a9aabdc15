"""A disk that may lose power: real files stand for the page cache, a shadow knows what is durable.

Bytes become durable by ``fdatasync`` of their file, names by ``sync_directory`` of their directory. After a power cut
whatever came later may survive, be dropped or (bytes) be torn page by page, in any combination. The files are real,
because workers open them by their paths and the broker sends from their descriptors; a kill leaves them as they are.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sim.under.process import Process
from sim.under.remains import Change, Mood, apply, loose_files, put_back, torn
from stratalog.hot.storage.filesystem import Buffer, Entry, FileStatus, RealFile, RealFilesystem

__all__ = ["Disk", "SimFile", "SimFilesystem"]


class Inode:
    """A file or directory. ``entries`` and ``durable`` are a directory's names; the rest is a file's."""

    __slots__ = ("changes", "content", "durable", "entries", "failed", "modified_ms", "number", "size_bytes")

    def __init__(self, *, directory: bool, modified_ms: int = 0, number: int = 0) -> None:
        self.number = number
        """Kept across power cuts; 0 for every directory."""
        self.entries: dict[str, Inode] | None = {} if directory else None
        self.durable: dict[str, Inode] = {}
        self.content = bytearray()
        """The content that is on the disk for certain."""
        self.changes: list[Change] = []
        self.size_bytes = 0
        self.modified_ms = modified_ms
        self.failed = False
        """A sync failed: the page cache shows what the disk does not have, until the cache is dropped."""

    def settle(self) -> None:
        """Everything written is on the disk."""
        for change in self.changes:
            apply(self.content, change)
        self.changes.clear()


class _Renaming:
    """Names that changed together: removed ones and, at most, one new one."""

    __slots__ = ("added", "removed", "waiting")

    def __init__(self, removed: tuple[Inode, str] | None, added: tuple[Inode, str, Inode] | None) -> None:
        self.removed = removed
        self.added = added
        self.waiting = [one[0] for one in (removed, added) if one is not None]
        """Directories whose sync makes this durable."""

    def apply(self, names: dict[int, dict[str, Inode]]) -> None:
        if self.removed is not None:
            names[id(self.removed[0])].pop(self.removed[1], None)
        if self.added is not None:
            names[id(self.added[0])][self.added[1]] = self.added[2]


class Disk:
    """One disk below the real directory ``root``, which exists and is empty.

    ``free_bytes``: how much may still be written. ``failing_syncs``: how many of the next syncs fail.
    """

    def __init__(self, root: str, dice: random.Random, now_ms: Callable[[], int]) -> None:
        self.root = root
        self.dice = dice
        self.now_ms = now_ms
        self.free_bytes: int | None = None
        self.failing_syncs = 0
        self.operations = 0
        self.crash_in = 0
        """So many changes from now on, the process that makes the last one dies in its stead; 0 is never."""
        self.crashed: Callable[[Process], None] = lambda _: None
        self.loose = ""
        """A directory of files that are written by their paths and never synced: the chunk cache."""
        self._top = Inode(directory=True)
        self._files_made = 0
        self._renamings: list[_Renaming] = []

    def change(self, process: Process) -> None:
        """A process is about to change something. Raises `Killed` if it is dead, or dies of it."""
        process.check()
        self.operations += 1
        if self.crash_in:
            self.crash_in -= 1
            if not self.crash_in:
                self.crashed(process)
                process.check()

    # -- names -----------------------------------------------------------------------------------------------------

    def new_file(self) -> Inode:
        """An inode for an empty file, with a number that none has had."""
        self._files_made += 1
        return Inode(directory=False, modified_ms=self.now_ms(), number=self._files_made)

    def find(self, path: str) -> Inode | None:
        """The file that has this name now, if any."""
        inode: Inode | None = self._top
        for name in self._names(path):
            if inode is None or inode.entries is None:
                return None
            inode = inode.entries.get(name)
        return inode

    def _names(self, path: str) -> list[str]:
        assert path == self.root or path.startswith(self.root + "/"), path
        return [name for name in path[len(self.root) :].split("/") if name]

    def place(self, path: str) -> tuple[Inode, str]:
        """The directory that holds a name. Raises `FileNotFoundError`."""
        parent, _, name = path.rpartition("/")
        directory = self.find(parent)
        if directory is None or directory.entries is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return directory, name

    def rename(self, removed: tuple[Inode, str] | None, added: tuple[Inode, str, Inode] | None) -> None:
        """Note that names changed; durable after the sync of their directories."""
        if removed is not None:
            assert removed[0].entries is not None
            removed[0].entries.pop(removed[1], None)
        if added is not None:
            assert added[0].entries is not None
            added[0].entries[added[1]] = added[2]
        self._renamings.append(_Renaming(removed, added))

    def sync_names(self, path: str) -> None:
        """The names in a directory are durable from now on."""
        directory = self.find(path)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        for renaming in self._renamings:
            if directory in renaming.waiting:
                renaming.waiting = [one for one in renaming.waiting if one is not directory]
        while self._renamings and not self._renamings[0].waiting:
            first = self._renamings.pop(0)
            if first.removed is not None:
                first.removed[0].durable.pop(first.removed[1], None)
            if first.added is not None:
                first.added[0].durable[first.added[1]] = first.added[2]

    def sync_attempted(self, path: str) -> None:
        """Raises `OSError` if this sync has to fail."""
        if self.failing_syncs:
            self.failing_syncs -= 1
            raise OSError(errno.EIO, "the disk does not answer", path)

    # -- power -----------------------------------------------------------------------------------------------------

    def cut_power(self, mood: Mood | None = None) -> str:
        """Leave what a power cut may leave; in a word, how much that was. Without a ``mood`` one is drawn."""
        if mood is None:
            mood = self.dice.choice((Mood.DROP, Mood.DROP, Mood.KEEP, Mood.MIXED, Mood.MIXED))
        loose = list(loose_files(self.loose, mood, self.dice))
        names = {id(one): dict(one.durable) for one in _directories(self._top, set())}
        for renaming in self._renamings:
            for one in (renaming.removed, renaming.added):
                if one is not None:
                    names.setdefault(id(one[0]), dict(one[0].durable))
            if renaming.added is not None and renaming.added[2].entries is not None:
                names.setdefault(id(renaming.added[2]), dict(renaming.added[2].durable))
        prefix = self.dice.randrange(len(self._renamings) + 1)
        in_order = self.dice.random() < 0.5
        for number, renaming in enumerate(self._renamings):
            durable = not renaming.waiting or mood is Mood.KEEP
            chance = mood is Mood.MIXED and (number < prefix if in_order else self.dice.random() < 0.5)
            if durable or chance:
                renaming.apply(names)
        top = self._top
        self.wipe()
        self._top = self._rebuilt(top, names, self.root, mood)
        put_back(loose)
        return mood.value

    def flip(self, path: str, position: int, bit: int) -> None:
        """A bit of a file at rest is another one from now on, also after a power cut."""
        with Path(path).open("r+b") as file:
            file.seek(position)
            (byte,) = file.read(1)
            file.seek(position)
            file.write(bytes([byte ^ 1 << bit]))
        content = self._found(path).content
        if position < len(content):
            content[position] ^= 1 << bit

    def wipe(self) -> None:
        """Another, empty disk is in the place of this one."""
        for name in os.listdir(self.root):  # noqa: PTH208 - paths are strings throughout
            found = f"{self.root}/{name}"
            shutil.rmtree(found) if os.path.isdir(found) else os.unlink(found)  # noqa: PTH108, PTH112
        self._renamings.clear()
        self._top = Inode(directory=True)

    def take_up(self) -> None:
        """Know the files that were put below the root by other ways; all of them are durable."""
        self._top = self._found(self.root)

    def _found(self, path: str) -> Inode:
        if not os.path.isdir(path):  # noqa: PTH112 - paths are strings throughout
            file = self.new_file()
            file.content = bytearray(Path(path).read_bytes())
            file.size_bytes = len(file.content)
            return file
        directory = Inode(directory=True)
        for name in sorted(os.listdir(path)):  # noqa: PTH208
            directory.durable[name] = self._found(f"{path}/{name}")
        directory.entries = dict(directory.durable)
        return directory

    def _rebuilt(self, inode: Inode, names: dict[int, dict[str, Inode]], path: str, mood: Mood) -> Inode:
        """The inode as found afterwards, written to the real file of its name."""
        if inode.entries is not None:
            if path != self.root:
                Path(path).mkdir()
            found = Inode(directory=True)
            for name, entry in names.get(id(inode), inode.durable).items():
                found.durable[name] = self._rebuilt(entry, names, f"{path}/{name}", mood)
            found.entries = dict(found.durable)
            return found
        file = Inode(directory=False, modified_ms=inode.modified_ms, number=inode.number)
        file.content = self._survived(inode, mood)
        file.size_bytes = len(file.content)
        Path(path).write_bytes(file.content)
        return file

    def _survived(self, inode: Inode, mood: Mood) -> bytearray:
        content = bytearray(inode.content)
        for change in [] if inode.failed else inode.changes:
            if mood is Mood.KEEP:
                apply(content, change)
            elif mood is Mood.MIXED:
                for part in torn(change, self.dice):
                    apply(content, part)
        return content


def _directories(inode: Inode, seen: set[int]) -> Iterator[Inode]:
    """Every directory that has, or may come back to have, a name."""
    if inode.entries is None or id(inode) in seen:
        return
    seen.add(id(inode))
    yield inode
    for entry in [*inode.entries.values(), *inode.durable.values()]:
        yield from _directories(entry, seen)


class SimFile(RealFile):
    """A real file that reports its changes to its disk."""

    __slots__ = ("_disk", "_inode", "_process")

    def __init__(self, fd: int, path: str, inode: Inode, disk: Disk, process: Process) -> None:
        super().__init__(fd, path)
        self._inode = inode
        self._disk = disk
        self._process = process

    def writev(self, buffers: Sequence[Buffer]) -> int:
        """Append; a full disk takes what it has room for."""
        self._disk.change(self._process)
        disk, inode = self._disk, self._inode
        data = b"".join(buffers)
        if disk.free_bytes is not None:
            data, wanted = data[: disk.free_bytes], len(data)
            disk.free_bytes -= len(data)
            if wanted and not data:
                raise OSError(errno.ENOSPC, "no space left on device", self.path)
        inode.changes.append(Change(inode.size_bytes, data))
        inode.size_bytes += len(data)
        inode.modified_ms = disk.now_ms()
        return super().writev([data])

    def truncate(self, size_bytes: int) -> None:
        """Cut, or lengthen with zeros."""
        self._disk.change(self._process)
        if size_bytes != self._inode.size_bytes:
            self._inode.changes.append(Change(size_bytes, None))
            self._inode.size_bytes = size_bytes
            super().truncate(size_bytes)

    def fdatasync(self) -> None:
        """Make the bytes durable. Raises `OSError` if the disk is to fail: then they are lost."""
        self._disk.change(self._process)
        try:
            self._disk.sync_attempted(self.path)
        except OSError:
            self._inode.failed = True
            raise
        if not self._inode.failed:  # else the kernel has nothing dirty and says that all is well
            self._inode.settle()

    def drop_cache(self) -> None:
        """Show what is on the disk."""
        if self._inode.failed:
            inode = self._inode
            inode.failed = False
            inode.changes.clear()
            inode.size_bytes = len(inode.content)
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, inode.content, 0)


class SimFilesystem(RealFilesystem):
    """The file port of one process over a disk."""

    __slots__ = ("_disk", "_process")

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk = disk
        self._process = process

    def open_append(self, path: str) -> SimFile:
        """Open for reading and appending; an absent file is created empty."""
        self._process.check()
        disk = self._disk
        inode = disk.find(path)
        if inode is None:
            disk.change(self._process)
            parent, name = disk.place(path)
            if disk.free_bytes is not None and disk.free_bytes <= 0:
                raise OSError(errno.ENOSPC, "no space left on device", path)
            inode = disk.new_file()
            disk.rename(None, (parent, name, inode))
        return SimFile(
            os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644), path, inode, disk, self._process
        )

    def open_read(self, path: str) -> SimFile:
        """Open for reading; writable underneath, for what a dropped cache shows."""
        self._process.check()
        inode = self._disk.find(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return SimFile(os.open(path, os.O_RDWR | os.O_CLOEXEC), path, inode, self._disk, self._process)

    def scan(self, directory: str, *, sized: tuple[str, ...] = ("",)) -> list[Entry]:  # noqa: ARG002 - the port's
        """Every name, sorted; times are virtual, and all sizes are given."""
        found = self._disk.find(directory)
        if found is None or found.entries is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        return sorted(
            Entry(name, one.size_bytes, one.modified_ms, one.entries is not None) for name, one in found.entries.items()
        )

    def status(self, path: str) -> FileStatus:
        """As the shadow has it: times are virtual, and a directory's tell nothing."""
        found = self._disk.find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        modified_ns = found.modified_ms * 1_000_000
        return FileStatus(found.number, found.size_bytes, modified_ns, modified_ns)

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name."""
        self._disk.change(self._process)
        disk = self._disk
        inode = disk.find(source)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        disk.rename(disk.place(source), (*disk.place(target), inode))
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name if it is there."""
        self._disk.change(self._process)
        if self._disk.find(path) is not None:
            self._disk.rename(self._disk.place(path), None)
            super().unlink(path)

    def unlink_gradually(self, path: str) -> None:
        """Remove a name whose file may come back shortened."""
        inode = self._disk.find(path)
        if inode is not None and inode.size_bytes and self._disk.dice.random() < 0.5:
            inode.changes.append(Change(inode.size_bytes // 2, None))  # on the disk only: who has it open reads on
        self.unlink(path)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        self._disk.change(self._process)
        disk = self._disk
        at = disk.root
        for name in path[len(disk.root) :].split("/"):
            at = f"{at}/{name}" if name else at
            if disk.find(at) is None:
                disk.rename(None, (*disk.place(at), Inode(directory=True)))
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory if it is there."""
        self._disk.change(self._process)
        if self._disk.find(path) is not None:
            super().remove_directory(path)
            self._disk.rename(self._disk.place(path), None)

    def sync_directory(self, path: str) -> None:
        """Make the names in ``path`` durable."""
        self._disk.change(self._process)
        self._disk.sync_attempted(path)
        self._disk.sync_names(path)
