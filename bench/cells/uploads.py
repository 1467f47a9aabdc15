"""Whether producers feel uploads: 50 MB/s at a fixed rate, into a tiered topic and into one that is not, in turns."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace

from bench.archives import TIERED, frozen_not_uploaded
from bench.cell import Cell, Line
from bench.load import Load, LoadResult
from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import REMOTE_LAST, BrokerServer
from bench.settings import Settings

__all__ = ["CELL"]

PARTITION_COUNT = 6
BATCH_BYTES = 16 << 10
BYTES_PER_SECOND = 50e6
SEGMENT_BYTES = 16 << 20
P99_FACTOR = 1.6

LOAD = Load(
    "produce",
    BATCH_BYTES,
    connections=PARTITION_COUNT,
    depth=64,
    partitions=PARTITION_COUNT,
    acks=-1,
    warm_seconds=2,
    requests_per_second=BYTES_PER_SECOND / BATCH_BYTES,
)

_P50 = Line("uploads-ack-p50", "ack p50 / that without uploads", Bound("<=", 1.25))
_P99 = Line("uploads-ack-p99", f"ms that ack p99 is above {P99_FACTOR} x that without uploads", Bound("<=", 2.0))
_BACKLOG = Line("uploads-backlog", "ranges of a partition not uploaded at the end, most", Bound("<=", 2))


@dataclass(frozen=True, slots=True)
class _Run:
    load: LoadResult
    backlog: int
    uploaded_bytes: float


def _measure(settings: Settings) -> list[Outcome]:
    load = replace(LOAD, seconds=settings.paced_seconds)
    with (
        settings.folder(settings.disk) as folder,
        BrokerServer.start(folder / "data", {"log.segment.delete.delay.ms": "500"}) as broker,
    ):

        def run(kind: str, repetition: int) -> _Run:
            topic = f"bench-{kind}-{repetition}"
            broker.create_topic(
                topic, PARTITION_COUNT, segment_bytes=str(SEGMENT_BYTES), **(TIERED if kind == "uploads" else {})
            )
            result = load.run(broker, topic)
            one = _look(broker, topic, kind, result)
            if broker.record_count(topic, PARTITION_COUNT) != result.records_answered:
                raise SystemExit(f"{topic}: the log does not hold the {result.records_answered} acknowledged records")
            broker.delete_topic(topic)
            time.sleep(2)  # its files and objects go
            _tell(kind, one)
            return one

        runs = interleaved(("plain", "uploads"), settings.paced_repetitions, run)
    return _judge(runs["plain"], runs["uploads"])


def _look(broker: BrokerServer, topic: str, kind: str, result: LoadResult) -> _Run:
    if kind == "plain":
        return _Run(result, 0, 0)
    ends = [last + 1 for last in broker.offsets(topic, PARTITION_COUNT, REMOTE_LAST)]
    backlog = max(frozen_not_uploaded(broker.data, topic, ends))
    uploaded_bytes = sum(ends) / result.batch_records * result.batch_bytes
    if not uploaded_bytes:
        raise SystemExit(f"{topic}: nothing was uploaded")
    return _Run(result, backlog, uploaded_bytes)


def _tell(kind: str, one: _Run) -> None:
    load = one.load
    print(
        f"  {kind:8} {load.megabytes_per_second:5.1f} MB/s  p50 {load.p50_us / 1000:.2f}  p99 {load.p99_us / 1000:.2f}"
        f"  max {load.max_us / 1000:.1f} ms  backlog {one.backlog}  uploaded {one.uploaded_bytes / 1e6:.0f} MB",
        file=sys.stderr,
        flush=True,
    )


def _judge(plain: list[_Run], uploads: list[_Run]) -> list[Outcome]:
    p50 = {kind: median(one.load.p50_us for one in runs) for kind, runs in (("plain", plain), ("uploads", uploads))}
    p99 = {kind: median(one.load.p99_us for one in runs) for kind, runs in (("plain", plain), ("uploads", uploads))}
    rate = min(one.load.megabytes_per_second for one in (*plain, *uploads))
    if rate < BYTES_PER_SECOND / 1e6 * 0.95:
        reason = f"the rate was not kept: {rate:.1f} MB/s"
        return [line.not_measured(reason) for line in (_P50, _P99, _BACKLOG)]
    return [
        _P50.outcome(
            p50["uploads"] / p50["plain"], with_uploads_us=p50["uploads"], without_us=p50["plain"], lowest_rate=rate
        ),
        _P99.outcome(
            (p99["uploads"] - P99_FACTOR * p99["plain"]) / 1000, with_uploads_us=p99["uploads"], without_us=p99["plain"]
        ),
        _BACKLOG.outcome(
            max(one.backlog for one in uploads), uploaded_megabytes=median(one.uploaded_bytes for one in uploads) / 1e6
        ),
    ]


CELL = Cell("uploads", (_P50, _P99, _BACKLOG), _measure)
