"""Cost of transactions for a producer: commits every 100 ms against the same records without any."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, median
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.settings import Settings

__all__ = ["CELL", "produce"]

MESSAGE_BYTES: Final = 1024
COMMIT_SECONDS: Final = 0.1
SECONDS: Final = 3.0
PARTITION_COUNT: Final = 1
_QUEUED_MESSAGES_MAX: Final = 20_000
_QUEUED_KBYTES_MAX: Final = 20_000

_FLUSH_AS_KAFKA = Line(
    "transactions-kafka-flush", "throughput / that without transactions, flush as Kafka", Bound(">=", 0.95)
)
_SYNC_ON_ACK = Line("transactions", "throughput / that without transactions, sync on ack", Bound(">=", 0.85))


def produce(port: int, topic: str, seconds: float, *, transactional: bool) -> float:
    """Messages a second of one producer, every one of them acknowledged (and committed) before the clock stops.

    Raises ``SystemExit`` if one is not acknowledged.
    """
    failures: list[str] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "enable.idempotence": True,
        "linger.ms": 5,
        "queue.buffering.max.messages": _QUEUED_MESSAGES_MAX,
        "queue.buffering.max.kbytes": _QUEUED_KBYTES_MAX,
        "delivery.report.only.error": True,
        "on_delivery": lambda error, _: failures.append(str(error)),
    }
    if transactional:
        settings["transactional.id"] = f"bench-{topic}"
    producer = Producer(settings)
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    value = b"x" * MESSAGE_BYTES
    began = time.monotonic()
    committed, end, count = began, began + seconds, 0
    while (now := time.monotonic()) < end:
        if transactional and now - committed >= COMMIT_SECONDS:
            producer.commit_transaction(30)
            producer.begin_transaction()
            committed = time.monotonic()
        count += _fill(producer, topic, value)
    if transactional:
        producer.commit_transaction(30)
    left = producer.flush(60)
    taken = time.monotonic() - began
    if left or failures:
        raise SystemExit(f"{topic}: {left} messages were not acknowledged; {failures[:3]}")
    return count / taken


def _fill(producer: Producer, topic: str, value: bytes) -> int:
    """Hand over some messages; how many the producer took."""
    send = producer.produce
    for count in range(200):
        try:
            send(topic, value)
        except BufferError:
            producer.poll(0.002)
            return count
    producer.poll(0)
    return 200


def _case(line: Line, folder: Path, settings: Settings, flush: dict[str, str]) -> Outcome:
    rates: dict[bool, list[float]] = {False: [], True: []}
    costs: dict[bool, list[float]] = {False: [], True: []}
    ratios = []
    with BrokerServer.start(folder, flush) as broker:
        for repetition in range(max(settings.repetitions, 3) + 1):
            order = (False, True) if repetition % 2 else (True, False)
            measured = {}
            for transactional in order:
                topic = f"bench-{repetition}-{transactional}"
                broker.create_topic(topic, PARTITION_COUNT)
                before = broker.cpu_seconds()
                measured[transactional] = rate = produce(broker.port, topic, SECONDS, transactional=transactional)
                costs[transactional].append((broker.cpu_seconds() - before) / (rate * SECONDS) * 1e6)
                broker.delete_topic(topic)
            if not repetition:
                continue  # the first one makes the coordinator's topic and warms everything up
            ratios.append(measured[True] / measured[False])
            for transactional, rate in measured.items():
                rates[transactional].append(rate)
            print(
                f"  {measured[True]:,.0f} messages/s in transactions, {measured[False]:,.0f} without: {ratios[-1]:.3f}",
                file=sys.stderr,
                flush=True,
            )
    return line.outcome(
        median(ratios),
        messages_per_second=median(rates[True]),
        messages_per_second_without=median(rates[False]),
        broker_cpu_us=median(costs[True]),
        broker_cpu_us_without=median(costs[False]),
    )


def _measure(settings: Settings) -> list[Outcome]:
    outcomes = []
    for line, flush, place in (
        (_FLUSH_AS_KAFKA, KAFKA_FLUSH, settings.memory),
        (_SYNC_ON_ACK, {}, settings.disk),
    ):
        with settings.folder(place) as folder:
            outcomes.append(_case(line, folder / "data", settings, flush))
    return outcomes


CELL = Cell(_SYNC_ON_ACK.cell, (_FLUSH_AS_KAFKA, _SYNC_ON_ACK), _measure)
