"""Files that have left a log: renamed first, removed after ``file.delete.delay.ms``.

A new name is durable before the content goes. A crash may bring a segment back, so its ``.log`` gets the new
name first: its index of aborted transactions cannot be derived from it alone. And its ``.log`` is removed only after
its indexes have new names, durably: an index alone tells a start of a ``.log`` that was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from stratalog.hot.log.place import LogPlace
from stratalog.hot.log.sync_cycles import SyncCycles
from stratalog.hot.segments.segment import DELETED, SUFFIXES, Segment
from stratalog.hot.storage.removal import FileRemoval

__all__ = ["DoomedFiles"]


class DoomedFiles:
    """The files of one log that wait for their removal. Each has a name that no start takes for part of the log."""

    __slots__ = ("_cycles", "_indexes", "_place", "waiting")

    def __init__(self, place: LogPlace, cycles: SyncCycles) -> None:
        self._place = place
        self._cycles = cycles
        self._indexes: list[str] = []
        """Indexes that still have their own names, because those of their ``.log`` files may not be durable."""
        self.waiting: list[tuple[list[str], int | None]] = []
        """Paths, with the time in ms from which they may be removed; None until `take_removal` has seen them."""

    @property
    def has_indexes(self) -> bool:
        """True if indexes wait until the new name of their ``.log`` is durable."""
        return bool(self._indexes)

    def add(self, paths: Iterable[str]) -> None:
        """Take files that were renamed already."""
        self.waiting.append((list(paths), None))

    def doom_durably(self, segment: Segment) -> None:
        """Rename all files of a segment, durably; readers keep theirs open. Raises `OSError`: then call it again."""
        self._place.cache.drop(segment)
        paths = [segment.path(suffix) for suffix in SUFFIXES]
        for path in paths:
            self._rename(path)
        self.add(path + DELETED for path in paths)
        self._place.files.sync_directory(self._place.directory)

    def doom_log(self, segment: Segment) -> None:
        """Rename a segment's ``.log``, not yet durably. `doom_indexes` renames its indexes. Raises `OSError`."""
        self._place.cache.drop(segment)
        path, *indexes = [segment.path(suffix) for suffix in SUFFIXES]
        self._rename(path)
        self.add([path + DELETED])
        self._indexes += indexes

    def doom_indexes(self) -> None:
        """Rename the indexes of segments whose ``.log`` has durably left. Raises `OSError`."""
        while self._indexes:
            path = self._indexes[0]
            self._rename(path)
            del self._indexes[0]
            self.add([path + DELETED])

    def relocated(self) -> None:
        """The log lies in another directory: what waits goes with the one before."""
        self._indexes.clear()
        self.waiting.clear()

    def _rename(self, path: str) -> None:
        with suppress(FileNotFoundError):  # not every segment has all files, and what was interrupted is tried again
            self._place.files.rename(path, path + DELETED)

    def take_removal(self, now_ms: int) -> FileRemoval | None:
        """Hand over the files that were renamed long enough ago, to be removed by the caller, in any thread.

        ``file.delete.delay.ms`` counts from the first call that sees a file, by any clock that does not go back.
        None if no file is due. Raises `OSError`.
        """
        if self._indexes and self._cycles.names_durable:
            self.doom_indexes()
        if not self.waiting:
            return None
        waiting: list[tuple[list[str], int | None]] = []
        due: list[str] = []
        count = len(self.waiting)
        for paths, due_ms in self.waiting:
            if due_ms is None:
                waiting.append((paths, now_ms + self._place.config.file_delete_delay_ms))
            elif now_ms < due_ms:
                waiting.append((paths, due_ms))
            else:
                due += paths
        if due and self._indexes:  # as a rule a sync cycle has made the names durable long ago
            self._cycles.sync_names()
            self.doom_indexes()
            due += [path for paths, _ in self.waiting[count:] for path in paths]
        self.waiting = waiting
        return FileRemoval(self._place.files, due) if due else None
