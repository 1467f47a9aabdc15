"""Logs that lay in a directory and are gone from it, told from those that were never begun.

The checkpoint of recovery points has a row for every log that is older than a minute or has seen an orderly stop, and is
there before the first log. A log that the cluster has placed here is gone if its directory was missing at the start
and its row was not, or if the recovery points could not be read. It stays so until it is begun anew, or forgotten.
"""

from __future__ import annotations

from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.checkpoint import RECOVERY_POINTS
from stratalog.wire.topic import TopicPartition

__all__ = ["begin_points", "begun", "has_lost", "is_new", "note_lost"]


def has_lost(directory: LogDirectory, name: TopicPartition) -> bool:
    """Whether the log of a partition that was placed here before this start is gone."""
    return name in directory.gone or (directory.is_bare and name not in directory.partitions)


def is_new(directory: LogDirectory) -> bool:
    """Whether a directory holds no logs so far: it was formatted since the last start."""
    return directory.is_bare and RECOVERY_POINTS not in directory.damaged_checkpoints


def note_lost(directory: LogDirectory, name: TopicPartition) -> None:
    """Have the next start know of it, too: the next write of the recovery points has a row for this log."""
    directory.gone.add(name)
    directory.recovery_points.setdefault(name, 0)
    directory.points_stored = False


def begun(directory: LogDirectory, name: TopicPartition) -> None:
    """The log is there, here or in another directory of the broker."""
    directory.gone.discard(name)


def begin_points(directory: LogDirectory) -> None:
    """Write the checkpoint if there is none: logs that are not here from now on are new.

    Raises `OSError`; then the next checkpoint writes it.
    """
    if directory.is_bare:
        directory.is_bare = False
        directory.write_recovery_points({})
