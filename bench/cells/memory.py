"""Memory of the broker and its workers: proportional set size, sampled while requests are served; the largest counts."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from bench.cell import Cell, Line
from bench.cells.startup import batch_of, fill_partitions
from bench.load import Load, LoadResult
from bench.outcome import Bound, Outcome
from bench.servers import BrokerServer
from bench.settings import Settings
from stratalog.client.records import produce_batches
from stratalog.wire.topic import TopicPartition

__all__ = ["CELL", "largest_while"]

PARTITION_COUNT = 1000
VOLUME_BYTES = 10 << 30
BATCH_BYTES = 1 << 20
VOLUME_PARTITIONS = 4
SEGMENT_BYTES = 64 << 20
RETENTION_BYTES = 256 << 20
SAMPLE_SECONDS = 0.5

_IDLE = Line("memory-idle", "MB of PSS, one small producer", Bound("<=", 120))
_PARTITIONS = Line("memory-1000-partitions", "MB of PSS, all written to", Bound("<=", 250))
_VOLUME = Line("memory-10-GiB", "MB of PSS, largest during and after 10 GiB with uploads", Bound("<=", 300))


def largest_while(broker: BrokerServer, work: Callable[[], None]) -> float:
    """The largest PSS in 10**6 bytes seen while ``work`` runs in a thread. Raises what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    largest = 0.0
    while thread.is_alive():
        thread.join(SAMPLE_SECONDS)
        with suppress(FileNotFoundError, ProcessLookupError):  # a worker ended while we looked
            largest = max(largest, broker.pss_megabytes())
    if raised:
        raise raised[0]
    return largest


def _small_load(broker: BrokerServer, seconds: float) -> None:
    broker.create_topic("small")
    Load("produce", 1024, seconds=seconds, requests_per_second=1000, acks=-1).run(broker, "small")


def _all_partitions(broker: BrokerServer, seconds: float) -> None:
    batches = dict.fromkeys((TopicPartition("many", number) for number in range(PARTITION_COUNT)), batch_of(1))
    deadline = time.monotonic() + seconds
    with broker.client() as client:
        while time.monotonic() < deadline:
            refused = [one for one in produce_batches(client, batches, acks=-1).values() if one.error_code]
            if refused:
                raise SystemExit(f"refused: {refused[0]}")


def _volume(settings: Settings) -> tuple[float, LoadResult]:
    results: list[LoadResult] = []
    load = Load(
        "produce",
        BATCH_BYTES,
        connections=VOLUME_PARTITIONS,
        depth=2,
        partitions=VOLUME_PARTITIONS,
        acks=-1,
        seconds=300,
        warm_seconds=0,
        requests_max=VOLUME_BYTES // BATCH_BYTES,
    )
    often = {"log.retention.check.interval.ms": "500", "log.segment.delete.delay.ms": "100"}
    with settings.folder(settings.memory) as folder, BrokerServer.start(folder / "data", often) as broker:
        broker.create_topic(
            "large",
            VOLUME_PARTITIONS,
            remote_storage_enable="true",
            segment_bytes=str(SEGMENT_BYTES),
            local_retention_bytes=str(SEGMENT_BYTES),
            retention_bytes=str(RETENTION_BYTES),
        )
        largest = largest_while(broker, lambda: results.append(load.run(broker, "large")))
        return max(largest, largest_while(broker, lambda: time.sleep(2))), results[0]


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder, BrokerServer.start(folder / "data") as broker:
        idle = largest_while(broker, lambda: _small_load(broker, settings.seconds))
        fill_partitions(broker, "many", PARTITION_COUNT)
        partitions = largest_while(broker, lambda: _all_partitions(broker, settings.seconds))
    largest, result = _volume(settings)
    print(
        f"  idle {idle:.0f}, {PARTITION_COUNT} partitions {partitions:.0f}, 10 GiB {largest:.0f} MB"
        f" ({result.megabytes_per_second:.0f} MB/s)",
        file=sys.stderr,
        flush=True,
    )
    return [
        _IDLE.outcome(idle),
        _PARTITIONS.outcome(partitions),
        _VOLUME.outcome(largest, megabytes_per_second=result.megabytes_per_second),
    ]


CELL = Cell("memory", (_IDLE, _PARTITIONS, _VOLUME), _measure)
