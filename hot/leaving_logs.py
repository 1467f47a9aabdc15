"""Logs whose directories leave: they get the name of something deleted, or of something kept aside.

A disk may have no room for one more name. The log has left all the same, and its directory follows when there is room; no log is
begun under its name before. A topic that was made again would show the records of the one that was deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from stratalog.hot.directory import DELETE_SUFFIX, LogDirectory
from stratalog.hot.gone_logs import note_lost
from stratalog.hot.stale_rows import drop_rows_of_topic
from stratalog.hot.storage.checkpoint import PARTITION_METADATA, read_topic_id, topic_id_to_bytes, write_topic_id
from stratalog.hot.storage.directory_names import NAME_BYTES_MAX, FoundPartition, directory_name, name_beside
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition, Uuid, uuid_text

__all__ = ["doom_left", "doom_partition", "forget_other_topic", "make_way", "set_log_aside"]

_SEGMENT: Final = ".log"

log = logging.getLogger(__name__)


def doom_partition(directory: LogDirectory, name: TopicPartition, unique: Uuid) -> str:
    """Rename a partition's directory for deletion, durably, and return the new path.

    Its log must have been abandoned. ``unique`` keeps a re-created one apart. Raises `OSError`; then it is in ``leaving`` unless the
    new name is there, which `DirectoryRemoval` makes durable, too.
    """
    end = f".{unique.hex()}{DELETE_SUFFIX}"
    target = f"{directory.path}/{directory_name(name)[: NAME_BYTES_MAX - len(end)]}{end}"
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


def make_way(
    directory: LogDirectory, name: TopicPartition, topic_id: Uuid, unique: Callable[[], Uuid], *, is_only: bool = False
) -> None:
    """Move a directory of the same name that belongs to another topic id out of the way; it is not deleted.

    A crash between the deletion of a topic and of its files leaves such a directory. An id that differs from the topic's in one
    character counts as damaged: it is written again. So is one that cannot be read, if the last orderly stop had this log, or no
    record is in it. Else the log may be of a topic that is gone: it is moved, too, and missed if it was synced, unless it
    ``is_only``, the one replica of its partition. Raises `Corrupt` for that one, which stays; `OSError`: then call it again.
    """
    doom_left(directory, name, unique)
    one = _found(directory, name)
    if one is None or one.topic_id == topic_id:
        return
    if one.topic_id is None:
        one = one._replace(topic_id=_noted_id(directory, one))
    if _is_damaged(directory, one, topic_id):
        log.error("%s: the topic id in partition.metadata is damaged; it is written again", one.path)
        write_topic_id(directory.files, one.path, topic_id)
        directory.partitions[name] = one._replace(topic_id=topic_id)
        return
    was_synced = one.topic_id is None and _was_synced(directory, one)
    if was_synced and is_only:
        raise Corrupt(
            f"{one.path}/{PARTITION_METADATA} cannot be read, and the log may be of a topic of this name that was deleted. If it is of "
            f"this one, write the file: {topic_id_to_bytes(topic_id).decode()!r}; else move the directory away"
        )
    directory.partitions[name] = one
    drop_rows_of_topic(directory, name)
    if (
        was_synced
    ):  # a kill behind the move finds it gone: an empty one in its place would have others drop what they have
        note_lost(directory, name)
        directory.write_recovery_points({})
    kept = set_log_aside(directory, name, unique())
    directory.stale.pop(name, None)  # its rows went before
    if was_synced:
        note_lost(directory, name)
    if one.topic_id is None:
        text = "%s: partition.metadata cannot be read, the log may be of a topic that is gone; it is kept as %s"
        log.error(text, one.path, kept)
    else:
        log.warning("%s belongs to a topic that is gone; it is kept as %s", one.path, kept)


def _found(directory: LogDirectory, name: TopicPartition) -> FoundPartition | None:
    """The log as the start found it; else as its own file names it, lest a topic ever shows the records of another."""
    known = directory.partitions.get(name)
    if known is not None:
        return known
    path = directory.partition_path(name)
    try:
        topic_id = read_topic_id(directory.files, path)
    except Corrupt:
        topic_id = None
    if topic_id is None and not _has_records(directory, path):  # it was being begun, or is not there
        return None
    return FoundPartition(name, topic_id, path)


def _has_records(directory: LogDirectory, path: str) -> bool:
    """Whether a segment in a partition's directory has a byte. Raises `OSError`."""
    try:
        entries = directory.files.scan(path, sized=(_SEGMENT,))
    except FileNotFoundError:
        return False
    return any(one.name.endswith(_SEGMENT) and one.size_bytes for one in entries)


def forget_other_topic(directory: LogDirectory, name: TopicPartition, topic_id: Uuid) -> None:
    """The same for a directory whose disk has failed: the next start that can read it does the rest."""
    one = directory.partitions.get(name)
    if one is not None and one.topic_id is not None and not _is_like(one.topic_id, topic_id):
        directory.forget(name)


def set_log_aside(directory: LogDirectory, name: TopicPartition, unique: Uuid) -> str:
    """Move one log out of the way, durably; the path where it is kept. Raises `OSError`."""
    path = directory.partition_path(name)
    kept = f"{directory.path}/{name_beside(directory_name(name), f'.{unique.hex()}-stray')}"
    directory.files.rename(path, kept)
    directory.forget(name)
    directory.files.sync_directory(directory.path)
    return kept


def _is_damaged(directory: LogDirectory, one: FoundPartition, topic_id: Uuid) -> bool:
    """Whether a log is of this topic although its file does not say so. Raises `OSError`."""
    if one.topic_id is not None:
        return _is_like(one.topic_id, topic_id)
    right, found = topic_id_to_bytes(topic_id), _content(directory, one.path)
    is_right = len(found) == len(right) and sum(a != b for a, b in zip(found, right, strict=True)) <= 1
    return is_right or not _has_records(directory, one.path)


def _noted_id(directory: LogDirectory, one: FoundPartition) -> Uuid | None:
    """The topic of a log as the orderly stop has noted it that was the last one; None without one. Raises `OSError`."""
    summary = directory.summaries.get(one.topic_partition)
    if directory.clean and summary is not None and summary.directory.inode == directory.files.status(one.path).inode:
        return summary.topic_id
    return None


def _was_synced(directory: LogDirectory, one: FoundPartition) -> bool:
    """Whether a log may have confirmed records: a power cut leaves its file empty before the first sync, which checkpoints show."""
    return directory.durable_end(one.topic_partition) > 0 or bool(_content(directory, one.path).strip(b"\0"))


def _content(directory: LogDirectory, path: str) -> bytes:
    try:
        return directory.files.read_bytes(f"{path}/{PARTITION_METADATA}")
    except FileNotFoundError:
        return b""


def _is_like(found: Uuid, topic_id: Uuid) -> bool:
    """True if the ids differ in one character at most: random ids are never that similar."""
    return sum(a != b for a, b in zip(uuid_text(found), uuid_text(topic_id), strict=True)) <= 1
