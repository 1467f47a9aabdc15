"""Topics that lose records by right: by compaction, by retention, and by requests to delete them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.faults.answers import Acknowledged, Found, acknowledged_faults, order_faults
from bench.faults.reading import read_topic
from bench.faults.workloads import IdempotentWriter, make_topic

__all__ = ["Cleaned", "compaction_faults"]

COMPACTED: Final = "states"
SHORTENED: Final = "events"
PARTITIONS: Final = 2
KEYS: Final = 40
_ANSWER_SECONDS: Final = 60.0
_SMALL: Final = {"segment.ms": "1500", "file.delete.delay.ms": "500"}
COMPACT: Final = {
    **_SMALL,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
}
SHORT: Final = {**_SMALL, "retention.bytes": "30000"}


class Cleaned:
    """A compacted topic, and one that retention and DeleteRecords shorten."""

    name = "cleaning"

    def __init__(self, bootstrap: str, dice: random.Random) -> None:
        self.topics = {COMPACTED: PARTITIONS, SHORTENED: PARTITIONS}
        self.told = Acknowledged()
        self._short = Acknowledged()
        self._bootstrap = bootstrap
        self._dice = random.Random(dice.random())
        self._over = threading.Event()
        self._writers = [
            IdempotentWriter(
                bootstrap,
                COMPACTED,
                PARTITIONS,
                self.told,
                # Both partitions get all keys: the number's halves choose the key.
                lambda number: (b"k%d" % (number // PARTITIONS % KEYS), b"0:%d" % number),
                pause_seconds=0.01,
            ),
            IdempotentWriter(
                bootstrap,
                SHORTENED,
                PARTITIONS,
                self._short,
                lambda number: (b"." * 100, b"0:%d" % number),
                pause_seconds=0.01,
            ),
        ]
        self._deleter = threading.Thread(target=self._delete, name="deleter", daemon=True)
        self._deleted: dict[int, int] = {}

    def start(self) -> None:
        """Make the topics and begin."""
        make_topic(self._bootstrap, COMPACTED, PARTITIONS, COMPACT)
        make_topic(self._bootstrap, SHORTENED, PARTITIONS, SHORT)
        for writer in self._writers:
            writer.start()
        self._deleter.start()

    def _delete(self) -> None:
        """Ask now and then that records go, and remember the answered log starts."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        while not self._over.wait(self._dice.uniform(1, 4)):
            partition = self._dice.randrange(PARTITIONS)
            offset = max(self._short.values[partition], default=0) - self._dice.randrange(200)
            if offset <= self._deleted.get(partition, 0):
                continue
            asked = admin.delete_records([TopicPartition(SHORTENED, partition, offset)], request_timeout=10)
            for place, made in asked.items():
                try:
                    self._deleted[place.partition] = max(
                        self._deleted.get(place.partition, 0), made.result().low_watermark
                    )
                except KafkaException:
                    continue  # refused, or without an answer: the records may be there or not

    def end(self) -> list[str]:
        """Wait for the records on their way."""
        self._over.set()
        left = [one for writer in self._writers for one in writer.end()]
        self._deleter.join(_ANSWER_SECONDS)
        if self._deleter.is_alive():
            left.append(f"a request to delete records has no answer {_ANSWER_SECONDS:g} s after the last fault")
        return left

    def faults(self) -> Iterator[str]:
        """Records that are gone and may not be; deleted ones that are there."""
        found, _, _ = read_topic(self._bootstrap, COMPACTED, PARTITIONS)
        yield from order_faults(found)
        yield from compaction_faults(self.told.values, found)
        found, starts, _ = read_topic(self._bootstrap, SHORTENED, PARTITIONS)
        yield from acknowledged_faults(self._short, found, starts=starts)
        yield from order_faults(found)
        for partition, start in self._deleted.items():
            if starts[partition] < start:
                yield f"{SHORTENED}-{partition} begins at {starts[partition]}, and records below {start} were deleted"


def compaction_faults(told: Mapping[int, Mapping[int, bytes]], found: Mapping[int, Sequence[Found]]) -> Iterator[str]:
    """Keys without their last acknowledged value, or a later one; records that are others than acknowledged."""
    for partition, values in sorted(told.items()):
        records = {one.offset: one for one in found.get(partition, ())}
        odd = [offset for offset, value in values.items() if offset in records and records[offset].value != value]
        if odd:
            yield f"partition {partition}: {len(odd)} records are not those acknowledged, the first at offset {min(odd)}"
        last_found = {one.key: one.offset for one in records.values()}
        last_told: dict[bytes, int] = {}
        for offset, value in values.items():
            key = b"k%d" % (int(value.partition(b":")[2]) // PARTITIONS % KEYS)
            last_told[key] = max(last_told.get(key, -1), offset)
        for key, offset in last_told.items():
            if last_found.get(key, -1) < offset:
                yield f"partition {partition}: key {key!r} ends at {last_found.get(key)}, and {offset} was acknowledged"
