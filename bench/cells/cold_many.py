"""Many cold readers: 500 against 8, each somewhere else in an archive of 2 GiB, twice the cache; memory of broker and worker, and rate."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from bench.archives import TIERED, wait_archived
from bench.cell import Cell, Line
from bench.cells.cold_s3 import fill
from bench.cold_reader import ColdRead, Readers, read_cold
from bench.object_server import ObjectServer
from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import BrokerServer
from bench.settings import Settings

__all__ = ["CELL"]

PARTITION_COUNT = 8
PARTITION_BYTES = 256 << 20
SEGMENT_BYTES = 32 << 20
FETCH_BYTES = 256 << 10
FEW, MANY = 8, 500
SECONDS_MIN = 5.0
_SAMPLE_SECONDS = 0.25

_MEMORY = Line("cold-500-memory", "MB of PSS above idle, 500 cold readers", Bound("<=", 150))
_RATE = Line("cold-500-rate", "throughput / that of 8 readers", Bound(">=", 0.7))


@dataclass(frozen=True, slots=True)
class _Run:
    read: ColdRead
    grown_megabytes: float


class _Memory:
    """The largest proportional set size of a broker and its workers while it is watched."""

    def __init__(self, broker: BrokerServer) -> None:
        self.largest = 0.0
        self._broker = broker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            self.largest = max(self.largest, self._broker.pss_megabytes())

    def end(self) -> float:
        """Watch no longer."""
        self._over.set()
        self._thread.join()
        return self.largest


def _run(folder: Path, server: ObjectServer, end: int, count: int, seconds: float) -> _Run:
    with BrokerServer.start(folder / "data", server.settings, bucket="s3://bench") as broker:
        read_cold(Readers(broker.port, "cold", 1, fetch_bytes=FETCH_BYTES))  # the worker is up
        time.sleep(1)
        idle = broker.pss_megabytes()
        memory = _Memory(broker)
        read = read_cold(
            Readers(
                broker.port,
                "cold",
                end,
                count=count,
                partitions=PARTITION_COUNT,
                fetch_bytes=FETCH_BYTES,
                seconds=seconds,
            )
        )
        return _Run(read, memory.end() - idle)


def _measure(settings: Settings) -> list[Outcome]:
    seconds = max(SECONDS_MIN, settings.seconds)
    with settings.folder(settings.memory) as folder, ObjectServer.start(folder / "objects") as server:
        with BrokerServer.start(folder / "data", server.settings, bucket="s3://bench") as broker:
            size_bytes = PARTITION_BYTES + SEGMENT_BYTES
            fill(broker, "cold", size_bytes, partitions=PARTITION_COUNT, segment_bytes=str(SEGMENT_BYTES), **TIERED)
            end = min(wait_archived(broker, "cold", PARTITION_COUNT))

        def run(kind: str, _: int) -> _Run:
            one = _run(folder, server, end, int(kind), seconds)
            read = one.read
            print(
                f"  {kind:>3} readers {read.megabytes_per_second:6.0f} MB/s  {one.grown_megabytes:4.0f} MB more  "
                f"{read.answers} answers, {read.empty} empty, {read.throttled} throttled",
                file=sys.stderr,
                flush=True,
            )
            return one

        runs = interleaved((str(FEW), str(MANY)), settings.repetitions, run)
    few, many = (median(one.read.megabytes_per_second for one in runs[str(count)]) for count in (FEW, MANY))
    return [
        _MEMORY.outcome(max(one.grown_megabytes for one in runs[str(MANY)])),
        _RATE.outcome(many / few, few_megabytes_per_second=few, many_megabytes_per_second=many),
    ]


CELL = Cell("cold-500", (_MEMORY, _RATE), _measure)
