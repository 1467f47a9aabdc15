"""The disk of a broker in a random history: files in memory, a writer that waits, and workers that open files by name."""

from __future__ import annotations

import io

from stratalog.tier.stores.store import FileRange
from stratalog.wire.topic import TopicPartition
from tests.crash.conftest import JournaledFilesystem, MemoryFile

NAME = TopicPartition("t", 0)


class Path(str):
    """The name of a file, and the disk on which it is."""

    __slots__ = ("files",)


def open_path(path: Path, _mode: str) -> io.BytesIO:
    """As `open`, for the disks in memory."""
    files = path.files
    return io.BytesIO(files.inodes[files.names[path]])


class NamedFile(MemoryFile):
    """It knows its name, by which a worker opens it."""

    path: Path


class Files(JournaledFilesystem):
    """A disk in memory."""

    def open_append(self, path: str):
        return self.named(super().open_append(path), path)

    def open_read(self, path: str):
        return self.named(super().open_read(path), path)

    def named(self, file, path: str) -> NamedFile:
        file.__class__ = NamedFile
        file.path = Path(path)
        file.path.files = self
        return file


class Disk:
    """The writer of a directory: work is done when the world says so."""

    def __init__(self) -> None:
        self.offline = None
        self.waits_for_bounds = False

    def add(self, owner) -> None:
        self.owner = owner

    def remove(self, owner) -> None:
        self.owner = None

    def enqueue(self, owner) -> None:
        pass

    sync = enqueue

    def await_bounds(self, owner) -> None:
        self.waits_for_bounds = True

    def report(self, error, owner=None) -> None:
        raise error


def carry_out(steps) -> None:
    """Write a checkpoint, in one go."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            end.value()
            return


def inlined(files: Files, command):
    """An upload with the bytes of its files, as its worker finds them by name now; None if one is gone."""
    request = command.request
    data = []
    for part in request.source:
        if not isinstance(part, FileRange):
            data.append(part)
            continue
        inode = files.names.get(part.path)
        if inode is None:
            return None
        data.append(memoryview(bytes(files.inodes[inode][part.position : part.position + part.length])))
    return type(command)(
        type(request)(**{**{name: getattr(request, name) for name in fields(request)}, "source": data}),
        command.claimant, command.part_bytes, command.storage_class,
    )  # fmt: skip


def fields(request):
    return getattr(request, "__struct_fields__", None) or tuple(request.__dataclass_fields__)
