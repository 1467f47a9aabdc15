"""A log changes its directory: the names on the disks, in an order that a crash respects, and the other half at the start.

1. The copy grows under a name that no start takes for a log: ``<topic>-<partition>.<32 hex digits>-future``, as Kafka's.
2. When it is complete it gets a note of the directory it comes from, and the log one of the directory it moves to. Both are durable.
3. The copy gets the name of the partition, durably, and then the log the name of a deleted one (`take_over`). Meanwhile nothing
   is written to the log.
4. The note in the copy goes.

A start that finds the partition twice takes the copy if the log names its directory: nothing was written to the log since. Else the
log went on after a disk had failed in step 3: then the copy is set aside. The one that goes has to be older: the other's note names it,
or the other one ends no earlier. The disk may be an older image, and then both stay. A copy that is not complete is dropped, if
the log is there, and made anew.
Rows of checkpoints go with the log before step 2 (`carry_rows`).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from stratalog.hot.cleaner_offsets import write_cleaner_offsets
from stratalog.hot.directory import DELETE_SUFFIX, LogDirectory
from stratalog.hot.forgotten_offsets import write_forgotten_offsets
from stratalog.hot.leaving_logs import doom_partition, set_log_aside
from stratalog.hot.log.log import Log
from stratalog.hot.log_copy import SourceFailed
from stratalog.hot.state.log_bounds import LogBounds
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.directory_names import FoundPartition, directory_name, parse_directory_name
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition, Uuid, uuid_parse, uuid_text

__all__ = [
    "FUTURE_SUFFIX",
    "UnfinishedMove",
    "carry_rows",
    "doom_copy",
    "drop_notes",
    "drop_origin",
    "future_directory_name",
    "note_origin",
    "note_target",
    "only_copies",
    "rows_carried",
    "settle_moves",
    "take_over",
    "undecided",
]

FUTURE_SUFFIX: Final = "-future"
_FUTURE: Final = re.compile(r"(?P<name>\S+)\.[0-9a-f]{32}-future")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_STRAY_SUFFIX: Final = "-stray"
_ORIGIN: Final = ".stratalog-moved-from"
_TARGET: Final = ".stratalog-moves-to"

log = logging.getLogger(__name__)

R = TypeVar("R")


class UnfinishedMove(NamedTuple):
    """A move that a stop has interrupted; it is to be begun again."""

    topic_partition: TopicPartition
    target: str
    """The path of the log directory that the log was to move to."""


def future_directory_name(topic_partition: TopicPartition, unique: Uuid) -> str:
    """Kafka's name of a copy that is to take the place of a log."""
    return f"{directory_name(topic_partition)}.{unique.hex()}{FUTURE_SUFFIX}"


# -- notes -----------------------------------------------------------------------------------------------------


def note_origin(files: Filesystem, copy: str, directory_id: Uuid) -> None:
    """Note in a copy which log directory it comes from, durably. Raises `OSError`."""
    _write_note(files, f"{copy}/{_ORIGIN}", directory_id)


def note_target(files: Filesystem, path: str, directory_id: Uuid) -> None:
    """Note in a log which log directory it moves to, durably. Raises `OSError`."""
    _write_note(files, f"{path}/{_TARGET}", directory_id)


def drop_origin(files: Filesystem, path: str) -> None:
    """The move has ended. Raises `OSError`."""
    files.unlink(f"{path}/{_ORIGIN}")
    files.sync_directory(path)


def drop_notes(files: Filesystem, path: str) -> None:
    """Remove the notes that an earlier move may have left in a log, durably. Raises `OSError`."""
    files.unlink(f"{path}/{_TARGET}")
    drop_origin(files, path)


def _write_note(files: Filesystem, path: str, directory_id: Uuid) -> None:
    note = json.dumps({"version": 0, "directory.id": uuid_text(directory_id)})
    checkpoint.write_durably(files, path, note.encode())


