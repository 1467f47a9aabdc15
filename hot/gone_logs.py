"""Logs that lay in a directory and are gone from it, told from those that were never begun.

The checkpoint of recovery points has a row for every log that is older than a minute or has seen an orderly stop, and is
there before the first log. A log that the cluster has placed here is gone if its directory was missing at the start
and its row was not, or if the recovery points could not be read. It stays so until it is begun anew, or forgotten.

A directory that was new while others could not be read is in the place of one that is lost all the same, once these are back: a note
of theirs, ``.stratalog-new-beside``, waits for that. It holds for them alone: one that was left out meanwhile is away.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from stratalog.hot.directory import NEW_BESIDE, LogDirectory
from stratalog.hot.storage.checkpoint import RECOVERY_POINTS, write_durably
from stratalog.wire.topic import TopicPartition

__all__ = ["begin_points", "begun", "has_lost", "is_new", "note_lost"]


def has_lost(directory: LogDirectory, name: TopicPartition) -> bool:
    """Whether the log of a partition that was placed here before this start is gone."""
    return name in directory.gone or (directory.is_bare and name not in directory.partitions)


def is_new(directory: LogDirectory, here: Collection[str] = ()) -> bool:
    """Whether a directory holds no logs so far: it was formatted since the last start.

    Or since the last one at which all could be read, if those that could not then are ``here``. Raises `OSError`.
    """
    if directory.is_bare:
        return RECOVERY_POINTS not in directory.damaged_checkpoints
    beside = _beside(directory)
    return beside is not None and all(path in here for path in beside)


def _beside(directory: LogDirectory) -> list[str] | None:
    """The directories that could not be read when this one was new, and have not been since. Raises `OSError`."""
    try:
        found = json.loads(directory.files.read_bytes(f"{directory.path}/{NEW_BESIDE}"))
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, list) else None


def note_lost(directory: LogDirectory, name: TopicPartition) -> None:
    """Have the next start know of it, too: the next write of the recovery points has a row for this log."""
    directory.gone.add(name)
    directory.recovery_points.setdefault(name, 0)
    directory.points_stored = False


def begun(directory: LogDirectory, name: TopicPartition) -> None:
    """The log is there, here or in another directory of the broker."""
    directory.gone.discard(name)


def begin_points(directory: LogDirectory, here: Collection[str] = (), unread: Sequence[str] = ()) -> None:
    """Write the checkpoint if there is none: logs that are not here from now on are new.

    ``here``: the directories of the broker that could be read at this start; ``unread``: the others. Raises `OSError`; then the
    next checkpoint writes it.
    """
    note = f"{directory.path}/{NEW_BESIDE}"
    if directory.is_bare:
        is_noted, directory.is_bare = bool(unread) and is_new(directory), False
        if is_noted:
            write_durably(directory.files, note, json.dumps(unread).encode())
        directory.write_recovery_points({})
    elif not unread and is_new(directory, here):  # what lies in none is lost, and is begun anew
        directory.files.unlink(note)
        directory.files.sync_directory(directory.path)
