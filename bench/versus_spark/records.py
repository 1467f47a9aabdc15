"""The records: made once, archived by our broker and held by Apache Kafka, offset by offset the same.

They stay in a folder, so that each cell can be run by itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench.archives import TIERED, json_values
from bench.servers import LOG_END, REMOTE_LAST, BrokerServer
from bench.versus.kafka import KafkaServer

__all__ = ["PARTITION_COUNT", "SETS", "Held", "RecordSet"]

PARTITION_COUNT = 6
_SEGMENT_BYTES = 64 << 20
_BATCH_BYTES = 64 << 10
_FIRST_MS = 1_760_000_000_000
_RECORDS_PER_MS = 10
_RUN_RECORDS = 4096
"""So many in a row go to one partition."""
_KEYS = [b"user-%05d" % number for number in range(10_000)]
_WAIT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class RecordSet:
    """So many records with values of ``value_bytes``, or ``varied`` from a half to one and a half of that."""

    name: str
    value_bytes: int
    codec: str
    count: int
    varied: bool = False

    def values(self) -> list[bytes]:
        """Values that look like events; the records take them in turn."""
        if not self.varied:
            return json_values(4000, self.value_bytes)
        longest = json_values(4000, self.value_bytes + self.value_bytes // 2)
        return [value[: self.value_bytes // 2 + index * 7919 % self.value_bytes] for index, value in enumerate(longest)]


_SMALL, _LARGE = 5_000_000, 1_000_000
SETS: Mapping[str, RecordSet] = {
    one.name: one
    for one in (
        *(RecordSet(f"100B-{codec}", 100, codec, _SMALL) for codec in ("none", "lz4", "zstd")),
        RecordSet("100B-varied", 100, "none", _SMALL, varied=True),
        *(RecordSet(f"1KiB-{codec}", 1024, codec, _LARGE) for codec in ("none", "lz4", "zstd")),
        RecordSet("1KiB-varied", 1024, "none", _LARGE, varied=True),
    )
}


@dataclass(frozen=True, slots=True)
class Held:
    """The folder that holds the records on both sides."""

    folder: Path

    @property
    def bucket(self) -> str:
        """Our archive."""
        return (self.folder / "bucket").as_uri()

    def make(self, records: RecordSet) -> None:
        """Produce the records to both brokers, unless that has been done. Raises ``SystemExit`` if they differ."""
        done = self.folder / f"{records.name}.made"
        if done.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with BrokerServer.start(self.folder / "stratalog", bucket=self.folder / "bucket") as ours:
            ours.create_topic(records.name, PARTITION_COUNT, segment_bytes=str(_SEGMENT_BYTES), **TIERED)
            _produce(ours, records)
            ours.alter_topic(records.name, segment_ms="1000")  # what is idle freezes, so that all of it is archived
            ends = _wait_all_archived(ours, records.name)
        with self.kafka() as kafka:
            kafka.create_topic(records.name, PARTITION_COUNT, retention_ms="-1")
            _produce(kafka, records)
            if (theirs := kafka.offsets(records.name, PARTITION_COUNT, LOG_END)) != ends:
                raise SystemExit(f"{records.name}: Kafka's partitions end at {theirs}, those of the archive at {ends}")
        done.touch()

    def kafka(self) -> KafkaServer:
        """Apache Kafka over what it holds."""
        return KafkaServer.start(self.folder / "kafka")


def _produce(server: BrokerServer, records: RecordSet) -> None:
    """Idempotently, so that the records of a partition keep their order; Kafka's clients fill batches about as large."""
    failures: list[str] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{server.port}",
        "enable.idempotence": True,
        "compression.type": records.codec,
        "batch.size": _BATCH_BYTES,
        "linger.ms": 20,
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 600_000,
        "delivery.report.only.error": True,
        "on_delivery": lambda error, _: failures.append(str(error)),
    }
    producer = Producer(settings)
    values = records.values()
    started = time.monotonic()
    for index in range(records.count):
        value, key = values[index * 7 % len(values)], _KEYS[index % len(_KEYS)]
        partition, timestamp_ms = index // _RUN_RECORDS % PARTITION_COUNT, _FIRST_MS + index // _RECORDS_PER_MS
        while True:
            try:
                producer.produce(records.name, value, key, partition, timestamp=timestamp_ms)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(60)
    if left or failures:
        raise SystemExit(f"{records.name}: {left} records were not acknowledged; {failures[:3]}")
    print(f"  {records.count} records in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def _wait_all_archived(broker: BrokerServer, topic: str) -> list[int]:
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        ends = broker.offsets(topic, PARTITION_COUNT, LOG_END)
        if [last + 1 for last in broker.offsets(topic, PARTITION_COUNT, REMOTE_LAST)] == ends:
            return ends
        time.sleep(0.5)
    raise SystemExit(f"{topic}: not all of it was archived in {_WAIT_SECONDS} s")
