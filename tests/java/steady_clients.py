"""A producer and a group that go on while brokers go and come, and what both of them saw."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Sequence

from confluent_kafka import Consumer

FLUSH_SECONDS_MAX = 120
Place = tuple[int, int]


class SteadyProducer:
    """librdkafka writes a record each few milliseconds; ``acknowledged`` has the values by partition and offset."""

    def __init__(
        self, clients, address: str, topic: str, partitions: int, *, codec: str = "none",
        value_bytes: int = 20, pause_seconds: float = 0.005,
    ) -> None:  # fmt: skip
        self.acknowledged: dict[Place, bytes] = {}
        self.unplaced: set[bytes] = set()
        """Acknowledged, too, but the offset is unknown: a refused batch that the answer to the next one shows to be in the log."""
        self.failed: list[object] = []
        self._topic = topic
        self._partitions = partitions
        self._value_bytes = value_bytes
        self._pause_seconds = pause_seconds
        self._producer = clients.producer(address, codec, message_timeout_ms=120_000)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        dice = random.Random(self._topic)
        number = 0
        while not self._stop.wait(self._pause_seconds):
            value = b"%d %s" % (number, dice.randbytes(self._value_bytes // 2).hex().encode())
            self._producer.produce(self._topic, value, b"k", number % self._partitions, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error, message) -> None:
        if error is not None:
            self.failed.append(error)
        elif message.offset() is None:
            self.unplaced.add(message.value())
        else:
            self.acknowledged[message.partition(), message.offset()] = message.value()

    @property
    def values(self) -> set[bytes]:
        """Everything that is acknowledged."""
        return {*self.acknowledged.values(), *self.unplaced}

    def wrote(self, until, count: int = 200) -> None:
        """Wait until that many more are acknowledged of each partition."""
        before = self._count()
        until(lambda: all(now >= then + count for now, then in zip(self._count(), before, strict=True)))

    def _count(self) -> list[int]:
        counts = [0] * self._partitions
        for partition, _ in list(self.acknowledged):
            counts[partition] += 1
        return counts

    def stop(self) -> None:
        """Write no more, and wait for what is on its way."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(FLUSH_SECONDS_MAX) == 0


class SteadyGroup:
    """A group of one member reads on; ``read`` has the values in the order in which they came."""

    def __init__(self, address: str, topic: str) -> None:
        self.read: dict[int, list[Place]] = defaultdict(list)
        self.values: dict[Place, bytes] = {}
        self.failed: list[object] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": f"of-{topic}",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.2):
                if (error := message.error()) is not None:
                    self.failed.append(error)
                    continue
                place = message.partition(), message.offset()
                self.read[message.partition()].append(place)
                self.values[place] = message.value()
        self._consumer.close()

    def catch_up(self, count: int, seconds_max: float = 120) -> None:
        """Wait until it has read that many records."""
        end = time.monotonic() + seconds_max
        while (have := sum(map(len, list(self.read.values())))) < count:
            assert time.monotonic() < end, f"the group read {have} of {count} records"
            time.sleep(0.1)

    def stop(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join()


def assert_read_once(clients, address: str, topic: str, written: SteadyProducer, partitions: Sequence[int]) -> int:
    """The topic has each acknowledged record at its offset, and no value twice; returns how many it has."""
    read = {(partition, row[0]): row[2] for partition in partitions for row in clients.read(address, topic, partition)}
    missing = {place: value for place, value in dict(written.acknowledged).items() if read.get(place) != value}
    assert not missing, f"{len(missing)} of {len(written.acknowledged)} acknowledged are gone: {sorted(missing)[:5]}"
    assert written.unplaced <= set(read.values())
    assert len(set(read.values())) == len(read), "a record stands in the log twice"
    return len(read)
