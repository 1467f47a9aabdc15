"""Consumer groups whose members come and go, and whose committed offsets may never go back."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.faults.answers import Acknowledged, acknowledged_faults, order_faults
from bench.faults.reading import CLIENT, read_topic
from bench.faults.workloads import IdempotentWriter, make_topic

__all__ = ["Grouped", "Offsets"]

TOPIC: Final = "orders"
PARTITIONS: Final = 4
MEMBERS: Final = 3
PROTOCOLS: Final = ("classic", "consumer")
DRAINED_SECONDS: Final = 90.0


class Offsets:
    """The offsets that a group was answered to have committed, and the records that its members have processed."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.committed: dict[int, int] = defaultdict(int)
        self.processed: dict[int, set[int]] = defaultdict(set)
        self.faults: list[str] = []
        self._changing = threading.Lock()

    def snapshot(self) -> dict[int, int]:
        """The highest committed offsets so far."""
        with self._changing:
            return dict(self.committed)

    def commit(self, partition: int, offset: int, before: dict[int, int]) -> None:
        """A commit was answered well. ``before`` is a snapshot of when its consumer got the partition."""
        with self._changing:
            if offset < before.get(partition, 0):
                self.faults.append(
                    f"{self.group}: {offset} was committed for partition {partition} behind {before[partition]}, which was "
                    f"committed before its consumer began"
                )
            self.committed[partition] = max(self.committed[partition], offset)

    def fetched(self, partition: int, offset: int, before: dict[int, int]) -> None:
        """The coordinator told an offset to one who asked after ``before``."""
        if max(offset, 0) < before.get(partition, 0):
            self.faults.append(
                f"{self.group}: the coordinator answers {offset} for partition {partition}, and {before[partition]} was committed before"
            )


class _Member(threading.Thread):
    """One member of a group; it leaves and comes back now and then."""

    def __init__(
        self, bootstrap: str, protocol: str, offsets: Offsets, dice: random.Random, over: threading.Event
    ) -> None:
        super().__init__(name=f"member-{offsets.group}", daemon=True)
        self._servers, self._protocol, self._offsets, self._dice, self._over = (
            bootstrap,
            protocol,
            offsets,
            dice,
            over,
        )
        self._before: dict[int, int] = {}

    def run(self) -> None:
        while not self._over.is_set():
            settings: dict[str, Any] = {
                "bootstrap.servers": self._servers,
                "group.id": self._offsets.group,
                "group.protocol": self._protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **CLIENT,
            }
            if self._protocol == "classic":
                settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
            consumer = Consumer(settings)
            consumer.subscribe([TOPIC], on_assign=self._assigned)
            until = time.monotonic() + self._dice.uniform(5, 40)
            while time.monotonic() < until and not self._over.is_set():
                self._turn(consumer)
            consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """The coordinator has to know all that was committed before now."""
        before = self._offsets.snapshot()
        self._before |= {one.partition: before.get(one.partition, 0) for one in partitions}
        try:
            for one in consumer.committed(partitions, timeout=5):
                if one.error is None:
                    self._offsets.fetched(one.partition, one.offset, before)
        except KafkaException:
            return  # no answer; the consumer itself asks again until it has one

    def _turn(self, consumer: Consumer) -> None:
        ends: dict[int, int] = {}
        for message in consumer.consume(100, 0.5):
            if message.error() is None:
                self._offsets.processed[message.partition()].add(message.offset())
                ends[message.partition()] = message.offset() + 1
        if not ends:
            return
        before = self._before
        places = [TopicPartition(TOPIC, partition, offset) for partition, offset in ends.items()]
        try:
            for one in consumer.commit(offsets=places, asynchronous=False):
                if one.error is None:
                    self._offsets.commit(one.partition, one.offset, before)
        except KafkaException:
            return  # refused or without an answer: the next owner reads these records again


class Grouped:
    """A producer, and a group of each protocol."""

    name = "groups"

    def __init__(self, bootstrap: str, dice: random.Random) -> None:
        self.topics = {TOPIC: PARTITIONS}
        self.told = Acknowledged()
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._writer = IdempotentWriter(
            bootstrap, TOPIC, PARTITIONS, self.told, lambda number: (None, b"0:%d" % number), pause_seconds=0.01
        )
        self._offsets = [Offsets(f"{protocol}-group") for protocol in PROTOCOLS]
        self._members = [
            _Member(bootstrap, protocol, offsets, random.Random(dice.random()), self._over)
            for protocol, offsets in zip(PROTOCOLS, self._offsets, strict=True)
            for _ in range(MEMBERS)
        ]

    def start(self) -> None:
        """Make the topic and begin."""
        make_topic(self._bootstrap, TOPIC, PARTITIONS, {})
        self._writer.start()
        for member in self._members:
            member.start()

    def end(self) -> list[str]:
        """Wait until both groups have processed and committed all that was acknowledged."""
        left = self._writer.end()
        ends = {partition: max(values, default=-1) + 1 for partition, values in self.told.values.items()}
        deadline = time.monotonic() + DRAINED_SECONDS
        for offsets in self._offsets:
            while any(offsets.snapshot().get(partition, 0) < end for partition, end in ends.items()):
                if time.monotonic() > deadline:
                    left.append(
                        f"{offsets.group} has committed {offsets.snapshot()} of {ends} {DRAINED_SECONDS:g} s after the last fault"
                    )
                    break
                time.sleep(0.2)
        self._over.set()
        for member in self._members:
            member.join(30)
        return left

    def faults(self) -> Iterator[str]:
        """Records that are lost, or that a group has passed by; offsets that went back."""
        found, _, _ = read_topic(self._bootstrap, TOPIC, PARTITIONS)
        yield from acknowledged_faults(self.told, found)
        yield from order_faults(found)
        for offsets in self._offsets:
            yield from offsets.faults
            for partition, committed in offsets.snapshot().items():
                missed = {one.offset for one in found[partition] if one.offset < committed} - offsets.processed[
                    partition
                ]
                if missed:
                    yield f"{offsets.group} has passed by {len(missed)} records of partition {partition}, the first at {min(missed)}"
            yield from self._last_fetched(offsets)

    def _last_fetched(self, offsets: Offsets) -> Iterator[str]:
        reader = Consumer({"bootstrap.servers": self._bootstrap, "group.id": offsets.group, **CLIENT})
        before, known = offsets.snapshot(), len(offsets.faults)
        for one in reader.committed([TopicPartition(TOPIC, number) for number in range(PARTITIONS)], timeout=30):
            offsets.fetched(one.partition, one.offset, before)
        reader.close()
        yield from offsets.faults[known:]
