"""Clients of a campaign: each workload writes to its own topics, remembers the answers, and judges its topics at the end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.faults.answers import Acknowledged, acknowledged_faults, order_faults
from bench.faults.reading import CLIENT, LiveReader, live_faults, read_topic

__all__ = ["TIERED", "IdempotentWriter", "Plain", "Workload", "make_topic"]

PARTITIONS: Final = 3
WRITERS: Final = 2
FLUSH_SECONDS: Final = 90.0
TIERED: Final = {
    "remote.storage.enable": "true",
    "segment.ms": "1000",
    "local.retention.ms": "500",
}


class Workload(Protocol):
    """The clients of one kind."""

    name: str
    topics: Mapping[str, int]
    """Partitions by topic."""
    told: Acknowledged

    def start(self) -> None:
        """Make the topics and begin."""
        ...

    def end(self) -> list[str]:
        """Send no more and wait for what is on its way; what has not come."""
        ...

    def faults(self) -> Iterator[str]:
        """All that is wrong, while all nodes serve and the workload has ended."""
        ...


def make_topic(bootstrap: str, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """A topic with three replicas; two have to be in sync. Raises `KafkaException`."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = NewTopic(name, partitions, 3, config={"min.insync.replicas": "2", **config})
    for made in admin.create_topics([topic], operation_timeout=30, request_timeout=40).values():
        made.result()


class IdempotentWriter:
    """A producer that never gives up a record: ``values`` gives the key and value of each, by its number."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        told: Acknowledged,
        record: Callable[[int], tuple[bytes | None, bytes]],
        *,
        pause_seconds: float,
    ) -> None:
        self.failures: list[str] = []
        self._topic, self._partitions, self._told, self._record = topic, partitions, told, record
        self._pause_seconds = pause_seconds
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "request.timeout.ms": 5000,
                "retry.backoff.ms": 50,
                "linger.ms": 5,
                "error_cb": self._failed,
                **CLIENT,
            }
        )
        self._thread = threading.Thread(target=self._run, name=f"writer-{topic}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _failed(self, error: Any) -> None:
        if error.fatal():
            self.failures.append(f"{self._topic}: a producer cannot go on: {error}")

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            key, value = self._record(number)
            try:
                self._producer.produce(
                    self._topic, value, key, partition=number % self._partitions, on_delivery=self._delivered
                )
                number += 1
            except BufferError:
                pass
            except KafkaException as error:  # a fatal error: no other record can be sent
                self.failures.append(f"{self._topic}: a producer cannot go on: {error}")
                return
            self._producer.poll(self._pause_seconds)
            time.sleep(self._pause_seconds)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(f"{self._topic}-{message.partition()}: {message.value()!r} failed: {error}")
        else:
            self._told.note(message.partition(), message.offset(), message.value())

    def end(self) -> list[str]:
        """Wait for the records on their way."""
        self._over.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_SECONDS)
        stuck = (
            [f"{self._topic}: {left} records have no answer {FLUSH_SECONDS:g} s after the last fault"] if left else []
        )
        return [*self.failures[:3], *stuck]


class Plain:
    """Idempotent producers with acks=all, and a reader beside them. ``config`` makes it a tiered topic."""

    def __init__(
        self, bootstrap: str, dice: random.Random, *, name: str = "plain", config: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.topics = {name: PARTITIONS}
        self.told = Acknowledged()
        self._bootstrap, self._config = bootstrap, config or {}
        padding = b"." * dice.randint(0, 300)
        self._writers = [
            IdempotentWriter(
                bootstrap,
                name,
                PARTITIONS,
                self.told,
                lambda number, writer=writer: (padding or None, b"%d:%d" % (writer, number)),
                pause_seconds=0.01,
            )
            for writer in range(WRITERS)
        ]
        self._reader: LiveReader | None = None

    def start(self) -> None:
        """Make the topic and begin."""
        make_topic(self._bootstrap, self.name, PARTITIONS, self._config)
        self._reader = LiveReader(self._bootstrap, self.name, PARTITIONS, "read_uncommitted")
        for writer in self._writers:
            writer.start()

    def end(self) -> list[str]:
        """Wait for the records on their way."""
        left = [one for writer in self._writers for one in writer.end()]
        if self._reader is not None:
            self._reader.end()
        return left

    def faults(self) -> Iterator[str]:
        """Records that are lost, double, out of order, or were read and are gone."""
        found, starts, _ = read_topic(self._bootstrap, self.name, PARTITIONS)
        yield from (f"the log of partition {number} begins at {start}" for number, start in starts.items() if start)
        yield from acknowledged_faults(self.told, found)
        yield from order_faults(found)
        if self._reader is not None:
            yield from self._reader.errors[:3]
            yield from live_faults(self._reader.found, found)
