"""Kafka's names of partition directories, and those that are found."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["NAME_BYTES_MAX", "FoundPartition", "directory_name", "name_beside", "parse_directory_name"]

_PARTITION: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")

NAME_BYTES_MAX: Final = 255
"""Linux takes no longer ones."""


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


def name_beside(name: str, ending: str) -> str:
    """The name of a directory that is kept beside a partition's, and ends so; of a long topic name it has the beginning."""
    topic, dash, partition = name.rpartition("-")
    end = f"{dash}{partition}{ending}"
    return topic[: NAME_BYTES_MAX - len(end)] + end


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition that a directory is named after; None for any other name."""
    match = _PARTITION.fullmatch(name)
    if match is None:
        return None
    partition = TopicPartition(match["topic"], int(match["partition"]))
    return partition if directory_name(partition) == name else None  # t-00 is not t-0, and must not hide it
