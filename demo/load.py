"""Loading with librdkafka: every event is produced once and its delivery report says where it landed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from demo.dataset import Event
from demo.fingerprint import Fingerprint, combine, partition_digest

__all__ = ["Loaded", "Loader"]


@dataclass
class Loaded:
    """Records that went in, by the source file and the delivery reports alone."""

    seconds: float
    value_bytes: int
    landed: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Partition -> (offset, index of the event) in offset order."""

    def fingerprint(self, events: Sequence[Event]) -> Fingerprint:
        """The fingerprint that every reader must find."""
        return combine(
            {
                partition: partition_digest(
                    partition,
                    (
                        (offset, events[index].key, events[index].value, events[index].timestamp_ms)
                        for offset, index in rows
                    ),
                )
                for partition, rows in self.landed.items()
            }
        )


class Loader:
    """One librdkafka producer and admin client."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, name: str, partitions: int, config: dict[str, str]) -> None:
        """Create a topic; raises what the broker answers."""
        for future in self._admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
            future.result()

    def set_config(self, topic: str, name: str, value: str) -> None:
        """Change one setting of a topic (IncrementalAlterConfigs)."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result()

    def load(self, topic: str, events: Sequence[Event], codec: str, partition: int | None = None) -> Loaded:
        """Produce the events in order, idempotently, and wait until every one is acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 20,
                "batch.size": 256 << 10,
                "queue.buffering.max.messages": 500_000,
            }
        )
        landed: list[tuple[int, int, int]] = []
        failures: list[str] = []

        def report(index: int) -> Any:
            def delivered(error: Any, message: Message) -> None:
                if error is not None:
                    failures.append(str(error))
                else:
                    landed.append((message.partition(), message.offset(), index))

            return delivered

        extra = {} if partition is None else {"partition": partition}
        started = time.monotonic()
        for index, event in enumerate(events):
            while True:
                try:
                    producer.produce(
                        topic,
                        event.value,
                        event.key,
                        timestamp=event.timestamp_ms,
                        on_delivery=report(index),
                        **extra,
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
            if index % 1000 == 0:
                producer.poll(0)
        producer.flush(120)
        seconds = time.monotonic() - started
        if failures or len(landed) != len(events):
            raise SystemExit(f"{topic}: {len(landed):,} of {len(events):,} events were acknowledged; {failures[:3]}")
        loaded = Loaded(seconds, sum(len(event.value) for event in events))
        for at, offset, index in sorted(landed):
            loaded.landed.setdefault(at, []).append((offset, index))
        return loaded
