"""The commonest client: the broker's cost of 100-byte messages when librdkafka batches them as it likes."""

from __future__ import annotations

import sys
import time
from typing import Any

from confluent_kafka import Producer

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, median
from bench.servers import BrokerServer
from bench.settings import Settings

__all__ = ["CELL", "produce"]

MESSAGE_COUNT = 3_000_000
MESSAGE_BYTES = 100
_REPETITIONS_MIN = 5
"""A third of a second of CPU time is short: its median over fewer runs says more about neighbours than about us."""

_LINE = Line("librdkafka-produce-100B", "us of broker CPU per message", Bound("<=", 0.1))


def produce(port: int, topic: str, values: list[bytes], count: int, **options: Any) -> float:
    """Produce ``count`` messages with the values in turn and wait for every acknowledgement; the seconds it took.

    Raises ``SystemExit`` if one is not acknowledged.
    """
    failures: list[str] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 400_000,
        "delivery.report.only.error": True,
        "on_delivery": lambda error, _: failures.append(str(error)),
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    producer = Producer(settings)
    send = producer.produce
    started = time.monotonic()
    value_count = len(values)
    for index in range(count):
        while True:
            try:
                send(topic, values[index % value_count])
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(60)
    seconds = time.monotonic() - started
    if left or failures:
        raise SystemExit(f"{topic}: {left} messages were not acknowledged; {failures[:3]}")
    return seconds


def _measure(settings: Settings) -> list[Outcome]:
    costs, rates = [], []
    with settings.folder(settings.memory) as folder, BrokerServer.start(folder / "data") as broker:
        for repetition in range(max(settings.repetitions, _REPETITIONS_MIN)):
            topic = f"bench-{repetition:03}"
            broker.create_topic(topic)
            before = broker.cpu_seconds()
            seconds = produce(broker.port, topic, [b"x" * MESSAGE_BYTES], MESSAGE_COUNT, acks=1)
            costs.append((broker.cpu_seconds() - before) / MESSAGE_COUNT * 1e6)
            rates.append(MESSAGE_COUNT / seconds)
            found = broker.record_count(topic)
            if found != MESSAGE_COUNT:
                raise SystemExit(f"the log holds {found} records, {MESSAGE_COUNT} were acknowledged")
            broker.delete_topic(topic)
            print(f"  {costs[-1]:.4f} us CPU a message, {rates[-1]:,.0f} messages/s", file=sys.stderr, flush=True)
    outcome = _LINE.outcome(median(costs), ours_cpu_us=median(costs), messages_per_second=max(rates))
    outcome.note = "the client is the bottleneck of the rate; sync on ack as by default, on tmpfs"
    return [outcome]


CELL = Cell(_LINE.cell, (_LINE,), _measure)
