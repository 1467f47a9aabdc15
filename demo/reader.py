"""A process of its own that reads a topic with librdkafka from offset 0 and prints what it saw as one JSON line."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from demo.fingerprint import partition_digest

__all__ = ["main", "read_partition"]

_PATIENCE_SECONDS = 30


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo-reader",  # assigned by hand: the group is never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 4 << 20,
            "check.crcs": True,
        }
    )


def read_partition(
    consumer: Consumer, topic: str, partition: int, start: int, end: int
) -> Iterator[tuple[int, bytes | None, bytes | None, int]]:
    """The committed records of ``[start, end)`` as (offset, key, value, timestamp in ms)."""
    if start >= end:
        return
    consumer.assign([TopicPartition(topic, partition, start)])
    at = start
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while at < end:
        if time.monotonic() > deadline:
            raise SystemExit(f"{topic}-{partition}: nothing came behind offset {at} for {_PATIENCE_SECONDS} s")
        # consume() waits for the whole number of messages or the time: a short one keeps the tail quick.
        messages = consumer.consume(10_000, timeout=0.1)
        if messages:
            deadline = time.monotonic() + _PATIENCE_SECONDS
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name for it
                    at = max(at, message.offset())  # what is between are markers and aborted records
                    continue
                raise KafkaException(error)
            offset = message.offset()
            if offset >= end:
                return
            yield offset, message.key(), message.value(), message.timestamp()[1]
            at = offset + 1


def main() -> None:
    """Read ``--topic`` whole, or ``--from-ms`` to ``--until-ms`` by timestamp."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--from-ms", type=int)
    parser.add_argument("--until-ms", type=int)
    parser.add_argument("--no-offsets", action="store_true", help="count records instead: markers take offsets too")
    arguments = parser.parse_args()
    consumer = _consumer(arguments.bootstrap)
    partitions = {}
    started = time.monotonic()
    value_bytes = 0
    for partition in range(arguments.partitions):
        start, end = consumer.get_watermark_offsets(TopicPartition(arguments.topic, partition), timeout=30)
        if arguments.from_ms is not None:
            start = _offset_at(consumer, arguments.topic, partition, arguments.from_ms, end)
            end = _offset_at(consumer, arguments.topic, partition, arguments.until_ms, end)
        seen = list(read_partition(consumer, arguments.topic, partition, start, end))
        if arguments.no_offsets:
            seen = [(at, *row[1:]) for at, row in enumerate(seen)]
        value_bytes += sum(len(value or b"") for _, _, value, _ in seen)
        partitions[partition] = partition_digest(partition, seen)
    consumer.close()
    seconds = time.monotonic() - started
    json.dump({"partitions": partitions, "seconds": seconds, "value_bytes": value_bytes}, sys.stdout)


def _offset_at(consumer: Consumer, topic: str, partition: int, timestamp_ms: int, end: int) -> int:
    [found] = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp_ms)], timeout=60)
    return found.offset if found.offset >= 0 else end


if __name__ == "__main__":
    main()
