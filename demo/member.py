"""A member of a consumer group in a process of its own: reads its share to the end, commits, and prints what it saw."""

from __future__ import annotations

import argparse
import json
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from demo.fingerprint import partition_digest

__all__ = ["main"]

_PATIENCE_SECONDS = 60


class Member:
    """Partitions of one consumer, and the records that it reads."""

    def __init__(self, bootstrap: str, group: str, topic: str, share: int) -> None:
        self._topic = topic
        self._share = share
        self._seen: dict[int, list[tuple[int, bytes | None, bytes | None, int]]] = {}
        self._ended: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin anew with every assignment: nothing is committed before the end."""
        del consumer
        self._seen = {one.partition: [] for one in partitions}
        self._ended = set()

    def read(self) -> dict[str, object]:
        """Read until every partition of a share of the agreed size is at its end."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(self._seen) != self._share or self._ended != set(self._seen):
            if time.monotonic() > deadline:
                raise SystemExit(f"the member has {len(self._seen)} partitions after {_PATIENCE_SECONDS} s")
            for message in self._consumer.consume(10_000, timeout=0.1):
                self._take(message)
        self._consumer.commit(
            offsets=[
                TopicPartition(self._topic, number, rows[-1][0] + 1) for number, rows in self._seen.items() if rows
            ],
            asynchronous=False,
        )
        self._consumer.close()
        return {"partitions": {number: partition_digest(number, rows) for number, rows in self._seen.items()}}

    def _take(self, message: Message) -> None:
        error = message.error()
        number = message.partition()
        assert number is not None
        if error is None:
            offset = message.offset()
            assert offset is not None
            self._seen[number].append((offset, message.key(), message.value(), message.timestamp()[1]))
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name for it
            self._ended.add(number)
        else:
            raise KafkaException(error)


def main() -> None:
    """Read a share of ``--topic``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--share", type=int, required=True, help="partitions to wait for")
    arguments = parser.parse_args()
    json.dump(Member(arguments.bootstrap, arguments.group, arguments.topic, arguments.share).read(), sys.stdout)


if __name__ == "__main__":
    main()
