"""The owner of a log, as those that write and sync its directory see it."""

from __future__ import annotations

from typing import Protocol

from stratalog.hot.log.log import Log

__all__ = ["LogOwner"]


class LogOwner(Protocol):
    """The owner of a log; gets the progress of its writes and syncs."""

    log: Log

    def on_written(self) -> None:
        """All records queued so far are in the file."""
        ...

    def flush_due(self) -> bool:
        """True if the written records must be synced now (``flush.messages``, ``flush.ms``)."""
        ...

    def on_flushed(self) -> None:
        """``log.flushed_offset`` has moved."""
        ...

    def on_write_refused(self, error: OSError) -> None:
        """The queued records found no room and are dropped, without an acknowledgement; the log is whole."""
        ...

    def on_storage_failed(self, error: OSError) -> None:
        """The directory is offline; queued and unsynced records will not be acknowledged."""
        ...
