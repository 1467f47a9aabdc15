"""Logs that lay in a directory and are gone from it, told from those that were never begun.

The checkpoint of recovery points has a row for every log, and is there before the first of them. A log that the cluster has
placed here is gone if its directory is missing and its row is not, or if the checkpoint is missing, too.
"""

from __future__ import annotations

from stratalog.hot.directory import LogDirectory
from stratalog.wire.topic import TopicPartition

__all__ = ["begin_points", "has_lost", "note_lost"]


def has_lost(directory: LogDirectory, name: TopicPartition) -> bool:
    """Whether the log of a partition that was placed here before this start is gone."""
    return name not in directory.partitions and (directory.is_bare or name in directory.recovery_points)


def note_lost(directory: LogDirectory, name: TopicPartition) -> None:
    """Have the next start know of it, too: the next write of the recovery points has a row for this log."""
    directory.recovery_points.setdefault(name, 0)
    directory.points_stored = False


def begin_points(directory: LogDirectory) -> None:
    """Write the checkpoint if there is none: logs that are not here from now on are new. Raises `OSError`."""
    if directory.is_bare:
        directory.write_recovery_points({})
        directory.is_bare = False
