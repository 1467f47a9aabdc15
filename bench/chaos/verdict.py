"""Looks for everything that clients were told, at every node, and compares the nodes' metadata logs byte by byte."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.chaos.admins import LOAD_TOPIC
from bench.chaos.outcomes import Ledger
from bench.local_nodes import LocalNodes
from stratalog.client.client import Client
from stratalog.client.link import BrokerAway, BrokerLink
from stratalog.client.records import fetch
from stratalog.wire.batch import LOG_OVERHEAD_BYTES, iter_records, read_header
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from stratalog.wire.messages.metadata import MetadataRequest
from stratalog.wire.topic import TopicPartition

__all__ = ["SeenTopic", "log_faults", "records_faults", "seen_by", "topic_faults", "until_equal"]

_SETTLE_SECONDS: Final = 30.0
_TOPIC: Final = 2
_AT_ONCE: Final = 500


class SeenTopic(NamedTuple):
    """A topic as a node tells it: its id, (leader, epoch, replicas) of each partition, and its retention."""

    topic_id: bytes
    partitions: tuple[tuple[int, int, int, tuple[int, ...]], ...]
    retention: str | None


def seen_by(port: int) -> dict[str, SeenTopic]:
    """All topics as one node tells them. Raises `KafkaError`, `BrokerAway`."""
    with BrokerLink("127.0.0.1", port) as link:
        answer = link.call(MetadataRequest(topics=None))
        names = [topic.name for topic in answer.topics if not topic.is_internal]
        retentions: dict[str, str | None] = {}
        for begin in range(0, len(names), _AT_ONCE):
            asked = [
                DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=["retention.ms"])
                for name in names[begin : begin + _AT_ONCE]
            ]
            for row in link.call(DescribeConfigsRequest(resources=asked)).results:
                retentions[row.resource_name] = next((one.value for one in row.configs), None)
        return {
            topic.name: _seen(topic, retentions.get(topic.name)) for topic in answer.topics if not topic.is_internal
        }


def _seen(topic: Any, retention: str | None) -> SeenTopic:
    rows = sorted(
        (one.partition_index, one.leader_id, one.leader_epoch, tuple(one.replica_nodes)) for one in topic.partitions
    )
    return SeenTopic(bytes(topic.topic_id), tuple(rows), retention)


def until_equal(nodes: LocalNodes) -> tuple[dict[str, SeenTopic], list[str]]:
    """The topics once every node tells the same, and what differs after half a minute."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            views = {node_id: seen_by(nodes.port(node_id)) for node_id in nodes.node_ids}
        except (KafkaError, BrokerAway) as error:
            views, failure = {}, str(error)
            if time.monotonic() > deadline:
                return {}, [f"a node does not tell its topics: {failure}"]
            time.sleep(0.5)
            continue
        first, *others = views.values()
        leaderless = [name for name, seen in first.items() if any(row[1] < 0 for row in seen.partitions)]
        if all(other == first for other in others) and not leaderless:
            return first, []
        if time.monotonic() > deadline:
            names = {
                name for other in others for name in first.keys() | other.keys() if first.get(name) != other.get(name)
            }
            return first, [
                *(f"{name} differs: {[view.get(name) for view in views.values()]}" for name in sorted(names)[:10]),
                *(f"{name} has partitions without a leader" for name in leaderless[:10]),
            ]
        time.sleep(0.5)


def topic_faults(ledger: Ledger, seen: Mapping[str, SeenTopic]) -> Iterator[str]:
    """Everything in which the topics are not as their creators were told."""
    known = {told.name for told in ledger.noted()} | {LOAD_TOPIC}
    yield from (f"{name} was never asked for" for name in seen.keys() - known)
    ids: dict[bytes, str] = {}
    for told in ledger.noted():
        if told.topic_id is not None and ids.setdefault(told.topic_id, told.name) != told.name:
            yield f"{told.name} and {ids[told.topic_id]} have one id"
        found = seen.get(told.name)
        if (found is not None) not in told.exists:
            yield f"{told.name} is {'there' if found else 'not there'}, unlike the answer to its creator"
        elif found is not None:
            if told.topic_id not in {None, found.topic_id}:
                yield f"{told.name} has another id than the answer to its creator said"
            if len(found.partitions) not in told.partition_counts:
                yield f"{told.name} has {len(found.partitions)} partitions, not one of {told.partition_counts}"
            if found.retention not in told.retentions:
                yield f"{told.name} has retention.ms {found.retention}, not one of {told.retentions}"


def records_faults(ledger: Ledger, bootstrap: str, partition_count: int) -> Iterator[str]:
    """Records that were acknowledged and are not where the answer said."""
    stored: dict[tuple[int, int], bytes] = {}
    with Client(bootstrap) as client:
        waiting = {TopicPartition(LOAD_TOPIC, number): 0 for number in range(partition_count)}
        ends = {at: row.offset for at, row in client.list_offsets(dict.fromkeys(waiting, -1)).items()}
        while waiting := {at: offset for at, offset in waiting.items() if offset < ends[at]}:
            for found in fetch(client, waiting):
                data, position = found.data, 0
                while position + LOG_OVERHEAD_BYTES < len(data):
                    header = read_header(data, position)
                    if position + header.size_bytes > len(data):
                        break
                    for record in iter_records(data, position):
                        stored[found.topic_partition.partition, record.offset] = bytes(record.value or b"")
                    position += header.size_bytes
                    waiting[found.topic_partition] = header.last_offset + 1
    for written in ledger.written:
        there = stored.get((written.partition, written.offset))
        if there != written.value:
            yield f"{LOAD_TOPIC}-{written.partition} has {there!r} at offset {written.offset}, not {written.value!r}"


def log_faults(folders: Mapping[int, Path], high_watermark: int) -> Iterator[str]:
    """Batches of the metadata log below the high watermark that are not the same bytes at every node that has them."""
    batches: dict[int, tuple[int, bytes]] = {}
    for node_id, folder in folders.items():
        expected = -1
        for path in sorted((folder / "__cluster_metadata-0").glob("*.log")):
            data, position = path.read_bytes(), 0
            while position + LOG_OVERHEAD_BYTES < len(data):
                header = read_header(data, position)
                if expected not in {-1, header.base_offset}:
                    yield f"node {node_id}: offset {header.base_offset} follows {expected} in {path.name}"
                expected = header.last_offset + 1
                batch = data[position : position + header.size_bytes]
                if header.base_offset < high_watermark:
                    other, first = batches.setdefault(header.base_offset, (node_id, batch))
                    if first != batch:
                        yield f"nodes {other} and {node_id} differ at offset {header.base_offset}"
                position += header.size_bytes
        if expected < high_watermark:
            yield f"node {node_id} has the metadata log up to {expected}, and {high_watermark} are committed"
