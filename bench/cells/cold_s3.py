"""The archive on a server of S3's protocol: uploads and cold reads against a bare client, the cache against the hot log.

Everything lies in memory, so that software is compared. One GiB in segments of 64 MiB is uploaded and read; before each
cold read the broker is started again with an empty cache.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.archives import TIERED, frozen_not_uploaded, wait_archived
from bench.bare_s3 import BareClient
from bench.cell import Cell, Line
from bench.cold_reader import ColdRead, Readers, read_cold
from bench.load import Load
from bench.object_server import ObjectServer
from bench.outcome import Bound, Outcome, median
from bench.processes import cpu_seconds, cpu_seconds_of_children
from bench.servers import BrokerServer
from bench.settings import Settings

__all__ = ["CELL", "fill"]

SEGMENT_BYTES = 64 << 20
ARCHIVE_BYTES = 1 << 30
BATCH_BYTES = 16 << 10
CHUNK_BYTES = 4 << 20
HELD_MEGABYTES_PER_SECOND = 300.0
HELD_FIRST_BYTE_MS = 20.0
LARGE_SEGMENT_BYTES = 1 << 30
_PUT_REQUESTS, _MULTIPART_REQUESTS, _GIB = 3, 6, 1 << 30

_THROTTLED = Line("cold-s3-throttled", "rate / the server's, 300 MB/s and 20 ms to the first byte", Bound(">=", 0.9))
_LOOPBACK = Line("cold-s3-loopback", "rate / that of ranges read in parallel by boto3", Bound(">=", 0.5))
_CACHE = Line("cold-cache", "rate from the chunk cache / that of a hot read", Bound(">=", 0.9))
_FIRST = Line("cold-first-byte", "ms above 2 x one bare range GET", Bound("<=", 5.0))
_GETS = Line("cold-s3-gets", "GETs per GiB, segments of 64 MiB", Bound("<=", 150))
_GETS_LARGE = Line("cold-s3-gets-1GiB", "GETs per GiB, segments of 1 GiB", Bound("<=", 135))
_UPLOAD = Line("upload-rate", "rate / that of boto3", Bound(">=", 0.9))
_BROKER_CPU = Line("upload-cpu-broker", "s of broker CPU per GiB", Bound("<=", 0.05))
_WORKER_CPU = Line("upload-cpu-worker", "s of worker CPU per GiB", Bound("<=", 1.5))
_REQUESTS = Line("upload-requests", "requests an object of one PUT needs", Bound("<=", 1 + _PUT_REQUESTS))
_REQUESTS_LARGE = Line(
    "upload-requests-1GiB", "requests beside its parts that a multipart object needs", Bound("<=", _MULTIPART_REQUESTS)
)


def fill(broker: BrokerServer, topic: str, size_bytes: int, *, partitions: int = 1, **configs: str) -> int:
    """Make a topic and produce batches of 16 KiB to each partition until it holds at least so much; records of all."""
    broker.create_topic(topic, partitions, **configs)
    _produce(broker, topic, size_bytes, partitions)
    return broker.record_count(topic, partitions)


def _produce(broker: BrokerServer, topic: str, size_bytes: int, partitions: int = 1) -> None:
    wanted = size_bytes * partitions // BATCH_BYTES
    load = Load(
        "produce",
        BATCH_BYTES,
        connections=max(4, partitions),
        depth=16,
        partitions=partitions,
        acks=1,
        seconds=600,
        warm_seconds=0.01,
        requests_max=wanted,
    )
    load.run(broker, topic)


@dataclass
class _Stage:
    """One server, and the brokers that come and go before it."""

    settings: Settings
    folder: Path
    server: ObjectServer
    bare: BareClient
    end: int = 0
    figures: dict[str, list[float]] = field(default_factory=dict)

    def broker(self, *, empty: bool = True) -> BrokerServer:
        """Start the broker; its cache holds what it held before, unless it is to be ``empty``."""
        if empty:
            shutil.rmtree(self.folder / "data-cache", ignore_errors=True)
        own = {
            "stratalog.cache.bytes.max": str(3 << 30),
            "remote.log.manager.copy.max.bytes.per.second": str(2**63 - 1),
        }
        return BrokerServer.start(self.folder / "data", {**own, **self.server.settings}, bucket="s3://bench")

    def note(self, name: str, figure: float) -> None:
        """One measurement of several."""
        self.figures.setdefault(name, []).append(figure)
        print(f"  {name:24} {figure:,.4g}", file=sys.stderr, flush=True)

    def segments(self) -> list[tuple[str, int]]:
        """The archived objects of the topic, with their sizes."""
        return [one for one in self.bare.objects("topics/cold") if one[0].endswith(".seg")]

    def middle(self, name: str) -> float:
        """The median of what was measured."""
        return median(self.figures[name])


def _upload(stage: _Stage) -> None:
    """Everything is produced first, and goes up at once when the topic may be copied; the store was tried out before."""
    with stage.broker() as broker:
        fill(broker, "first", 3 << 20, segment_bytes=str(1 << 20), **TIERED)
        wait_archived(broker, "first", 1)
        fill(broker, "hot", ARCHIVE_BYTES + SEGMENT_BYTES, segment_bytes=str(SEGMENT_BYTES))
        paused = {**TIERED, "local_retention_bytes": "-2", "remote_log_copy_disable": "true"}
        fill(broker, "cold", ARCHIVE_BYTES + SEGMENT_BYTES, segment_bytes=str(SEGMENT_BYTES), **paused)
        time.sleep(1)
        frozen = frozen_not_uploaded(broker.data, "cold", [0])[0]
        before = *_costs(broker), stage.server.counts()["requests"]
        started = time.monotonic()
        broker.alter_topic("cold", remote_log_copy_disable="false")
        while len(stage.segments()) < frozen:  # asked of the server, so that the broker is not busy with it
            time.sleep(0.02)
        seconds = time.monotonic() - started
        after = *_costs(broker), stage.server.counts()["requests"]
        broker.alter_topic("cold", local_retention_bytes="1")
        stage.end = wait_archived(broker, "cold", 1)[0]
    size_bytes = sum(size for _, size in stage.segments())
    stage.note("upload MB/s", size_bytes / seconds / 1e6)
    for name, one, other in zip(("broker CPU s/GiB", "worker CPU s/GiB", "requests"), before, after, strict=True):
        stage.note(name, (other - one) / (frozen if name == "requests" else size_bytes / _GIB))
    stage.note("bare upload MB/s", size_bytes / stage.bare.upload(size_bytes, SEGMENT_BYTES) / 1e6)


def _costs(broker: BrokerServer) -> tuple[float, float]:
    return cpu_seconds(broker.pid), cpu_seconds_of_children(broker.pid)


def _read(broker: BrokerServer, topic: str, end: int) -> ColdRead:
    return read_cold(Readers(broker.port, topic, end))


def _cold(stage: _Stage, name: str) -> ColdRead:
    with stage.broker() as broker:
        read_cold(Readers(broker.port, "cold", 1, fetch_bytes=BATCH_BYTES))  # the worker is up, the manifest known
        before = _costs(broker)
        read = _read(broker, "cold", stage.end)
        gets = broker.metric("stratalog_tier_gets_total")
        cpu = [after - earlier for after, earlier in zip(_costs(broker), before, strict=True)]
    stage.note(f"{name} MB/s", read.megabytes_per_second)
    stage.note(f"{name} GETs/GiB", gets / read.bytes * _GIB)
    stage.note(f"{name} broker CPU s", cpu[0])
    stage.note(f"{name} worker CPU s", cpu[1])
    return read


def _throttled(stage: _Stage) -> None:
    stage.server.hold(HELD_MEGABYTES_PER_SECOND, HELD_FIRST_BYTE_MS)
    _cold(stage, "throttled")
    stage.server.hold()


def _loopback(stage: _Stage) -> None:
    objects = stage.segments()
    stage.note("bare MB/s", sum(size for _, size in objects) / stage.bare.read_all(objects) / 1e6)
    _cold(stage, "loopback")


def _cached(stage: _Stage) -> None:
    with stage.broker() as broker:
        _read(broker, "cold", stage.end)
        _read(broker, "hot", stage.end)
        stage.note("cache MB/s", _read(broker, "cold", stage.end).megabytes_per_second)
        stage.note("hot MB/s", _read(broker, "hot", stage.end).megabytes_per_second)


def _first_byte(stage: _Stage) -> None:
    """A reader that begins in an object not yet read; the manifest is known, because others read."""
    stage.server.hold(first_byte_ms=HELD_FIRST_BYTE_MS)
    stage.note("bare range ms", stage.bare.first_byte_ms(*stage.segments()[0], CHUNK_BYTES))
    with stage.broker() as broker:
        read_cold(Readers(broker.port, "cold", 1, fetch_bytes=BATCH_BYTES))
        for part in range(1, 9):
            begin = stage.end * part // 9
            read = read_cold(Readers(broker.port, "cold", begin + 1, begin=begin, fetch_bytes=BATCH_BYTES))
            stage.note("first byte ms", read.first_ms)
    stage.server.hold()


def _large(stage: _Stage) -> None:
    """Two objects of a GiB, written in parts; requests are those of the second, without trying the store and the claim."""
    with stage.broker() as broker:
        size_bytes = LARGE_SEGMENT_BYTES + LARGE_SEGMENT_BYTES // 16
        fill(broker, "large", size_bytes, segment_bytes=str(LARGE_SEGMENT_BYTES), **TIERED)
        wait_archived(broker, "large", 1)
        before = stage.server.counts()
        _produce(broker, "large", size_bytes)
        end = wait_archived(broker, "large", 1)[0]
        requests = stage.server.counts()
        gets = broker.metric("stratalog_tier_gets_total")
        read = _read(broker, "large", end)
        gets = broker.metric("stratalog_tier_gets_total") - gets
    beside = [counts["requests"] - counts["parts"] for counts in (before, requests)]
    stage.note("large requests", beside[1] - beside[0])
    stage.note("large GETs/GiB", gets / read.bytes * _GIB)


def _measure(settings: Settings) -> list[Outcome]:
    steps: tuple[Callable[[_Stage], None], ...] = (_throttled, _loopback, _cached)
    with settings.folder(settings.memory) as folder, ObjectServer.start(folder / "objects") as server:
        stage = _Stage(settings, folder, server, BareClient.of(server))
        _upload(stage)
        for _ in range(settings.repetitions):
            for step in steps:
                step(stage)
        _first_byte(stage)
        _large(stage)
    return _judge(stage)


def _judge(stage: _Stage) -> list[Outcome]:
    middle = stage.middle
    details: dict[str, float | str] = {name: middle(name) for name in stage.figures}
    return [
        _THROTTLED.outcome(middle("throttled MB/s") / HELD_MEGABYTES_PER_SECOND, **details),
        _LOOPBACK.outcome(middle("loopback MB/s") / middle("bare MB/s")),
        _CACHE.outcome(middle("cache MB/s") / middle("hot MB/s")),
        _FIRST.outcome(middle("first byte ms") - 2 * middle("bare range ms")),
        _GETS.outcome(middle("loopback GETs/GiB")),
        _GETS_LARGE.outcome(middle("large GETs/GiB")),
        _UPLOAD.outcome(middle("upload MB/s") / middle("bare upload MB/s")),
        _BROKER_CPU.outcome(middle("broker CPU s/GiB")),
        _WORKER_CPU.outcome(middle("worker CPU s/GiB")),
        _REQUESTS.outcome(middle("requests")),
        _REQUESTS_LARGE.outcome(middle("large requests")),
    ]


CELL = Cell(
    "cold-s3",
    (
        _THROTTLED,
        _LOOPBACK,
        _CACHE,
        _FIRST,
        _GETS,
        _GETS_LARGE,
        _UPLOAD,
        _BROKER_CPU,
        _WORKER_CPU,
        _REQUESTS,
        _REQUESTS_LARGE,
    ),
    _measure,
)
