"""The tier beside Kafka's: cold reads of a GiB in segments of 64 MiB, a folder as the store on either side.

Kafka's is its ``LocalTieredStorage``, the reference plug-in of its own tests: a copy on the same disk, faster than any store
behind a network. The records that the broker reads have left its local disk, and were not read before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.outcome import Bound, Outcome, interleaved
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.versus import clients
from bench.versus.arena import KAFKA, OURS, Figures, Target, judge, tell
from bench.versus.kafka import KafkaServer

__all__ = ["tier"]

SEGMENT_BYTES = 64 << 20
VALUE_BYTES = 1024
MESSAGE_COUNT = (1 << 30) // VALUE_BYTES
COLD_COUNT = MESSAGE_COUNT - 2 * SEGMENT_BYTES // VALUE_BYTES
"""Those messages that are in no local segment for sure."""
PACE = (1000.0, 4.0, 100)
"""Messages a second, seconds, bytes."""
P99_FACTOR = 1.6
_WAIT_SECONDS = 180
_GIB = 1 << 30

_TARGETS = (
    Target("tier cold read: MB/s", "cold_mb_s", Bound(">=", 2.0)),
    Target("tier cold read: CPU s/GiB", "cold_cpu_s", Bound("<=", 0.3)),
    Target(
        "tier: ack p99 during a cold read, ms above 1.6 x idle",
        "p99_above_ms",
        Bound("<=", 2.0),
        unit="ms",
        absolute=True,
    ),
)
_TIERED = {
    "remote_storage_enable": "true",
    "segment_bytes": str(SEGMENT_BYTES),
    "local_retention_bytes": "1",
    "retention_ms": "-1",
}


def _kafka_settings(folder: Path) -> dict[str, str]:
    """A folder as the remote tier, and looks at it that are as frequent as ours."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rsm.config.dir": str(folder),
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    }


def _start(kind: str, folder: Path) -> BrokerServer:
    if kind == OURS:
        return BrokerServer.start(folder / "tier-stratalog", {**KAFKA_FLUSH, "log.segment.delete.delay.ms": "200"})
    remote = folder / "tier-remote"
    remote.mkdir()
    return KafkaServer.start(folder / "tier-kafka", _kafka_settings(remote))


def _wait_until_cold(server: BrokerServer, topic: str) -> None:
    """Until the folder of the partition holds little more than its active segment."""
    deadline = time.monotonic() + _WAIT_SECONDS
    folder = server.data / f"{topic}-0"
    while sum(path.stat().st_size for path in folder.glob("*.log")) > SEGMENT_BYTES * 1.1:
        if time.monotonic() > deadline:
            raise SystemExit(f"{topic} was not evicted within {_WAIT_SECONDS} s")
        time.sleep(0.1)
    time.sleep(1)


def _consume(server: BrokerServer, topic: str) -> float:
    bootstrap = f"127.0.0.1:{server.port}"
    return clients.run(clients.start("consume", bootstrap, topic, COLD_COUNT))["per_second"]


def _pace(server: BrokerServer) -> float:
    return clients.run(clients.start("pace", f"127.0.0.1:{server.port}", "plain", *PACE))["ack_p99_ms"]


@contextmanager
def _reading(server: BrokerServer, topic: str) -> Iterator[None]:
    """One consumer after the other, until it is left."""
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            _consume(server, topic)

    thread = threading.Thread(target=read)
    thread.start()
    time.sleep(1)
    try:
        yield
    finally:
        over.set()
        thread.join()


def tier(folder: Path, repetitions: int) -> list[Outcome]:
    """Cold reads: rate, CPU, and what producers feel of them."""
    servers: Mapping[str, BrokerServer] = {kind: _start(kind, folder) for kind in (OURS, KAFKA)}

    def run(kind: str, repetition: int) -> Figures:
        server, topic = servers[kind], f"tier-{repetition:02}"
        server.create_topic(topic, 1, **_TIERED)
        clients.run(clients.start("produce", f"127.0.0.1:{server.port}", topic, MESSAGE_COUNT, VALUE_BYTES))
        _wait_until_cold(server, topic)
        before = server.cpu_seconds()
        rate = _consume(server, topic) * VALUE_BYTES
        cpu = (server.cpu_seconds() - before) / (COLD_COUNT * VALUE_BYTES) * _GIB
        idle = _pace(server)
        with _reading(server, topic):
            during = _pace(server)
        figures = {
            "cold_mb_s": rate / 1e6,
            "cold_cpu_s": cpu,
            "idle_p99_ms": idle,
            "during_p99_ms": during,
            "p99_above_ms": during - P99_FACTOR * idle,
        }
        tell("tier", kind, repetition, figures)
        server.delete_topic(topic)
        return figures

    try:
        for server in servers.values():
            server.create_topic("plain")
        results = interleaved((OURS, KAFKA), repetitions + 1, run)
    finally:
        for server in servers.values():
            server.stop()
    return judge(_TARGETS, results[OURS][1:], results[KAFKA][1:])
