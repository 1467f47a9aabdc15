"""Rows of ``cleaner-offset-checkpoint``: below its row a log is clean, and stays so only as long as it is not cut.

A log that is cut below its row and copied again has records there that the cleaner has not seen. With the row as it was, a
tombstone would go and the value before it stay. So the row goes down first, durably. Source: Kafka's
``LogCleaner.maybeTruncateCheckpoint``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stratalog.hot.directory import LogDirectory
from stratalog.hot.forgotten_offsets import know_forgotten
from stratalog.hot.log.log import Log
from stratalog.hot.storage import checkpoint
from stratalog.wire.topic import TopicPartition

__all__ = ["follow_cuts", "know_rows", "note_cleaner_offset", "write_cleaner_offsets"]


def know_rows(directory: LogDirectory, log: Log) -> None:
    """Have the directory keep what the cleaner has to know of a log, from now on. Raises `OSError`."""
    follow_cuts(directory, log)
    know_forgotten(directory, log)


def note_cleaner_offset(directory: LogDirectory, name: TopicPartition, offset: int) -> Callable[[], None]:
    """The log is clean below ``offset``: call the result, in any thread, to write it down. It raises `OSError`."""
    directory.cleaner_offsets[name] = offset
    return partial(write_cleaner_offsets, directory)


def write_cleaner_offsets(directory: LogDirectory) -> None:
    """Write all rows as they are, in any thread: of two calls the later one has no row that had gone. Raises `OSError`."""
    with directory.cleaner_lock:  # a later write has all that an earlier one has
        rows = dict(directory.cleaner_offsets)
        checkpoint.write_offsets(directory.files, directory.path, checkpoint.CLEANER_OFFSETS, rows)


def follow_cuts(directory: LogDirectory, log: Log) -> None:
    """Have the row of a log go down before the log is cut, from now on; and now, if the log ends below. Raises `OSError`."""

    def cut(offset: int) -> None:
        name = log.topic_partition
        row = directory.cleaner_offsets.get(name, -1)
        if row > offset:
            write = note_cleaner_offset(directory, name, offset)
            try:
                write()
            except BaseException:  # the cut does not come: tried again, it finds the row as it is on the disk
                directory.cleaner_offsets[name] = row
                raise

    log.compaction.call_before_cuts(cut)
    log.compaction.ask_how_far(lambda: directory.cleaner_offsets.get(log.topic_partition, 0))
    cut(log.log_end_offset)
