"""How many bytes a new copy of a partition takes from its leader, and how many of it are in the bucket and stay there.

DescribeLogDirs tells the bytes of each log; the entry ``remote://`` of our brokers tells those of its archive and the
records that are not archived yet. A new copy of a tiered partition begins behind the archive: it copies only these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from stratalog.client.client import LATEST_OFFSET, BrokerAway, Client, Topic
from stratalog.client.link import check
from stratalog.client.reach import reached_partitions
from stratalog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from stratalog.wire.topic import TopicPartition

__all__ = ["CopySize", "CopySizes", "copy_sizes"]

_REMOTE: Final = "remote://"
_EARLIEST_LOCAL: Final = -4


class CopySize(NamedTuple):
    """The bytes of one new copy."""

    from_peer: int
    archived: int = 0


class CopySizes(NamedTuple):
    """Sizes of partitions; ``unknown`` are those whose leader is away, or has no size for them."""

    sizes: Mapping[TopicPartition, CopySize]
    unknown: frozenset[TopicPartition]


class _Told(NamedTuple):
    local_bytes: dict[TopicPartition, int]
    archived_bytes: dict[TopicPartition, int]
    unarchived_records: dict[TopicPartition, int]


def copy_sizes(client: Client, topics: Iterable[Topic]) -> CopySizes:
    """The size of each partition, asked of its leader. A leader that is away is no error. Raises `KafkaError`."""
    by_leader: dict[int, list[TopicPartition]] = {}
    wanted = set()
    for topic in topics:
        for part in topic.partitions:
            one = TopicPartition(topic.name, part.partition)
            wanted.add(one)
            if part.leader in client.brokers:
                by_leader.setdefault(part.leader, []).append(one)
    told = _Told({}, {}, {})
    for broker, partitions in by_leader.items():
        try:
            client.reach(broker)
            _ask(client, broker, partitions, told)
        except BrokerAway:
            continue
    records = _local_records(client, [one for one in told.archived_bytes if one in told.local_bytes])
    sizes = {
        one: CopySize(_tail(size, told.unarchived_records.get(one), records.get(one)), told.archived_bytes.get(one, 0))
        for one, size in told.local_bytes.items()
    }
    return CopySizes(sizes, frozenset(wanted.difference(sizes)))


def _ask(client: Client, broker: int, partitions: Sequence[TopicPartition], told: _Told) -> None:
    answer = client.call(DescribeLogDirsRequest(topics=None), broker)  # only then it tells of archives
    check(answer.error_code or 0)
    asked = set(partitions)
    for directory in answer.results:
        for topic in directory.topics:
            for one in topic.partitions:
                name = TopicPartition(topic.name, one.partition_index)
                if name not in asked:
                    continue
                if directory.log_dir == _REMOTE:
                    told.archived_bytes[name] = one.partition_size
                    told.unarchived_records[name] = one.offset_lag
                elif not one.is_future_key and not directory.error_code:
                    told.local_bytes[name] = one.partition_size


def _local_records(client: Client, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The records that lie on the leader's disk, of partitions that are tiered."""
    if not partitions:
        return {}
    reached, _ = reached_partitions(client, partitions)
    starts = client.list_offsets(dict.fromkeys(reached, _EARLIEST_LOCAL))
    ends = client.list_offsets(dict.fromkeys(reached, LATEST_OFFSET))
    return {one: max(ends[one].offset - starts[one].offset, 0) for one in reached}


def _tail(size: int, unarchived_records: int | None, local_records: int | None) -> int:
    """The bytes behind the archive, as many as their part of the local records is."""
    if unarchived_records is None or not local_records:
        return size
    return size * min(unarchived_records, local_records) // local_records
