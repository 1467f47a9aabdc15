"""Closes a log so that the next start finds it clean; in steps, so that a directory syncs its logs side by side."""

from __future__ import annotations

from typing import cast

from stratalog.hot.log.parts import LogParts
from stratalog.hot.log.sync import SyncTicket
from stratalog.hot.recovery.snapshots import stray_snapshots
from stratalog.hot.recovery.summary_check import take_summary
from stratalog.hot.segments.log_summary import LogSummary
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.hot.storage.removed_log import NoFiles, RemovedLog

__all__ = ["abandon", "begin_close", "summarise"]


def begin_close(parts: LogParts) -> SyncTicket | None:
    """Write everything, indexes and a producer snapshot included, and begin the last sync cycle. Raises `OSError`."""
    cycles, tail, snapshots = parts.cycles, parts.tail, parts.snapshots
    tail.write()
    end_offset = tail.end_offset
    if parts.doomed.has_indexes:
        cycles.sync_names()
        parts.doomed.doom_indexes()
        cycles.note_names()
    cycles.store_epochs(end_offset)
    active = parts.segments.active
    if active.has_indexes or end_offset not in snapshots.offsets:
        for file in active.store_indexes(final=True):
            cycles.note_file(file)
        if end_offset not in snapshots.offsets:
            snapshots.store(end_offset, parts.producers.to_bytes())
        cycles.note_names()
    return cycles.begin(tail.written_offset)


def summarise(parts: LogParts) -> LogSummary | None:
    """The summary of a log whose last sync has run. None if a start has to look at the directory. Raises `OSError`.

    Snapshots that no start needs are removed.
    """
    end_offset = parts.tail.end_offset
    if parts.cycles.flushed_offset != end_offset or parts.cycles.pending or parts.tail.failed is not None:
        return None
    bases = [segment.base_offset for segment in parts.segments]
    parts.snapshots.remove(stray_snapshots(parts.snapshots.offsets, bases, end_offset))
    return take_summary(
        parts.place.files,
        parts.place.directory,
        parts.place.topic_id,
        parts.segments,
        parts.epochs,
        len(parts.producers.entries),
        end_offset,
    )


def abandon(parts: LogParts, *, is_removed: bool = False) -> None:
    """Close every file without writing, for a failed disk or a log about to be removed.

    ``is_removed``: whatever comes to its files from now on raises `RemovedLog`. Work that has paused may go on with the
    log, and a topic that was made again has other files of the same names.
    """
    why = f"the log of {parts.place.topic_partition} is closed"
    for segment in parts.segments:
        parts.place.cache.drop(segment)
    parts.tail.failed = OSError(why)
    if is_removed:
        why = f"the log of {parts.place.topic_partition} in {parts.place.directory} was removed"
        nothing = cast("Filesystem", NoFiles(why))
        parts.tail.failed, parts.tail.failed_for_good = RemovedLog(why), True
        parts.place.files = nothing
        for segment in parts.segments:
            segment.files = nothing
        parts.pending.swap = None
