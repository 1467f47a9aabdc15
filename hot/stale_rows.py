"""Rows of checkpoints that are of a log which has left: the next log of that name must not be taken for it.

A partition that leaves goes from the checkpoints with their next write. Had it come back before that, its new log would begin
with the recovery point, mark and start of the one before if the broker is killed: a start would call it damaged, or
begin it behind its own records. So the rows go before a log of that name is begun: first those of `LogDirectory`'s own
checkpoints, then those of the cleaner and of archives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import Final

from stratalog.hot.cleaner_offsets import write_cleaner_offsets
from stratalog.hot.directory import DELETE_SUFFIX, LogDirectory
from stratalog.hot.forgotten_offsets import write_forgotten_offsets
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.directory_names import parse_directory_name
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

__all__ = ["drop_rows_of_topic", "drop_stale_rows", "forget_removed", "row_stores", "rows_stored"]

_ID_DIGITS = 32


def drop_stale_rows(directory: LogDirectory, name: TopicPartition) -> None:
    """Write the checkpoints without the logs that have left, if one of them had this name. Raises `OSError`."""
    if name not in directory.stale:
        return
    files, path = directory.files, directory.path
    directory.write_recovery_points({})
    directory.store_bounds()
    with suppress(Corrupt):  # the file says nothing of any log, then
        marks = checkpoint.read_offsets(files, path, checkpoint.HIGH_WATERMARKS)
        if not directory.stale.keys().isdisjoint(marks):
            directory.write_high_watermarks({one: mark for one, mark in marks.items() if one not in directory.stale})
    rows_stored(directory, dict(directory.stale))


def drop_rows_of_topic(directory: LogDirectory, name: TopicPartition) -> None:
    """Write the checkpoints without the logs of the topic of this one, which is gone, before they leave. Raises `OSError`.

    Were they written later, a kill in between would leave the rows without a log: to the next one of that name.
    """
    topic_id = directory.partitions[name].topic_id
    alike = [one for one, found in directory.partitions.items() if found.topic_id == topic_id]
    names = [name] if topic_id is None else alike
    rows = directory.recovery_points, directory.log_start_offsets, directory.high_watermarks, directory.bounds
    cleaned = directory.cleaner_offsets, directory.forgotten_offsets
    others = directory.remote_logs, *cleaned, directory.second_timelines
    named = [one for one in names if any(one in each for each in (*rows, *others))]
    for one in named:
        directory.forget_rows(one)
    if named:
        drop_stale_rows(directory, named[0])


def rows_stored(directory: LogDirectory, stale: Mapping[TopicPartition, set[str]]) -> None:
    """The checkpoints of logs were written since these had left; the others are written without them. Raises `OSError`."""
    for store in row_stores(directory, stale):
        store()


def row_stores(directory: LogDirectory, stale: Mapping[TopicPartition, set[str]]) -> Iterator[Callable[[], None]]:
    """The same, a file each: call what comes before the next one is taken. It raises `OSError`, and may be called again.

    A log that has left again since ``stale`` was taken is stale still.
    """

    def left() -> list[TopicPartition]:
        return [name for name, files in stale.items() if directory.stale.get(name) is files]

    for file, write in _OTHERS.items():
        if any(file in stale[name] for name in left()):
            yield partial(write, directory)
    for name in left():
        del directory.stale[name]


def _write_remote_logs(directory: LogDirectory) -> None:
    checkpoint.write_remote_log(directory.files, directory.path, directory.remote_logs)


def _write_second_timelines(directory: LogDirectory) -> None:
    rows = directory.second_timelines
    checkpoint.write_offsets(directory.files, directory.path, checkpoint.SECOND_TIMELINES, rows)


_OTHERS: Final = {
    checkpoint.REMOTE_LOG: _write_remote_logs,
    checkpoint.CLEANER_OFFSETS: write_cleaner_offsets,
    checkpoint.FORGOTTEN_OFFSETS: write_forgotten_offsets,
    checkpoint.SECOND_TIMELINES: _write_second_timelines,
}


def forget_removed(directory: LogDirectory) -> None:
    """At a start: the logs whose directories wait for their removal have left, and are not missed.

    One that has come back since has rows of its own.
    """
    for path in directory.doomed:
        renamed = PurePosixPath(path).name.removesuffix(DELETE_SUFFIX)
        name = parse_directory_name(renamed[: -_ID_DIGITS - 1])
        if name is not None and name not in directory.partitions:
            directory.forget(name)
