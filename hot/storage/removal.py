"""Removing files that have left the log: slow, so it is done apart from everything else, and step by step.

To free a file of many megabytes takes tens of milliseconds on a busy disk, and a journalling file system lets every
sync of other files wait for it. Durable names say beforehand that these files are no part of a log any more, so
they may go at any time, and after a crash the next start removes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from stratalog.hot.storage.filesystem import Filesystem

__all__ = ["DirectoryRemoval", "FileRemoval", "Removal"]


class Removal(Protocol):
    """Something to remove. `run` may be called from any thread; it touches only files that have left their log."""

    def run(self) -> None:
        """Remove it. Raises `OSError`; what is left may be tried again."""
        ...


class FileRemoval:
    """Files that were renamed for deletion."""

    __slots__ = ("_files", "_paths")

    def __init__(self, files: Filesystem, paths: Sequence[str]) -> None:
        self._files = files
        self._paths = paths

    def run(self) -> None:
        """Unlink them; those that are gone already are fine. Raises `OSError`."""
        for directory in dict.fromkeys(path.rpartition("/")[0] for path in self._paths):
            with suppress(FileNotFoundError):  # the partition was deleted meanwhile, and its directory renamed
                self._files.sync_directory(directory)
        for path in self._paths:
            self._files.unlink_gradually(path)


class DirectoryRemoval:
    """The directory of a deleted partition."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Filesystem, path: str) -> None:
        self._files = files
        self.path = path

    def run(self) -> None:
        """Unlink every file and remove the directory; one that is gone already is fine. Raises `OSError`."""
        try:
            entries = self._files.scan(self.path)
        except FileNotFoundError:
            return
        self._files.sync_directory(self.path.rpartition("/")[0])
        for entry in entries:
            self._files.unlink_gradually(f"{self.path}/{entry.name}")
        self._files.remove_directory(self.path)
