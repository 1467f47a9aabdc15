"""The clients of the comparison: librdkafka in processes of its own, and Kafka's Java programs.

``python -m bench.versus.clients produce|consume|pace|tail BOOTSTRAP TOPIC ...`` prints one line of JSON.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.build import cubic_environment
from bench.outcome import median
from bench.versus.kafka import HERE, java, kafka_jars

__all__ = ["java_consume", "java_produce", "run", "start"]

_WARM_MESSAGES = 2_000
_VALUES = 64


def _values(size_bytes: int) -> list[bytes]:
    """Values that differ, of printable bytes."""
    return [bytes((i * 7 + j) % 95 + 32 for j in range(size_bytes)) for i in range(_VALUES)]


def _send(producer: Producer, topic: str, values: list[bytes], count: int, failures: list[str]) -> None:
    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(str(error))

    for index in range(count):
        while True:
            try:
                producer.produce(topic, values[index % _VALUES], on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.005)
        if not index % 8192:
            producer.poll(0)
    if producer.flush(300):
        failures.append("messages were left unsent")


def _produce(bootstrap: str, topic: str, count: int, size_bytes: int, **options: str) -> dict[str, float]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 400_000,
        "delivery.report.only.error": True,
        **options,
    }
    producer = Producer(settings)
    failures: list[str] = []
    values = _values(size_bytes)
    _send(producer, topic, values, _WARM_MESSAGES, failures)
    print("MEASURE", flush=True)
    started = time.monotonic()
    _send(producer, topic, values, count, failures)
    seconds = time.monotonic() - started
    if failures:
        raise SystemExit(f"{topic}: {failures[:3]}")
    return {"per_second": count / seconds}


def _consumer(bootstrap: str, **options: Any) -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 0,  # otherwise librdkafka rests for a second when the broker is 64 MiB ahead of it
        **options,
    }
    return Consumer(settings)


def _consume(bootstrap: str, topic: str, count: int) -> dict[str, float]:
    consumer = _consumer(bootstrap, **{"queued.min.messages": 1_000_000, "auto.offset.reset": "earliest"})
    numbers = sorted(consumer.list_topics(topic, timeout=20).topics[topic].partitions)
    print("MEASURE", flush=True)
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    got = first = 0
    began = 0.0
    while got < count:
        messages = consumer.consume(1000, 30)
        if not messages:
            raise SystemExit(f"{topic}: {got} of {count} messages came")
        got += len(messages)
        if not began:
            began, first = time.monotonic(), got
    seconds = time.monotonic() - began
    consumer.close()
    return {"per_second": (got - first) / seconds}


def _pace(bootstrap: str, topic: str, rate: float, seconds: float, size_bytes: int) -> dict[str, float]:
    """A steady rate without batching; how long acknowledgements take."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    producer.list_topics(topic, timeout=20)
    latencies: list[float] = []
    failures: list[str] = []
    padding = b"x" * (size_bytes - 20)
    print("MEASURE", flush=True)
    started = time.monotonic()
    sent = 0
    while sent < rate * seconds:
        early = started + sent / rate - time.monotonic()
        if early > 0:
            producer.poll(early)
            continue
        now_ns = time.monotonic_ns()

        def delivered(error: KafkaError | None, _: Message, sent_ns: int = now_ns) -> None:
            if error is None:
                latencies.append((time.monotonic_ns() - sent_ns) / 1e6)
            else:
                failures.append(str(error))

        producer.produce(topic, b"%020d" % now_ns + padding, on_delivery=delivered)
        producer.poll(0)
        sent += 1
    if producer.flush(60) or failures:
        raise SystemExit(f"{topic}: {failures[:3] or 'messages were left unsent'}")
    settled = sorted(latencies[len(latencies) // 10 :])
    return {"ack_p50_ms": median(settled), "ack_p99_ms": settled[int(len(settled) * 0.99)], "count": sent}


def _tail(bootstrap: str, topic: str, count: int) -> dict[str, float]:
    """How long the messages of ``pace`` are under way."""
    consumer = _consumer(bootstrap, **{"auto.offset.reset": "latest"})
    numbers = sorted(consumer.list_topics(topic, timeout=20).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, -1) for number in numbers])
    consumer.poll(2)
    print("MEASURE", flush=True)
    latencies: list[float] = []
    deadline = time.monotonic() + 120
    while len(latencies) < count and time.monotonic() < deadline:
        message = consumer.poll(3)
        if message is None and latencies:
            break
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            latencies.append((time.monotonic_ns() - int(value[:20])) / 1e6)
    consumer.close()
    return {"e2e_p50_ms": median(latencies[len(latencies) // 10 :]), "count": len(latencies)}


def start(*arguments: object) -> subprocess.Popen[str]:
    """A client in a process of its own that is about to begin: its next line is the result."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.versus.clients", *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=cubic_environment(),
    )
    assert process.stdout is not None
    if process.stdout.readline() != "MEASURE\n":
        raise SystemExit(f"{arguments} failed with exit code {process.wait()}")
    return process


def run(process: subprocess.Popen[str]) -> dict[str, float]:
    """The result of a started client."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if process.wait():
        raise SystemExit(f"{process.args!r} failed with exit code {process.returncode}")
    result: dict[str, float] = json.loads(line)
    return result


_PERF = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")


def java_produce(bootstrap: str, topic: str, count: int, size_bytes: int) -> dict[str, float]:
    """Kafka's producer perf test with the default batch."""
    command = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(count), "--record-size", str(size_bytes), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={bootstrap}", "acks=all", "enable.idempotence=false"),
    )
    said = _java_output(command)
    found = _PERF.findall(said)
    if not found or int(found[-1][0]) != count:
        raise SystemExit(f"ProducerPerformance said:\n{said[-2000:]}")
    return {"per_second": float(found[-1][1])}


def java_consume(bootstrap: str, topic: str, count: int) -> dict[str, float]:
    """A Java consumer of partition 0 that is in no group."""
    said = _java_output(java(str(Path(HERE / "Assign.java")), bootstrap, topic, "1", str(count)))
    result: dict[str, float] = json.loads(said.strip().splitlines()[-1])
    if result["count"] < count:
        raise SystemExit(f"{result['count']} of {count} messages came to the Java consumer")
    return result


def _java_output(command: list[str]) -> str:
    kafka_jars()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=cubic_environment())
    if done.returncode:
        raise SystemExit(f"{command[-8:]} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def main(arguments: list[str]) -> None:
    """One client, by name."""
    name, bootstrap, topic, *rest = arguments
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    numbers = [float(word) if "." in word else int(word) for word in rest if "=" not in word]
    known: dict[str, Callable[..., dict[str, float]]] = {
        "produce": _produce,
        "consume": _consume,
        "pace": _pace,
        "tail": _tail,
    }
    client = known[name]
    print(json.dumps(client(bootstrap, topic, *numbers, **options)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
