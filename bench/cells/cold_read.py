"""Reading a tiered partition whose bytes are on a disk only, against reading one from the page cache.

Both are read by librdkafka with its defaults but one: a consumer that asks for 1 MiB at a time. The archive is a
folder; before each cold read the broker is started again, its chunk cache is empty, and the kernel has forgotten the
objects.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition

from bench.archives import TIERED, drop_from_page_cache, json_values, wait_archived
from bench.cell import Cell, Line
from bench.cells.librdkafka import produce
from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import BrokerServer
from bench.settings import Settings

__all__ = ["CELL", "consume"]

SEGMENT_BYTES = 64 << 20
VALUE_BYTES = 1024
MESSAGE_COUNT = (1 << 30) // VALUE_BYTES + SEGMENT_BYTES // VALUE_BYTES
"""A GiB of archive, and the segment that stays active."""

_CLIENT = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "check.crcs": True,
    "auto.offset.reset": "error",
    # By default librdkafka asks for nothing for a second once 64 MiB wait in its queue, which are read in 30 ms: a
    # broker that is now and then ahead of its reader would be measured at a half or a third of its rate.
    "fetch.queue.backoff.ms": 0,
}

_RATIO = Line("cold-read", "throughput / that of a hot read", Bound(">=", 0.4))
_GETS = Line("cold-read-gets", "GETs per GiB", Bound("<=", 150))


@dataclass(frozen=True, slots=True)
class _Read:
    seconds: float
    gets_per_gibibyte: float


def consume(port: int, topic: str, end_offset: int, values: list[bytes]) -> float:
    """Read partition 0 from its start to ``end_offset``; the seconds from the first message on to the last.

    Raises ``SystemExit`` if an offset is missing, or a value is not the one that was produced.
    """
    consumer = Consumer({**_CLIENT, "bootstrap.servers": f"127.0.0.1:{port}"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        position = 0
        started = time.monotonic()
        while position < end_offset:
            messages = consumer.consume(1000, 30.0)
            if not messages:
                raise SystemExit(f"{topic}: nothing came behind offset {position} for 30 s")
            _check(messages[0], position, values)
            _check(messages[-1], position + len(messages) - 1, values)
            position += len(messages)
        return time.monotonic() - started
    finally:
        consumer.close()


def _check(message: Message, offset: int, values: list[bytes]) -> None:
    if message.error():
        raise SystemExit(f"{message.topic()}: {message.error()}")
    if message.offset() != offset:
        raise SystemExit(f"{message.topic()}: offset {message.offset()} instead of {offset}")
    if message.value() != values[offset % len(values)]:
        raise SystemExit(f"{message.topic()}: another value at offset {offset}")


def _read_cold(folder: Path, end_offset: int, values: list[bytes]) -> _Read:
    drop_from_page_cache(folder)
    with BrokerServer.start(folder / "data") as broker:
        gets = broker.metric("stratalog_tier_gets_total")
        seconds = consume(broker.port, "cold", end_offset, values)
        gets = broker.metric("stratalog_tier_gets_total") - gets
    return _Read(seconds, gets / (end_offset * VALUE_BYTES) * 2**30)


def _read_hot(folder: Path, end_offset: int, values: list[bytes]) -> _Read:
    with BrokerServer.start(folder / "data") as broker:
        consume(broker.port, "hot", end_offset, values)  # into the page cache
        return _Read(consume(broker.port, "hot", end_offset, values), 0)


def _measure(settings: Settings) -> list[Outcome]:
    values = json_values(1000, VALUE_BYTES)
    with settings.folder(settings.disk) as folder:
        with BrokerServer.start(folder / "data") as broker:
            broker.create_topic("cold", 1, segment_bytes=str(SEGMENT_BYTES), **TIERED)
            broker.create_topic("hot", segment_bytes=str(SEGMENT_BYTES))
            for topic in ("cold", "hot"):
                produce(broker.port, topic, values, MESSAGE_COUNT, acks="all")
            end_offset = wait_archived(broker, "cold", 1)[0]
        kinds = {"cold": _read_cold, "hot": _read_hot}

        def run(kind: str, _: int) -> _Read:
            read = kinds[kind](folder, end_offset, values)
            rate = end_offset * VALUE_BYTES / read.seconds / 1e6
            gets = read.gets_per_gibibyte
            print(f"  {kind:5} {rate:7.0f} MB/s  {gets:.0f} GETs a GiB", file=sys.stderr, flush=True)
            return read

        reads = interleaved(("cold", "hot"), settings.repetitions, run)
    cold, hot = (median(one.seconds for one in reads[kind]) for kind in ("cold", "hot"))
    megabytes = end_offset * VALUE_BYTES / 1e6
    ratio = _RATIO.outcome(
        hot / cold, cold_megabytes_per_second=megabytes / cold, hot_megabytes_per_second=megabytes / hot
    )
    return [ratio, _GETS.outcome(median(one.gets_per_gibibyte for one in reads["cold"]))]


CELL = Cell("cold-read", (_RATIO, _GETS), _measure)
