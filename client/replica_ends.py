"""How far the copies of partitions go on each broker, asked of leaders and followers alike (replica id -2 in ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from stratalog.client.client import LATEST_OFFSET, BrokerAway, Client, by_topic
from stratalog.client.link import code_words
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.topic import TopicPartition

__all__ = ["Copy", "CopyEnd", "ends_of_copies"]

_DEBUGGING_CONSUMER: Final = -2


class Copy(NamedTuple):
    """The copy of a partition on a broker."""

    broker: int
    partition: TopicPartition


class CopyEnd(NamedTuple):
    """Where a copy ends: the offset behind its last record, or why that is not known."""

    offset: int | None
    why: str = ""


def ends_of_copies(client: Client, copies: Iterable[Copy]) -> Mapping[Copy, CopyEnd]:
    """The end of each copy. A broker that does not answer, or not for a partition, is no error."""
    wanted: dict[int, list[TopicPartition]] = {}
    for copy in dict.fromkeys(copies):
        wanted.setdefault(copy.broker, []).append(copy.partition)
    found: dict[Copy, CopyEnd] = {}
    for broker, partitions in wanted.items():
        try:
            client.reach(broker)
            found |= _ask(client, broker, partitions)
        except BrokerAway as error:
            found |= {
                Copy(broker, one): CopyEnd(None, f"node {broker} does not answer ({error})") for one in partitions
            }
    return found


def _ask(client: Client, broker: int, partitions: Iterable[TopicPartition]) -> dict[Copy, CopyEnd]:
    request = ListOffsetsRequest(
        replica_id=_DEBUGGING_CONSUMER,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=one.partition, timestamp=LATEST_OFFSET) for one in those
                ],
            )
            for name, those in by_topic(partitions).items()
        ],
    )
    return {
        Copy(broker, TopicPartition(topic.name, one.partition_index)): CopyEnd(None, code_words(one.error_code))
        if one.error_code
        else CopyEnd(one.offset)
        for topic in client.call(request, broker).topics
        for one in topic.partitions
    }
