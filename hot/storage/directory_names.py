"""Kafka's names of partition directories, and those that are found."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["FoundPartition", "directory_name", "parse_directory_name"]

_PARTITION: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")


class FoundPartition(NamedTuple):
    """A partition directory. ``topic_id`` is None where the file that names it is missing or unreadable."""

    topic_partition: TopicPartition
    topic_id: Uuid | None
    path: str


def directory_name(topic_partition: TopicPartition) -> str:
    """Kafka's name for a partition's directory: ``topic-partition``."""
    if topic_partition.partition < 0:
        raise Invalid(f"partition {topic_partition.partition} of {topic_partition.topic!r} does not exist")
    return str(topic_partition)


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition that a directory is named after; None for any other name."""
    match = _PARTITION.fullmatch(name)
    if match is None:
        return None
    partition = TopicPartition(match["topic"], int(match["partition"]))
    return partition if directory_name(partition) == name else None  # t-00 is not t-0, and must not hide it
