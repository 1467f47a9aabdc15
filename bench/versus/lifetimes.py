"""Starts, restarts, memory and durable acknowledgements: each run has brokers of its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from bench.cells.startup import batch_of
from bench.outcome import Bound, Outcome, interleaved
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.versus import clients
from bench.versus.arena import KAFKA, OURS, Figures, Target, judge, tell
from bench.versus.kafka import KafkaServer
from bench.versus.tier import tier
from stratalog.client.client import Client
from stratalog.client.link import check
from stratalog.client.records import produce_batches
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["CELLS"]

_KINDS: Mapping[str, type[BrokerServer]] = {OURS: BrokerServer, KAFKA: KafkaServer}
_SETTINGS: Mapping[str, Mapping[str, str]] = {OURS: KAFKA_FLUSH, KAFKA: {}}
_SETTLE_SECONDS = 3
_PARTITIONS = 5_000
_FILLED_BYTES = 2_300_000_000
_DURABLE_MESSAGES = 300_000
_START_SECONDS = 60
_STARTING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})

Measure = Callable[[Path, int], list[Outcome]]


def _bootstrap(server: BrokerServer) -> str:
    return f"127.0.0.1:{server.port}"


def start_and_memory(folder: Path, repetitions: int) -> list[Outcome]:
    """From the start of a new broker to its first answer; its memory idle and after a load."""

    def run(kind: str, repetition: int) -> Figures:
        with _KINDS[kind].start(folder / f"up-{kind}-{repetition}", _SETTINGS[kind]) as server:
            time.sleep(_SETTLE_SECONDS)
            idle = server.pss_megabytes()
            server.create_topic("load", 6)
            clients.run(clients.start("produce", _bootstrap(server), "load", 2_000_000, 100))
            clients.run(clients.start("consume", _bootstrap(server), "load", 2_000_000))
            figures = {"ready": server.ready_seconds, "idle_mb": idle, "loaded_mb": server.pss_megabytes()}
        tell("start", kind, repetition, figures)
        return figures

    results = interleaved((OURS, KAFKA), repetitions, run)
    targets = (
        Target("start to ready", "ready", Bound("<=", 0.3)),
        Target("memory idle", "idle_mb", Bound("<=", 0.3)),
        Target("memory after load", "loaded_mb", Bound("<=", 0.25)),
    )
    return judge(targets, results[OURS], results[KAFKA])


def durable(folder: Path, repetitions: int) -> list[Outcome]:
    """Acknowledged when on disk: ours against Kafka told to flush each message, and against Kafka's default."""
    kinds = {
        "stratalog": (BrokerServer, "1"),
        "kafka": (KafkaServer, "1"),
        "kafka-default": (KafkaServer, "9223372036854775807"),
    }
    servers = {
        OURS: BrokerServer.start(folder / "durable-stratalog"),
        KAFKA: KafkaServer.start(folder / "durable-kafka"),
    }

    def run(kind: str, repetition: int) -> Figures:
        server = servers[OURS if kind == "stratalog" else KAFKA]
        topic = f"{kind}-{repetition}"
        server.create_topic(topic, 1, flush_messages=kinds[kind][1])
        figures = clients.run(clients.start("produce", _bootstrap(server), topic, _DURABLE_MESSAGES, 1024))
        figures |= clients.run(clients.start("pace", _bootstrap(server), topic, 200.0, 4.0, 1024))
        server.delete_topic(topic)
        tell("durable", kind, repetition, figures)
        return figures

    try:
        results = interleaved(tuple(kinds), repetitions + 1, run)
    finally:
        for server in servers.values():
            server.stop()
    ours, flushed, default = (results[kind][1:] for kind in kinds)
    synced = Target("durable acks / Kafka flushing: messages/s", "per_second", Bound(">=", 2.4))
    unsynced = Target("durable acks / Kafka's default: messages/s", "per_second", Bound(">=", 0.6))
    latency = Target("durable ack p50 at 200/s", "ack_p50_ms", Bound("<=", 5.0), unit="ms", absolute=True)
    return [*judge([synced, latency], ours, flushed), *judge([unsynced], ours, default)]


def _append(client: Client, numbers: Iterable[int], batch: bytearray) -> None:
    """Append a batch to each partition, acks=all; asked again while the broker does not know or lead all of them yet.

    A broker may answer before it has read its metadata, or before what the controller created has reached it. Raises
    `KafkaError` for any other refusal, or after a minute.
    """
    waiting = [TopicPartition("many", number) for number in numbers]
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            answers = produce_batches(client, dict.fromkeys(waiting, batch), acks=-1)
            waiting = [one for one in waiting if answers[one].error_code]
            for one in waiting:
                check(answers[one].error_code, f"{one} refused a batch")
            return
        except KafkaError as error:
            if error.code not in _STARTING or time.monotonic() > deadline:
                raise
        time.sleep(0.02)
        client.topics.clear()


def _restarted(kind: str, data: Path) -> float:
    """Seconds from the start of the process until each partition has acknowledged a write."""
    started = time.monotonic()
    with _KINDS[kind].start(data, _SETTINGS[kind]) as server, server.client() as client:
        _append(client, range(_PARTITIONS), batch_of(1))
        return time.monotonic() - started


def _fill(kind: str, data: Path) -> None:
    batch = batch_of(_FILLED_BYTES // _PARTITIONS // 1000 // 4)
    with _KINDS[kind].start(data, _SETTINGS[kind]) as server:
        server.create_topic("many", _PARTITIONS)
        with server.client() as client:
            for _ in range(4):
                for first in range(0, _PARTITIONS, 500):
                    _append(client, range(first, min(first + 500, _PARTITIONS)), batch)


def restart(folder: Path, _: int) -> list[Outcome]:
    """5,000 partitions with 2.3 GB: after a stop in order, and after kill -9."""
    figures: dict[str, Figures] = {}
    for kind, server_class in _KINDS.items():
        data = folder / f"many-{kind}"
        _fill(kind, data)
        clean = _restarted(kind, data)
        server = server_class.start(data, _SETTINGS[kind])
        with server.client() as client:
            _append(client, range(_PARTITIONS), batch_of(1))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        figures[kind] = {"clean": clean, "killed": _restarted(kind, data)}
        tell("restart", kind, 0, figures[kind])
    targets = (
        Target("restart of 5,000 partitions, clean", "clean", Bound("<=", 0.3)),
        Target("restart of 5,000 partitions, after kill -9", "killed", Bound("<=", 0.15)),
    )
    return judge(targets, [figures[OURS]], [figures[KAFKA]])


CELLS: dict[str, Measure] = {"start": start_and_memory, "durable": durable, "restart": restart, "tier": tier}
