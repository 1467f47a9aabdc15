"""Requests that many stories make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stratalog.wire.batch import Record, build_batch
from tests.java.differ.story import Ask, TopicId

START_MS = 1_700_000_000_000
"""The time of the first record of a batch: topics keep times as far back as they like by default."""


def topic(name: str, partitions: int = 1, label: str = "", **configs: str) -> Ask:
    """Creates a topic; settings have ``_`` for ``.``."""
    entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    each = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": entries}
    return Ask("CreateTopics", {"topics": [each], "timeout_ms": 10_000}, label)


def batch(*values: bytes | None, key: bytes | None = None, timestamp_ms: int = START_MS, **options: Any) -> bytes:
    """A batch as a client sends it; the times of its records follow each other by a millisecond."""
    records = [Record(at, timestamp_ms + at, key, value) for at, value in enumerate(values)]
    return bytes(build_batch(records, **options))


def produce(
    name: str, records: bytes | None, label: str = "", *, partition: int = 0, acks: int = -1, **options: Any
) -> Ask:
    """Appends to one partition; ``body`` adds fields of the request."""
    return produce_all({(name, partition): records}, label, acks=acks, **options)


def produce_all(
    records: Mapping[tuple[str, int], bytes | None],
    label: str = "",
    *,
    acks: int = -1,
    body: Mapping[str, Any] | None = None,
    **options: Any,
) -> Ask:
    """Appends to several partitions."""
    partitions: dict[str, list[dict[str, Any]]] = {}
    for (name, partition), data in records.items():
        partitions.setdefault(name, []).append({"index": partition, "records": data})
    topics = [
        {"name": name, "topic_id": TopicId(name), "partition_data": places} for name, places in partitions.items()
    ]
    return Ask("Produce", {"acks": acks, "timeout_ms": 10_000, "topic_data": topics, **(body or {})}, label, **options)


def fetch(name: str, offset: int, label: str = "", *, partition: int = 0, **body: Any) -> Ask:
    """Reads one partition without waiting. Names of the partition's own fields go there, all others to the request."""
    own = {
        key: body.pop(key) for key in ("current_leader_epoch", "last_fetched_epoch", "log_start_offset") if key in body
    }
    place = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **own}
    topics = [{"topic": name, "topic_id": TopicId(name), "partitions": [place]}]
    return Ask("Fetch", {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": topics, **body}, label)
