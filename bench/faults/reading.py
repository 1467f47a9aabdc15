"""Reads whole topics, and reads along while records are written."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from bench.faults.answers import Found

__all__ = ["LiveReader", "live_faults", "read_topic"]

CLIENT: Final = {"log_level": 0, "socket.timeout.ms": 6000, "topic.metadata.refresh.interval.ms": 2000}
"""For all clients: a broker that stands still is noticed soon."""
_CLOSE_SECONDS: Final = 30.0
_BEGIN_SECONDS: Final = 60.0


def _consumer(bootstrap: str, isolation: str, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "campaign",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            **CLIENT,
            **settings,
        }
    )


class Unread(RuntimeError):
    """A topic that could not be read to its end."""


def read_topic(
    bootstrap: str, topic: str, partitions: int, *, isolation: str = "read_uncommitted", seconds: float = 120.0
) -> tuple[dict[int, list[Found]], dict[int, int], dict[int, int]]:
    """All records by partition, the log starts and the log ends. Raises `Unread`."""
    consumer = _consumer(bootstrap, isolation, **{"enable.partition.eof": True})
    deadline = time.monotonic() + seconds
    found: dict[int, list[Found]] = defaultdict(list)
    try:
        starts, ends = {}, {}
        for number in range(partitions):
            starts[number], ends[number] = _watermarks(consumer, topic, number, deadline)
        consumer.assign([TopicPartition(topic, number, starts[number]) for number in range(partitions)])
        unread = {number for number in range(partitions) if starts[number] < ends[number]}
        last = ""
        while unread:
            if time.monotonic() > deadline:
                tails = {number: found[number][-1].offset if found[number] else -1 for number in unread}
                raise Unread(f"{topic} was not read to its ends {ends} within {seconds:g} s: {tails}; {last}")
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    found[message.partition()].append(Found(message.offset(), message.key(), message.value()))
                elif error.name() == "_PARTITION_EOF":
                    if message.offset() >= ends[message.partition()]:
                        unread.discard(message.partition())
                else:
                    last = str(error)
        return found, starts, ends
    finally:
        consumer.close()


def _watermarks(consumer: Consumer, topic: str, partition: int, deadline: float) -> tuple[int, int]:
    while True:
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=5)
            return int(start), int(end)
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise Unread(f"the ends of {topic}-{partition} are not known: {error}") from None


class LiveReader:
    """Reads a topic along, from its beginning; all that it found stays in `found`. Raises `Unread` if no leader answers."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation: str) -> None:
        self.found: dict[int, list[Found]] = defaultdict(list)
        self.errors: list[str] = []
        self._topic = topic
        self._over = threading.Event()
        self._consumer = _consumer(bootstrap, isolation)
        deadline = time.monotonic() + _BEGIN_SECONDS
        for number in range(partitions):  # a leader that has not heard of a new topic yet would end the reader
            _watermarks(self._consumer, topic, number, deadline)
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        self._thread = threading.Thread(target=self._run, name=f"reader-{topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(200, 0.5):
                error = message.error()
                if error is None:
                    self.found[message.partition()].append(Found(message.offset(), message.key(), message.value()))
                elif error.name() in {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_FATAL", "_BAD_MSG"}:
                    self.errors.append(f"partition {message.partition()}: {error}")
        self._consumer.close()

    def end(self) -> None:
        """Read no more. A reader that does not close in time is a fault of its own."""
        self._over.set()
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            self.errors.append(f"the reader of {self._topic} has not closed within {_CLOSE_SECONDS:g} s")


def live_faults(live: Mapping[int, Sequence[Found]], after: Mapping[int, Sequence[Found]]) -> Iterator[str]:
    """Records that were read meanwhile and are not there afterwards, are others, or were read in another order."""
    for partition, records in sorted(live.items()):
        there = {one.offset: one for one in after.get(partition, ())}
        phantoms = [one for one in records if there.get(one.offset) != one]
        if phantoms:
            yield f"partition {partition}: {len(phantoms)} records were read and are not there, the first: {phantoms[0]}"
        offsets = [one.offset for one in records]
        if offsets != sorted(set(offsets)):
            yield f"partition {partition}: a reader found offsets twice or out of order"
        if records:
            expected = [offset for offset in sorted(there) if offset <= offsets[-1]]
            missed = set(expected) - set(offsets)
            if missed:
                yield f"partition {partition}: a reader passed by {len(missed)} records, the first at offset {min(missed)}"
