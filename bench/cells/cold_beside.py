"""Whether hot traffic feels cold readers: 50 MB/s into a tiered topic and out of it again, beside 8 readers of the archive.

The same load runs without them, into a topic that is not tiered, in turns. Latency counts from when a request was due.
The cold readers' own processes and the bucket's would not share the broker's cores: they get what the others leave.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bench.archives import TIERED, wait_archived
from bench.build import cubic_environment
from bench.cell import Cell, Line
from bench.cells.cold_s3 import fill
from bench.cold_reader import Readers
from bench.load import Load, LoadResult
from bench.object_server import ObjectServer
from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import LOG_END, BrokerServer
from bench.settings import Settings

__all__ = ["CELL"]

PARTITION_COUNT = 6
BATCH_BYTES = 16 << 10
BYTES_PER_SECOND = 50e6
SEGMENT_BYTES = 16 << 20
ARCHIVE_BYTES = 128 << 20
READERS = 8
HOT_BATCHES = 256
P99_FACTOR = 1.6
_ELSEWHERE = ("nice", "-n", "19")

_LOAD = Load(
    "produce",
    BATCH_BYTES,
    connections=PARTITION_COUNT,
    depth=64,
    partitions=PARTITION_COUNT,
    acks=-1,
    warm_seconds=2,
    requests_per_second=BYTES_PER_SECOND / BATCH_BYTES,
)

_LINES = {
    "produce": (
        Line("cold-beside-ack-p50", "ack p50 / that without cold readers and uploads", Bound("<=", 1.25)),
        Line("cold-beside-ack-p99", f"ms that ack p99 is above {P99_FACTOR} x that without", Bound("<=", 2.0)),
    ),
    "fetch": (
        Line("cold-beside-fetch-p50", "hot fetch p50 / that without cold readers and uploads", Bound("<=", 1.25)),
        Line("cold-beside-fetch-p99", f"ms that hot fetch p99 is above {P99_FACTOR} x that without", Bound("<=", 2.0)),
    ),
}


@dataclass(frozen=True, slots=True)
class _Run:
    produce: LoadResult
    fetch: LoadResult


@contextmanager
def _reading(broker: BrokerServer, end: int) -> Iterator[None]:
    """Eight readers of the archive, who go on until it is left."""
    readers = Readers(broker.port, "cold", end, count=READERS, partitions=READERS, seconds=3600)
    with subprocess.Popen(
        [*_ELSEWHERE, *readers.command()], stdout=subprocess.PIPE, text=True, env=cubic_environment()
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "READING\n":
                raise SystemExit("the cold readers did not begin")
            yield
        finally:
            process.kill()


def _load(broker: BrokerServer, topic: str, seconds: float) -> _Run:
    """Both loads at once; the hot fetches read a topic that is not tiered and stays in memory."""
    produce = replace(_LOAD, seconds=seconds)
    fetch = replace(_LOAD, mode="fetch", seconds=seconds, batches=HOT_BATCHES, depth=8)
    with subprocess.Popen(
        fetch.command(broker.port, "hot"), stdout=subprocess.PIPE, text=True, env=cubic_environment()
    ) as process:
        produced = produce.run(broker, topic)
        output, _ = process.communicate(timeout=seconds + 60)
    if process.returncode:
        raise SystemExit(f"the hot fetches failed with exit code {process.returncode}")
    return _Run(produced, LoadResult.parse(output.splitlines()[-1], server_cpu_seconds=0.0))


def _measure(settings: Settings) -> list[Outcome]:
    with (
        settings.folder(settings.disk) as folder,
        settings.folder(settings.memory) as elsewhere,  # a bucket is not on the broker's disk
        ObjectServer.start(elsewhere, _ELSEWHERE) as server,
        BrokerServer.start(
            folder / "data", {"log.segment.delete.delay.ms": "500", **server.settings}, bucket="s3://bench"
        ) as broker,
    ):
        fill(broker, "cold", ARCHIVE_BYTES, partitions=READERS, segment_bytes=str(SEGMENT_BYTES), **TIERED)
        end = min(wait_archived(broker, "cold", READERS))
        broker.create_topic("hot", PARTITION_COUNT)
        # Partitions do not fill evenly: each gets some four times what is read of it.
        most = 4 * HOT_BATCHES * PARTITION_COUNT
        filled = replace(_LOAD, requests_per_second=0, seconds=600, requests_max=most, depth=4).run(broker, "hot")
        if min(broker.offsets("hot", PARTITION_COUNT, LOG_END)) < HOT_BATCHES * filled.batch_records:
            raise SystemExit("the hot topic did not fill evenly")

        def run(kind: str, repetition: int) -> _Run:
            topic = f"bench-{kind}-{repetition}"
            tiered = TIERED if kind == "cold" else {}
            broker.create_topic(topic, PARTITION_COUNT, segment_bytes=str(SEGMENT_BYTES), **tiered)
            if kind == "cold":
                with _reading(broker, end):
                    one = _load(broker, topic, settings.paced_seconds)
            else:
                one = _load(broker, topic, settings.paced_seconds)
            broker.delete_topic(topic)
            time.sleep(2)
            _tell(kind, one)
            return one

        runs = interleaved(("plain", "cold"), settings.paced_repetitions, run)
    return _judge(runs["plain"], runs["cold"])


def _tell(kind: str, one: _Run) -> None:
    for name, load in (("produce", one.produce), ("fetch", one.fetch)):
        print(
            f"  {kind:6} {name:8} {load.megabytes_per_second:5.1f} MB/s  p50 {load.p50_us / 1000:.2f}  "
            f"p99 {load.p99_us / 1000:.2f}  max {load.max_us / 1000:.1f} ms",
            file=sys.stderr,
            flush=True,
        )


def _judge(plain: list[_Run], cold: list[_Run]) -> list[Outcome]:
    outcomes = []
    for name, (p50, p99) in _LINES.items():
        without: list[LoadResult] = [getattr(one, name) for one in plain]
        beside: list[LoadResult] = [getattr(one, name) for one in cold]
        if (rate := min(one.megabytes_per_second for one in (*without, *beside))) < BYTES_PER_SECOND / 1e6 * 0.95:
            outcomes += [line.not_measured(f"the rate was not kept: {rate:.1f} MB/s") for line in (p50, p99)]
            continue
        with_us, without_us = median(one.p50_us for one in beside), median(one.p50_us for one in without)
        outcomes.append(p50.outcome(with_us / without_us, with_us=with_us, without_us=without_us))
        with_us, without_us = median(one.p99_us for one in beside), median(one.p99_us for one in without)
        outcomes.append(p99.outcome((with_us - P99_FACTOR * without_us) / 1000, with_us=with_us, without_us=without_us))
    return outcomes


CELL = Cell("cold-beside", (*_LINES["produce"], *_LINES["fetch"]), _measure)
