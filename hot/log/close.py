"""Closes a log so that the next start finds it clean; in steps, so that a directory syncs its logs side by side."""

from __future__ import annotations

from stratalog.hot.log.parts import LogParts
from stratalog.hot.log.sync import SyncTicket
from stratalog.hot.recovery.snapshots import stray_snapshots
from stratalog.hot.recovery.summary_check import take_summary
from stratalog.hot.segments.log_summary import LogSummary

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


def abandon(parts: LogParts) -> None:
    """Close every file without writing, for a failed disk or a log about to be removed."""
    for segment in parts.segments:
        parts.place.cache.drop(segment)
    parts.tail.failed = OSError(f"the log of {parts.place.topic_partition} is closed")
