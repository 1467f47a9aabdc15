"""Logs whose directories leave: they get the name of something deleted, or of something kept aside.

A disk may have no room for one more name. The log has left all the same, and its directory follows when there is room; no log is
begun under its name before. A topic that was made again would show the records of the one that was deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from operator import ne

from stratalog.hot.directory import DELETE_SUFFIX, LogDirectory
from stratalog.hot.stale_rows import drop_rows_of_topic
from stratalog.hot.storage.checkpoint import read_topic_id, write_topic_id
from stratalog.hot.storage.directory_names import FoundPartition, directory_name
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition, Uuid, uuid_text

__all__ = ["doom_left", "doom_partition", "forget_other_topic", "make_way", "set_log_aside"]

_NAME_BYTES_MAX = 255

log = logging.getLogger(__name__)


def doom_partition(directory: LogDirectory, name: TopicPartition, unique: Uuid) -> str:
    """Rename a partition's directory for deletion, durably, and return the new path.

    Its log must have been abandoned. ``unique`` keeps a re-created one apart. Raises `OSError`; then it is in ``leaving`` unless the
    new name is there, which `DirectoryRemoval` makes durable, too.
    """
    end = f".{unique.hex()}{DELETE_SUFFIX}"
    target = f"{directory.path}/{directory_name(name)[: _NAME_BYTES_MAX - len(end)]}{end}"
    directory.leaving.add(name)
    directory.files.rename(directory.partition_path(name), target)
    directory.leaving.discard(name)
    directory.doomed.append(target)
    directory.forget(name)
    directory.files.sync_directory(directory.path)
    return target


def doom_left(directory: LogDirectory, name: TopicPartition, unique: Callable[[], Uuid]) -> None:
    """Do so with one that is in ``leaving``; nothing happens with any other. Raises `OSError`: then call it again."""
    if name not in directory.leaving:
        return
    try:
        doom_partition(directory, name, unique())
    except FileNotFoundError:  # an operator has removed it, to make room
        directory.leaving.discard(name)
        directory.forget(name)


def make_way(directory: LogDirectory, name: TopicPartition, topic_id: Uuid, unique: Callable[[], Uuid]) -> None:
    """Move a directory of the same name that belongs to another topic id out of the way; it is not deleted.

    A crash between the deletion of a topic and of its files leaves such a directory. An id that cannot be read, or
    differs from the topic's in one character, counts as damaged: it is written again. Raises `OSError`: then call it again.
    """
    doom_left(directory, name, unique)
    one = _found(directory, name)
    if one is None or one.topic_id == topic_id:
        return
    if _is_damaged(one.topic_id, topic_id):
        log.error("%s: the topic id in partition.metadata is damaged; it is written again", one.path)
        write_topic_id(directory.files, one.path, topic_id)
        directory.partitions[name] = one._replace(topic_id=topic_id)
        return
    directory.partitions[name] = one
    drop_rows_of_topic(directory, name)
    kept = set_log_aside(directory, name, unique())
    directory.stale.pop(name, None)  # its rows went before
    log.warning("%s belongs to a topic that is gone; it is kept as %s", one.path, kept)


def _found(directory: LogDirectory, name: TopicPartition) -> FoundPartition | None:
    """The log as the start found it; else as its own file names it, lest a topic ever shows the records of another."""
    known = directory.partitions.get(name)
    if known is not None:
        return known
    path = directory.partition_path(name)
    with suppress(Corrupt):  # a log that was being begun, and has none yet
        topic_id = read_topic_id(directory.files, path)
        if topic_id is not None:
            return FoundPartition(name, topic_id, path)
    return None


def forget_other_topic(directory: LogDirectory, name: TopicPartition, topic_id: Uuid) -> None:
    """The same for a directory whose disk has failed: the next start that can read it does the rest."""
    one = directory.partitions.get(name)
    if one is not None and one.topic_id != topic_id and not _is_damaged(one.topic_id, topic_id):
        directory.forget(name)


def set_log_aside(directory: LogDirectory, name: TopicPartition, unique: Uuid) -> str:
    """Move one log out of the way, durably; the path where it is kept. Raises `OSError`."""
    path = directory.partition_path(name)
    kept = f"{path}.{unique.hex()}-stray"
    directory.files.rename(path, kept)
    directory.forget(name)
    directory.files.sync_directory(directory.path)
    return kept


def _is_damaged(found: Uuid | None, topic_id: Uuid) -> bool:
    """True if the ids differ in one character at most: random ids are never that similar."""
    return found is None or sum(map(ne, uuid_text(found), uuid_text(topic_id))) == 1