def _noted(files: Filesystem, path: str) -> Uuid | None:
    """The directory that a note names; None without one, or if it cannot be read."""
    try:
        return uuid_parse(json.loads(files.read_bytes(path))["directory.id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError, Invalid):
        return None


# -- the swap --------------------------------------------------------------------------------------------------


def take_over(source: LogDirectory, target: LogDirectory, log_: Log, copy: str) -> None:
    """Give a complete copy the name of the partition, durably. The caller dooms the log then, and relocates it.

    Raises `OSError`; then the log counts, and its note of the target is gone, durably. `SourceFailed` if not even that
    could be done: nothing may be written to the log any more, for the next start may take the copy.
    """
    name = log_.topic_partition
    path = target.partition_path(name)
    try:
        target.files.rename(copy, path)
        target.files.sync_directory(target.path)
    except OSError as error:
        with suppress(OSError):
            target.files.rename(path, copy)
        try:
            drop_notes(source.files, source.partition_path(name))
        except OSError as second:
            raise SourceFailed(second) from error
        raise
    target.partitions[name] = FoundPartition(name, log_.topic_id, path)


def doom_copy(directory: LogDirectory, copy: str) -> None:
    """Give a copy that is not wanted any more the name of something deleted, durably. Raises `OSError`."""
    doomed = copy.removesuffix(FUTURE_SUFFIX) + DELETE_SUFFIX
    directory.files.rename(copy, doomed)
    directory.doomed.append(doomed)
    directory.files.sync_directory(directory.path)


# -- rows of checkpoints ---------------------------------------------------------------------------------------


def carry_rows(source: LogDirectory, target: LogDirectory, log_: Log) -> None:
    """Let the next checkpoint of ``target`` have the rows of a log that comes to lie there.

    Those of the cleaner and of the archive are written at once. Raises `OSError`.
    """
    name = log_.topic_partition
    target.recovery_points[name] = log_.flushed_offset
    target.log_start_offsets[name] = log_.log_start_offset
    target.bounds = target.bounds | {name: _bounds(log_)}
    target.bounds_stored = target.points_stored = False
    target.changes.store_count += 1  # a draft under way lacks them
    if target.cleaner_offsets.get(name) != source.cleaner_offsets.get(name):
        before = target.cleaner_offsets
        target.cleaner_offsets = _with_row(before, source.cleaner_offsets, name)
        try:
            write_cleaner_offsets(target)
        except BaseException:  # what is not on the disk of the target has not been carried
            target.cleaner_offsets = before
            raise
    if target.forgotten_offsets.get(name) != source.forgotten_offsets.get(name):
        told = target.forgotten_offsets
        target.forgotten_offsets = _with_row(told, source.forgotten_offsets, name)
        try:
            write_forgotten_offsets(target)
        except BaseException:
            target.forgotten_offsets = told
            raise
    if target.remote_logs.get(name) != source.remote_logs.get(name):
        archived = _with_row(target.remote_logs, source.remote_logs, name)
        checkpoint.write_remote_log(target.files, target.path, archived)
        target.remote_logs = archived
    if name in source.second_timelines:
        suspects = target.second_timelines | {name: source.second_timelines[name]}
        checkpoint.write_offsets(target.files, target.path, checkpoint.SECOND_TIMELINES, suspects)
        target.second_timelines = suspects


def _with_row(
    rows: dict[TopicPartition, R], others: dict[TopicPartition, R], name: TopicPartition
) -> dict[TopicPartition, R]:
    """``rows`` with what ``others`` say of one partition."""
    changed = {one: row for one, row in rows.items() if one != name}
    return changed | {name: others[name]} if name in others else changed


def rows_carried(source: LogDirectory, target: LogDirectory, log_: Log) -> bool:
    """Whether the rows that ``target`` has written say of the log what counts now."""
    name = log_.topic_partition
    return (
        target.bounds_stored
        and target.points_stored
        and target.bounds.get(name) == _bounds(log_)
        and target.recovery_points.get(name, 0) <= log_.flushed_offset
        and target.cleaner_offsets.get(name) == source.cleaner_offsets.get(name)
        and target.forgotten_offsets.get(name) == source.forgotten_offsets.get(name)
        and source.second_timelines.get(name) in (None, target.second_timelines.get(name))
    )


def _bounds(log_: Log) -> LogBounds:
    return log_.bounds


# -- the start -------------------------------------------------------------------------------------------------


def settle_moves(
    directories: Sequence[LogDirectory], unique: Callable[[], Uuid], *, is_all: bool = True, is_replaced: bool = True
) -> list[UnfinishedMove]:
    """Bring moves that a stop has interrupted to one log for each partition; those that are to be begun again.

    No log is removed before the other one is known to be whole. ``is_all``: no directory is offline. A log that was to
    move to one that is goes on where it is: its note goes, or a later start would take the copy, which lacks what is written now.
    If none is, the notes of logs that lie there once go, or a log would count as undecided when a disk fails much later.
    ``is_replaced``: an empty directory is in the place of one that is lost, and logs that lie in none were lost with it.
    Raises `OSError`.
    """
    if not is_all:
        _drop_targets(directories)
    for name, twice in _duplicates(directories).items():
        for copy in twice:
            for log_ in twice:
                if name in copy.partitions and name in log_.partitions and copy is not log_:
                    _settle(name, log_, copy, unique)
    unfinished = _drop_copies(directories, is_replaced=is_replaced)
    if is_all:
        _drop_settled(directories)
    return unfinished


def _drop_copies(directories: Sequence[LogDirectory], *, is_replaced: bool) -> list[UnfinishedMove]:
    """Remove the copies that were not complete, but those of logs that are not there: these are kept, aside if the log is lost."""
    unfinished: dict[TopicPartition, UnfinishedMove] = {}
    for directory in directories:
        for name, path in _copies(directory):
            if any(name in one.partitions for one in directories):
                log.info("%s was not complete: it is removed, and the move of the replica begins again", path)
                doom_copy(directory, path)
                if name not in directory.partitions:
                    directory.forget(name)  # the rows that were carried ahead
                unfinished[name] = UnfinishedMove(name, directory.path)
            elif not is_replaced:
                log.error("%s is an unfinished copy of a log whose directory is away; it stays", path)
            else:
                kept = path.removesuffix(FUTURE_SUFFIX) + _STRAY_SUFFIX
                directory.files.rename(path, kept)
                directory.files.sync_directory(directory.path)
                log.error("%s is a copy of a log that lies in none of log.dirs; it is kept as %s", path, kept)
    return list(unfinished.values())


def _drop_targets(directories: Sequence[LogDirectory]) -> None:
    """Remove the notes of logs that were to move to a directory that is none of these, durably."""
    here = {one.owner.directory_id for one in directories if one.owner is not None}
    for directory in directories:
        for name in directory.partitions:
            path = directory.partition_path(name)
            target = _noted(directory.files, f"{path}/{_TARGET}")
            if target is not None and target not in here:
                directory.files.unlink(f"{path}/{_TARGET}")
                directory.files.sync_directory(path)
                log.warning("%s was to move to a directory that is offline; it goes on in %s", name, directory.path)


def _drop_settled(directories: Sequence[LogDirectory]) -> None:
    """Remove the notes of logs that lie in one directory only, durably: their moves have ended, or begin again."""
    if len(directories) < 2:
        return
    twice = _duplicates(directories)
    for directory in directories:
        for name in directory.partitions.keys() - twice.keys():
            path = directory.partition_path(name)
            if any(_noted(directory.files, f"{path}/{note}") is not None for note in (_ORIGIN, _TARGET)):
                drop_notes(directory.files, path)


def undecided(directories: Sequence[LogDirectory]) -> set[TopicPartition]:
    """Logs that were copies, and whose origin may have gone on in a directory that is none of these. Raises `OSError`."""
    here = {one.owner.directory_id for one in directories if one.owner is not None}
    found = set()
    for directory in directories:
        for name in directory.partitions:
            origin = _noted(directory.files, f"{directory.partition_path(name)}/{_ORIGIN}")
            if origin is not None and origin not in here:
                found.add(name)
    return found


def only_copies(directories: Sequence[LogDirectory]) -> dict[TopicPartition, str]:
    """The paths of unfinished copies whose logs lie in none of these directories; asked before `settle_moves`."""
    return {
        name: f"{directory.path}/{entry}"
        for directory in directories
        for name, entry in _entries_of_copies(directory)
        if not any(name in one.partitions for one in directories)
    }


def _duplicates(directories: Sequence[LogDirectory]) -> dict[TopicPartition, list[LogDirectory]]:
    found: dict[TopicPartition, list[LogDirectory]] = {}
    if len(directories) > 1:
        for directory in directories:
            for name in directory.partitions:
                found.setdefault(name, []).append(directory)
    return {name: twice for name, twice in found.items() if len(twice) > 1}


def _settle(name: TopicPartition, log_: LogDirectory, copy: LogDirectory, unique: Callable[[], Uuid]) -> None:
    """Remove the log, or set the copy aside, if one is the copy of the other and the other is not older."""
    ids = log_.owner and log_.owner.directory_id, copy.owner and copy.owner.directory_id
    path = copy.partition_path(name)
    if None in ids:
        return
    ends = _end(log_.files, log_.partition_path(name)), _end(copy.files, path)
    is_copy = _noted(copy.files, f"{path}/{_ORIGIN}") == ids[0]
    if _noted(log_.files, f"{log_.partition_path(name)}/{_TARGET}") == ids[1]:
        if not is_copy and ends[1] < ends[0]:
            _tell_undecided(name, log_, copy)
            return
        log.info("%s has moved to %s, completely; the log in %s is removed", name, copy.path, log_.path)
        doom_partition(log_, name, unique())
        drop_origin(copy.files, path)
        return
    if not is_copy:
        return
    if ends[0] < ends[1]:
        _tell_undecided(name, copy, log_)
        return
    kept = set_log_aside(copy, name, unique())
    log.warning("%s was to move to %s, whose disk failed; it goes on in %s, the copy is kept as %s", name, copy.path,
                log_.path, kept)  # fmt: skip


def _end(files: Filesystem, path: str) -> tuple[str, int]:
    """The name and the bytes of a log's last segment. The pair grows with the log, which is not open yet."""
    found = [(one.name, one.size_bytes) for one in files.scan(path, sized=(".log",)) if _SEGMENT.fullmatch(one.name)]
    return max(found, default=("", 0))


def _tell_undecided(name: TopicPartition, further: LogDirectory, other: LogDirectory) -> None:
    log.error(
        "%s lies in %s and in %s. By the notes of a move the second one counts, and it ends before the first one: its disk may be an "
        "older image. Both are kept; the metadata say which one counts, else move the wrong one elsewhere, and start again",
        name,
        further.path,
        other.path,
    )


def _copies(directory: LogDirectory) -> list[tuple[TopicPartition, str]]:
    """The copies in a directory that have not taken the place of a log; they are no strangers any more."""
    found = _entries_of_copies(directory)
    for _, entry in found:
        directory.unknown.remove(entry)
    return [(name, f"{directory.path}/{entry}") for name, entry in found]


def _entries_of_copies(directory: LogDirectory) -> list[tuple[TopicPartition, str]]:
    found = []
    for entry in directory.unknown:
        match = _FUTURE.fullmatch(entry)
        name = None if match is None else parse_directory_name(match["name"])
        if name is not None:
            found.append((name, entry))
    return found
