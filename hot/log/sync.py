"""One sync cycle of a log: which files, up to which offset."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple, Protocol

from stratalog.hot.storage.filesystem import File, Filesystem, RealFile

__all__ = ["InPlace", "Replacement", "StoredFile", "SyncTicket", "Syncable", "outcome_of"]


class Syncable(Protocol):
    """Something whose bytes a cycle makes durable."""

    def fdatasync(self) -> None:
        """Make the bytes durable. Raises `OSError`."""
        ...


class StoredFile:
    """A file that is opened only to be synced: many of them, or one that was noted often, hold no descriptors meanwhile."""

    __slots__ = ("_filesystem", "path")

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self._filesystem = filesystem
        self.path = path

    def __eq__(self, other: object) -> bool:
        """Whether it is the same file, which needs one sync."""
        return isinstance(other, StoredFile) and self.path == other.path

    def __hash__(self) -> int:
        """As equality wants it."""
        return hash(self.path)

    def fdatasync(self) -> None:
        """Make the bytes durable, also those of other writers; a file that was removed has none. Raises `OSError`."""
        try:
            file = self._filesystem.open_read(self.path)
        except FileNotFoundError:
            return
        try:
            file.fdatasync()
        finally:
            file.close()


class InPlace:
    """The newest content of a small file that has taken its place: cycles may run in any order, and at once."""

    __slots__ = ("lock", "number")

    def __init__(self) -> None:
        self.lock = Lock()
        self.number = 0


class Replacement(NamedTuple):
    """A small file that was written beside its name and takes its place once its bytes are durable, unless a newer one has."""

    file: File
    temporary: str
    path: str
    number: int
    in_place: InPlace


class SyncTicket:
    """Everything that was dirty when the cycle began. Any thread may call `run`; it does not touch the log."""

    __slots__ = ("_directories", "_files", "_filesystem", "_replacements", "done", "end_offset")

    def __init__(
        self,
        filesystem: Filesystem,
        files: Sequence[Syncable],
        replacements: Sequence[Replacement],
        directories: Sequence[str],
        end_offset: int,
    ) -> None:
        self._filesystem = filesystem
        self._files = files
        self._replacements = replacements
        self._directories = directories
        self.end_offset = end_offset
        """All below this offset is durable once `run` has returned; a truncation meanwhile lowers it."""
        self.done = False

    @property
    def names_pending(self) -> bool:
        """True until `run` has made the names durable."""
        return bool(self._directories) and not self.done

    def hand_on(self) -> tuple[Sequence[Syncable], Sequence[Replacement], Sequence[str]]:
        """Let another ticket do the work that `run` has not done, as far as is known: this one has none left."""
        rest = self._files, self._replacements, self._directories
        self._files = self._replacements = self._directories = ()
        self.done = True
        return rest

    @property
    def only_file(self) -> RealFile | None:
        """The one file to ``fdatasync``, if the ticket has no other work; then `synced` may replace `run`."""
        if len(self._files) != 1 or self._replacements or self._directories:
            return None
        file = self._files[0]
        return file if type(file) is RealFile else None

    def synced(self) -> None:
        """Note that the caller has synced `only_file` itself."""
        self._files = ()
        self.done = True

    def run(self) -> None:
        """Sync the data, then the names. Raises `OSError`: take the directory offline, never call it again.

        It may be called again only after EMFILE or ENFILE, when no descriptor was free.
        """
        for file in self._files:
            file.fdatasync()
        self._files = ()
        for replacement in self._replacements:
            replacement.file.fdatasync()
            with replacement.in_place.lock:
                if replacement.number > replacement.in_place.number:
                    self._filesystem.rename(replacement.temporary, replacement.path)
                    replacement.in_place.number = replacement.number
                else:
                    self._filesystem.unlink(replacement.temporary)
        self._replacements = ()
        for directory in self._directories:
            self._filesystem.sync_directory(directory)
        self.done = True


def outcome_of(ticket: SyncTicket) -> OSError | None:
    """Run a ticket; returns its error or None."""
    try:
        ticket.run()
    except OSError as failure:
        return failure
    except Exception as failure:  # noqa: BLE001 - whatever it was, nothing is known to be on disk
        return OSError(f"a sync failed: {failure!r}")
    return None
