"""Rows of ``forgotten-offset-checkpoint``: up to where logs may lack tombstones and markers that a cleaner has dropped.

The form is that of Kafka's offset checkpoints. Only logs from which something was dropped have a row. A row that is lost costs what
Kafka does not have at all: a replica whose disk is put back as of long ago is not told what it has missed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stratalog.hot.directory import LogDirectory
from stratalog.hot.log.log import Log
from stratalog.hot.storage import checkpoint
from stratalog.wire.topic import TopicPartition

__all__ = ["are_forgotten_kept", "know_forgotten", "note_forgotten", "write_forgotten_offsets"]


def note_forgotten(directory: LogDirectory, name: TopicPartition, offset: int) -> Callable[[], None]:
    """Note the forgotten offset of a log: call the result, in any thread, to write it down. It raises `OSError`."""
    if offset:
        directory.forgotten_offsets[name] = offset
    else:
        directory.forgotten_offsets.pop(name, None)
    return partial(write_forgotten_offsets, directory)


def write_forgotten_offsets(directory: LogDirectory) -> None:
    """Write all rows as they are, in any thread: of two calls the later one has no row that had gone. Raises `OSError`."""
    with directory.cleaner_lock:  # a later write has all that an earlier one has
        rows = dict(directory.forgotten_offsets)
        checkpoint.write_offsets(directory.files, directory.path, checkpoint.FORGOTTEN_OFFSETS, rows)
        directory.forgotten_stored = rows


def are_forgotten_kept(directory: LogDirectory) -> bool:
    """Whether the file has all rows as they are."""
    return directory.forgotten_stored == directory.forgotten_offsets


def know_forgotten(directory: LogDirectory, log: Log) -> None:
    """Have the log know its row, and the directory keep it, from now on. Raises `OSError`.

    A log that ends below what was synced of it, and below its row, has lost its end, or its files are of before: then the row
    counts up to that end only.
    """
    name = log.topic_partition
    row = directory.forgotten_offsets.get(name, 0)
    log.forgotten.kept_by(
        row,
        partial(note_forgotten, directory, name),
        lambda: directory.forgotten_stored.get(name) == directory.forgotten_offsets.get(name),
    )
    end = log.log_end_offset
    if row > end and directory.durable_end(name) > end:
        log.forgotten.lower(end)
