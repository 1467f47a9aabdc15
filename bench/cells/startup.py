"""From the start of the process until a first produce and a first fetch on every partition succeeded."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, median
from bench.servers import BrokerServer
from bench.settings import Settings
from stratalog.client.admin import create_topic
from stratalog.client.client import Client
from stratalog.client.records import fetch, produce_batches
from stratalog.wire.batch import Record, build_batch, read_header
from stratalog.wire.topic import TopicPartition

__all__ = ["CELL", "fill_partitions", "produce_and_fetch"]

PARTITION_COUNT = 1000
SEGMENT_COUNT = 3
SEGMENT_BYTES = 48 << 10
VALUE_BYTES = 1000

_EMPTY = Line("start-empty", "s until a topic is made, written and read", Bound("<=", 1.0))
_FULL = Line("start-1000-partitions", "s until every partition of 3 segments is written and read", Bound("<=", 4.0))


def batch_of(record_count: int) -> bytearray:
    """A batch of records of 1,000 bytes, made now."""
    now_ms = time.time_ns() // 1_000_000
    return build_batch([Record(offset, now_ms, None, b"v" * VALUE_BYTES, ()) for offset in range(record_count)])


def produce_and_fetch(client: Client, topic: str, partition_count: int) -> None:
    """Append one batch to each partition, acks=all, and fetch each of them again.

    Raises ``KafkaError`` for what is refused, ``SystemExit`` for what does not come back.
    """
    partitions = [TopicPartition(topic, number) for number in range(partition_count)]
    batch = batch_of(1)
    answers = produce_batches(client, dict.fromkeys(partitions, batch), acks=-1)
    waiting = {one: answers[one].base_offset for one in partitions}
    refused = [one for one in partitions if answers[one].error_code]
    if refused:
        raise SystemExit(f"{refused[0]} refused a batch: {answers[refused[0]]}")
    deadline = time.monotonic() + 60
    while waiting:
        for one in fetch(client, waiting, partition_max_bytes=len(batch)):
            if not one.data:
                continue
            offset = read_header(one.data).base_offset
            if offset != waiting.pop(one.topic_partition):
                raise SystemExit(f"{one.topic_partition}: fetched offset {offset}")
        if time.monotonic() > deadline:
            raise SystemExit(f"{len(waiting)} partitions of {topic} were not fetched in a minute")


def fill_partitions(broker: BrokerServer, topic: str, partition_count: int) -> None:
    """A topic whose partitions have three segments each. Raises ``SystemExit`` if they have not."""
    partitions = [TopicPartition(topic, number) for number in range(partition_count)]
    configs = {"internal.segment.bytes": str(SEGMENT_BYTES)}
    batch = batch_of(SEGMENT_BYTES // VALUE_BYTES * 3 // 4)
    with broker.client() as client:
        create_topic(client, topic, partition_count=partition_count, configs=configs)
        for _ in range(SEGMENT_COUNT):
            produce_batches(client, dict.fromkeys(partitions, batch), acks=-1)
    found = len(list(broker.data.glob(f"{topic}-*/*.log")))
    if found != SEGMENT_COUNT * partition_count:
        raise SystemExit(f"{found} segments instead of {SEGMENT_COUNT * partition_count}")


def _start_empty(folder: Path) -> float:
    started = time.monotonic()
    with BrokerServer.start(folder) as broker:
        with broker.client() as client:
            create_topic(client, "first", partition_count=1)
            produce_and_fetch(client, "first", 1)
        return time.monotonic() - started


def _start_full(folder: Path) -> tuple[float, float]:
    started = time.monotonic()
    with BrokerServer.start(folder) as broker:
        with broker.client() as client:
            produce_and_fetch(client, "many", PARTITION_COUNT)
        return time.monotonic() - started, broker.ready_seconds


def _measure(settings: Settings) -> list[Outcome]:
    empty, full = [], []
    with settings.folder(settings.disk) as folder:
        with BrokerServer.start(folder / "many") as broker:
            fill_partitions(broker, "many", PARTITION_COUNT)
        for repetition in range(settings.repetitions):
            empty.append(_start_empty(folder / f"empty-{repetition}"))
            full.append(_start_full(folder / "many"))
            print(
                f"  empty {empty[-1]:.2f} s, {PARTITION_COUNT} partitions {full[-1][0]:.2f} s"
                f" (ready after {full[-1][1]:.2f} s)",
                file=sys.stderr,
                flush=True,
            )
    ready = median(one for _, one in full)
    return [_EMPTY.outcome(median(empty)), _FULL.outcome(median(one for one, _ in full), ready_seconds=ready)]


CELL = Cell("start", (_EMPTY, _FULL), _measure)
