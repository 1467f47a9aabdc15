"""One sync cycle of a log: which files, up to which offset."""

from __future__ import annotations

from stratalog.hot.filesystem import File, Filesystem

__all__ = ["SyncTicket"]


class SyncTicket:
    """What was dirty when the cycle began. `run` may be called from any thread; it touches nothing of the log."""

    __slots__ = ("_directory", "_files", "_filesystem", "done", "end_offset")

    def __init__(self, filesystem: Filesystem, files: list[File], directory: str | None, end_offset: int) -> None:
        self._filesystem = filesystem
        self._files = files
        self._directory = directory
        self.end_offset = end_offset
        """Everything below is durable once `run` has returned."""
        self.done = False

    def run(self) -> None:
        """Sync the data, then the names. Raises `OSError`: take the directory offline, never call it again."""
        for file in self._files:
            file.fdatasync()
        if self._directory is not None:
            self._filesystem.sync_directory(self._directory)
        self.done = True
