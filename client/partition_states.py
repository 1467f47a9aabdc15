"""Partitions with their replicas: leader, in-sync, eligible and offline ones, and which partitions lack some of them.

DescribeTopicPartitions tells the eligible ones (KIP-966); before Kafka 3.7 no broker has it, and Metadata tells the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from stratalog.client.admin import describe_topic_configs
from stratalog.client.client import Client, Partition, Topic
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from stratalog.wire.topic import TopicPartition

__all__ = ["Lack", "describe_topics", "lacking", "min_in_sync_replicas"]

_MIN_IN_SYNC: Final = "min.insync.replicas"
_TOPICS_A_REQUEST: Final = 500


class Lack(StrEnum):
    """The ways in which a partition is short of replicas, as `kafka-topics` tells them apart."""

    UNDER_REPLICATED = "under-replicated"
    """Fewer replicas are in sync than it has; those that a reassignment adds do not count before they are in sync."""
    AT_MIN_ISR = "at-min-isr"
    """Exactly min.insync.replicas are in sync: one less, and acks=all is refused."""
    UNDER_MIN_ISR = "under-min-isr"
    """Fewer than min.insync.replicas are in sync: acks=all is refused."""
    UNAVAILABLE = "unavailable"
    """No broker leads it."""


def describe_topics(client: Client, names: Sequence[str] | None = None) -> list[Topic]:
    """Topics, or all of them, with the eligible replicas of their partitions. Raises `KafkaError` as `Client.refresh`."""
    topics = client.refresh(names)
    if not topics or not client.serves(DescribeTopicPartitionsRequest):
        return topics
    eligible = _eligible(client, [one.name for one in topics] if names is not None else [])
    return [
        replace(
            topic,
            partitions=tuple(
                replace(part, eligible=eligible.get(TopicPartition(topic.name, part.partition)))
                for part in topic.partitions
            ),
        )
        for topic in topics
    ]


def _eligible(client: Client, names: Sequence[str]) -> Mapping[TopicPartition, tuple[int, ...]]:
    """The eligible replicas of each partition, page by page; without names those of all topics."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in sorted(set(names))], cursor=cursor
        )
        answer = client.call(request)
        for topic in answer.topics:
            for part in topic.partitions:
                if part.eligible_leader_replicas is not None:
                    found[TopicPartition(topic.name, part.partition_index)] = tuple(part.eligible_leader_replicas)
        following = answer.next_cursor
        if following is None:
            return found
        if cursor is not None and _place(following) <= _place(cursor):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the broker answers from {_place(following)} on once more")
        cursor = following


def _place(cursor: Cursor) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index


def min_in_sync_replicas(client: Client, names: Iterable[str]) -> dict[str, int]:
    """min.insync.replicas of each topic that is there. Raises `KafkaError`."""
    wanted = sorted(set(names))
    found: dict[str, int] = {}
    for start in range(0, len(wanted), _TOPICS_A_REQUEST):
        some = wanted[start : start + _TOPICS_A_REQUEST]
        configs = describe_topic_configs(client, some, keys=[_MIN_IN_SYNC], skip_missing=True)
        for name, settings in configs.items():
            found[name] = int(next((one.value for one in settings if one.name == _MIN_IN_SYNC), None) or 1)
    return found


def lacking(part: Partition, adding: Sequence[int], min_in_sync: int, brokers: Iterable[int]) -> set[Lack]:
    """The ways in which a partition is short of replicas; ``adding`` are those that a reassignment adds, ``brokers`` are up."""
    found = set()
    if len(part.in_sync) < len(set(part.replicas).difference(adding)):
        found.add(Lack.UNDER_REPLICATED)
    if len(part.in_sync) < min_in_sync:
        found.add(Lack.UNDER_MIN_ISR)
    if len(part.in_sync) == min_in_sync:
        found.add(Lack.AT_MIN_ISR)
    if part.leader < 0 or part.leader not in brokers:
        found.add(Lack.UNAVAILABLE)
    return found
