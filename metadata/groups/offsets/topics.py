"""Which topics and partitions of a request about offsets exist and may be touched, before a group hears of it.

Refused ones are answered beside those that the group has dealt with.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["IdentifiedTopic", "NamedTopic", "RefusedTopic", "admit_topics", "give_ids", "give_names", "topic_id_of"]


class NamedTopic(Protocol):
    """A topic of OffsetCommit, TxnOffsetCommit or OffsetDelete; its partitions have a ``partition_index``."""

    name: str
    partitions: list[Any]


class IdentifiedTopic(Protocol):
    """A topic that has, or can be given, an id."""

    name: str
    topic_id: Uuid


T = TypeVar("T", bound=NamedTopic)


class RefusedTopic(NamedTuple):
    """Partitions of one topic that the group need not hear of."""

    name: str
    topic_id: Uuid
    partitions: list[int]
    code: ErrorCode


def give_names(topics: Sequence[IdentifiedTopic], image: ClusterImage) -> None:
    """Name the topics that a client gave by their ids; those that do not exist stay without a name."""
    by_id = image.topics.by_id
    for topic in topics:
        found = by_id.get(topic.topic_id)
        topic.name = "" if found is None else found.name


def give_ids(topics: Sequence[IdentifiedTopic], image: ClusterImage) -> None:
    """Give their ids to topics that a client named."""
    by_name = image.topics.by_name
    for topic in topics:
        found = by_name.get(topic.name)
        if found is not None:
            topic.topic_id = found.topic_id


def topic_id_of(topic: str, image: ClusterImage) -> Uuid:
    """The id of the topic that has this name now; zero if there is none."""
    found = image.topics.by_name.get(topic)
    return ZERO_UUID if found is None else found.topic_id


def admit_topics(
    topics: list[T], image: ClusterImage, allowed: Callable[[str], bool], *, by_id: bool = False
) -> tuple[list[T], list[RefusedTopic]]:
    """The topics, with the partitions that exist, and what is refused: for want of a right, a topic or a partition.

    ``by_id``: the client gave ids, and `give_names` has named what exists.
    """
    admitted: list[T] = []
    refused: list[RefusedTopic] = []
    for topic in topics:
        found = image.topics.by_name.get(topic.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        existing: Container[int] = ()
        if by_id and not topic.name:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not allowed(topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif found is not None:
            existing = found.partitions
        others = [one.partition_index for one in topic.partitions if one.partition_index not in existing]
        if not others:
            admitted.append(topic)
            continue
        refused.append(RefusedTopic(topic.name, getattr(topic, "topic_id", ZERO_UUID), others, code))
        topic.partitions = [one for one in topic.partitions if one.partition_index in existing]
        if topic.partitions:
            admitted.append(topic)
    return admitted, refused
