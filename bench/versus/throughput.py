"""Throughput of librdkafka, the Java clients and raw requests with either broker, and their cost for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from bench.load import Load
from bench.outcome import Bound, Outcome
from bench.servers import BrokerServer
from bench.versus import clients
from bench.versus.arena import Arena, Figures, Target

__all__ = ["CELLS"]

_MIB = 1 << 20
_COUNTS = {100: 2_000_000, 1024: 500_000}

Measure = Callable[[Arena, float], list[Outcome]]


def _bootstrap(server: BrokerServer) -> str:
    return f"127.0.0.1:{server.port}"


def _measured(server: BrokerServer, count: int, *arguments: object) -> Figures:
    """A client in its own process, and what the broker spent for each of its messages meanwhile."""
    process = clients.start(arguments[0], _bootstrap(server), *arguments[1:])
    before = server.cpu_seconds()
    figures = clients.run(process)
    return {**figures, "cpu_us": (server.cpu_seconds() - before) / count * 1e6}


def _both(name: str, rate: float, cpu: float) -> tuple[Target, Target]:
    return (
        Target(f"{name}: messages/s", "per_second", Bound(">=", rate)),
        Target(f"{name}: CPU", "cpu_us", Bound("<=", cpu)),
    )


def _librdkafka_produce(size_bytes: int, cpu: float, arena: Arena, _: float) -> list[Outcome]:
    name = f"librdkafka-produce-{size_bytes}B"
    count = _COUNTS[size_bytes]
    return arena.compare(
        name,
        _both(name, 1.0, cpu),
        lambda server, topic: _measured(server, count, "produce", topic, count, size_bytes),
    )


def _filled(server: BrokerServer, topic: str, count: int, size_bytes: int) -> None:
    clients.run(clients.start("produce", _bootstrap(server), topic, count, size_bytes))


def _librdkafka_consume(size_bytes: int, arena: Arena, _: float) -> list[Outcome]:
    name = f"librdkafka-consume-{size_bytes}B"
    count = _COUNTS[size_bytes]

    def load(server: BrokerServer, topic: str) -> Figures:
        _filled(server, topic, count, size_bytes)
        return _measured(server, count, "consume", topic, count)

    return arena.compare(name, _both(name, 1.0, 0.3), load)


def _java(size_bytes: int, arena: Arena, _: float) -> list[Outcome]:
    produced, consumed = f"java-produce-{size_bytes}B", f"java-consume-{size_bytes}B"
    count = _COUNTS[size_bytes]

    def load(server: BrokerServer, topic: str) -> Figures:
        out = clients.java_produce(_bootstrap(server), topic, count, size_bytes)
        before = server.cpu_seconds()
        into = clients.java_consume(_bootstrap(server), topic, count)
        cpu_us = (server.cpu_seconds() - before) / count * 1e6
        return {"produced": out["per_second"], "per_second": into["per_second"], "cpu_us": cpu_us}

    targets = (
        Target(f"{produced}: messages/s", "produced", Bound(">=", 1.2)),
        *_both(consumed, 1.0, 0.3),
    )
    return arena.compare(f"java-{size_bytes}B", targets, load)


def _raw(name: str, load: Load, floor: float, arena: Arena, seconds: float) -> list[Outcome]:
    timed = Load(**{**{slot: getattr(load, slot) for slot in Load.__slots__}, "seconds": seconds})

    def run(server: BrokerServer, topic: str) -> Figures:
        if timed.mode == "fetch":
            fill = Load("produce", timed.batch_bytes, depth=2, seconds=60, warm_seconds=0, requests_max=timed.batches)
            fill.run(server, topic)
        result = timed.run(server, topic)
        return {"per_second": result.requests_per_second, "cpu_us": result.cpu_us_per_request, "p50_us": result.p50_us}

    return arena.compare(name, [Target(f"{name}: requests/s", "per_second", Bound(">=", floor))], run)


def _end_to_end(arena: Arena, _: float) -> list[Outcome]:
    name, rate, seconds = "end-to-end", 1000, 5.0

    def load(server: BrokerServer, topic: str) -> Figures:
        count = int(rate * seconds)
        tail = clients.start("tail", _bootstrap(server), topic, count)
        paced = _measured(server, count, "pace", topic, float(rate), seconds, 100)
        return {**paced, **clients.run(tail)}

    targets = (
        Target(f"{name}: p50", "e2e_p50_ms", Bound("<=", 0.75)),
        Target(f"{name}: CPU", "cpu_us", Bound("<=", 0.5)),
    )
    return arena.compare(name, targets, load)


def _spread(partitions: int, arena: Arena, _: float) -> list[Outcome]:
    """Every message to a partition drawn by chance: the sticky partitioner would hide the many partitions."""
    name, count = f"spread-{partitions}", 300_000
    option = "sticky.partitioning.linger.ms=0"

    def load(server: BrokerServer, topic: str) -> Figures:
        clients.run(clients.start("produce", _bootstrap(server), topic, 50_000, 100, option))
        figures = _measured(server, count, "produce", topic, count, 100, option)
        time.sleep(1)  # the files of the deleted topic go before the next run
        return figures

    targets = [Target(f"{name}: messages/s", "per_second", Bound(">=", 1.1))]
    return arena.compare(name, targets, load, partitions=partitions)


_RAW_200B = Load("produce", 200, connections=50, acks=-1)
_RAW_200B_DEEP = Load("produce", 200, connections=50, depth=5, acks=-1)
_RAW_16KIB = Load("produce", 16 << 10, connections=4, depth=5, acks=-1)
_RAW_FETCH = Load("fetch", _MIB, connections=1)

CELLS: dict[str, Measure] = {
    "librdkafka-produce-100B": partial(_librdkafka_produce, 100, 0.35),
    "librdkafka-produce-1024B": partial(_librdkafka_produce, 1024, 0.5),
    "librdkafka-consume-100B": partial(_librdkafka_consume, 100),
    "librdkafka-consume-1024B": partial(_librdkafka_consume, 1024),
    "java-100B": partial(_java, 100),
    "java-1024B": partial(_java, 1024),
    "raw-produce-200B": partial(_raw, "raw-produce-200B", _RAW_200B, 1.1),
    "raw-produce-200B-x5": partial(_raw, "raw-produce-200B-x5", _RAW_200B_DEEP, 2.0),
    "raw-produce-16KiB-x5": partial(_raw, "raw-produce-16KiB-x5", _RAW_16KIB, 2.5),
    "raw-fetch-1MiB": partial(_raw, "raw-fetch-1MiB", _RAW_FETCH, 1.6),
    "end-to-end": _end_to_end,
    "spread-1000": partial(_spread, 1000),
    "spread-5000": partial(_spread, 5000),
}
