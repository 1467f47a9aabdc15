"""Produce and fetch against the C program of the same framing: what the layers above the kernel cost.

The C program neither syncs nor replicates, so our broker runs with Kafka's flush default here. Both keep their
files in memory where the machine has a file system for that: the disk is not what is compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.cell import Cell, Line
from bench.load import Load, LoadResult
from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import KAFKA_FLUSH, BrokerServer, LimitServer
from bench.settings import Settings, touch_memory

__all__ = ["CELLS", "Comparison", "compare"]

OURS, LIMIT = "ours", "C"
_MIB = 1 << 20
_TOUCHED_BYTES = 2 << 30
"""About what one run of large batches writes."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A load on both servers. ``by_cpu``: the ratio of CPU per request; else of the best throughputs."""

    cell: str
    load: Load
    bound: Bound
    by_cpu: bool
    repetitions_min: int = 3

    @property
    def line(self) -> Line:
        """Its line of the table."""
        unit = "C's CPU per request / ours" if self.by_cpu else "throughput / C's, best of runs"
        return Line(self.cell, unit, self.bound)


COMPARISONS = (
    Comparison("produce-200B", Load("produce", 200, connections=50), Bound(">=", 0.35), by_cpu=True),
    Comparison("produce-200B-pipelined", Load("produce", 200, connections=50, depth=5), Bound(">=", 0.25), by_cpu=True),
    Comparison(
        "produce-16KiB", Load("produce", 16 << 10, connections=4, depth=5), Bound(">=", 0.5), False, repetitions_min=5
    ),
    Comparison("produce-1MiB", Load("produce", _MIB, depth=5), Bound(">=", 0.8), by_cpu=False, repetitions_min=5),
    Comparison("fetch-1MiB", Load("fetch", _MIB, connections=4), Bound(">=", 0.85), by_cpu=False, repetitions_min=5),
)


def compare(comparison: Comparison, settings: Settings) -> Outcome:
    """Measure one comparison, ours and C's in rotated order."""
    repetitions = max(settings.repetitions, comparison.repetitions_min)
    with settings.folder(settings.memory) as folder:
        flush = {**KAFKA_FLUSH, "log.segment.delete.delay.ms": "200"}
        with BrokerServer.start(folder / "data", flush) as broker:
            run = _runner(comparison, settings, broker, folder)
            results = interleaved((OURS, LIMIT), repetitions, run)
    return _judge(comparison, results)


def _runner(
    comparison: Comparison, settings: Settings, broker: BrokerServer, folder: Path
) -> Callable[[str, int], LoadResult]:
    load = _timed(comparison.load, settings.seconds)

    def run(kind: str, repetition: int) -> LoadResult:
        topic = f"bench-{repetition:03}"
        if load.batch_bytes >= _MIB:
            touch_memory(_TOUCHED_BYTES)
        if kind == LIMIT:
            with LimitServer.start(folder / "limit", topic) as server:
                result = _loaded(load, server, topic)
        else:
            broker.create_topic(topic)
            result = _loaded(load, broker, topic)
            _check_count(load, result, broker.record_count(topic))
            broker.delete_topic(topic)
        _tell(comparison.cell, kind, result)
        return result

    return run


def _timed(load: Load, seconds: float) -> Load:
    """The load for that long; a produce of large batches writes at most a few GB in all."""
    return replace(load, seconds=min(seconds, 1.5) if load.batch_bytes >= _MIB else seconds)


def _loaded(load: Load, server: BrokerServer | LimitServer, topic: str) -> LoadResult:
    """Run the load; for a fetch, first produce what it reads."""
    if load.mode == "fetch":
        Load("produce", load.batch_bytes, depth=2, seconds=60, warm_seconds=0, requests_max=load.batches).run(
            server, topic
        )
    return load.run(server, topic)


def _check_count(load: Load, result: LoadResult, record_count: int) -> None:
    """The log holds the acknowledged records and no others."""
    wanted = load.batches * result.batch_records if load.mode == "fetch" else result.records_answered
    if record_count != wanted:
        raise SystemExit(f"the log holds {record_count} records, {wanted} were acknowledged")


def _tell(cell: str, kind: str, result: LoadResult) -> None:
    print(
        f"  {cell:24} {kind:5} {result.requests_per_second:9.0f}/s {result.megabytes_per_second:8.1f} MB/s"
        f" {result.cpu_us_per_request:8.2f} us CPU  p50 {result.p50_us:.0f} us  p99 {result.p99_us:.0f} us",
        file=sys.stderr,
        flush=True,
    )


def _judge(comparison: Comparison, results: dict[str, list[LoadResult]]) -> Outcome:
    ours, limit = results[OURS], results[LIMIT]
    cpu = {kind: median(one.cpu_us_per_request for one in runs) for kind, runs in results.items()}
    best = {kind: max(one.megabytes_per_second for one in runs) for kind, runs in results.items()}
    by_cpu = cpu[LIMIT] / cpu[OURS]
    by_rate = best[OURS] / best[LIMIT]
    outcome = comparison.line.outcome(
        by_cpu if comparison.by_cpu else by_rate,
        ours_cpu_us=cpu[OURS],
        limit_cpu_us=cpu[LIMIT],
        cpu_ratio=by_cpu,
        ours_requests_per_second=max(one.requests_per_second for one in ours),
        limit_requests_per_second=max(one.requests_per_second for one in limit),
        ours_megabytes_per_second=best[OURS],
        limit_megabytes_per_second=best[LIMIT],
        throughput_ratio=by_rate,
        ours_p99_us=median(one.p99_us for one in ours),
        limit_p99_us=median(one.p99_us for one in limit),
        repetitions=len(ours),
    )
    outcome.note = "flush at Kafka's default, as the C program does not sync"
    return outcome


def _cell(comparison: Comparison) -> Cell:
    return Cell(comparison.cell, (comparison.line,), lambda settings: [compare(comparison, settings)])


CELLS = tuple(_cell(comparison) for comparison in COMPARISONS)
