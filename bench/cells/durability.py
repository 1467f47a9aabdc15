"""Sync on ack, our default, against Kafka's flush default: sixteen producers with five small requests in flight."""

from __future__ import annotations

import sys
from dataclasses import replace

from bench.cell import Cell, Line
from bench.load import Load, LoadResult
from bench.outcome import Bound, Outcome, interleaved, median
from bench.servers import BrokerServer
from bench.settings import Settings

__all__ = ["CELL"]

PARTITION_COUNT = 6
LOAD = Load("produce", 1024, connections=16, depth=5, partitions=PARTITION_COUNT, acks=-1)
FLUSH_MESSAGES = {"synced": "1", "not synced": "9223372036854775807"}

_LINE = Line("sync-on-ack", "throughput / that with Kafka's flush default", Bound(">=", 0.45))


def _measure(settings: Settings) -> list[Outcome]:
    load = replace(LOAD, seconds=settings.seconds)
    with settings.folder(settings.disk) as folder, BrokerServer.start(folder / "data") as broker:

        def run(kind: str, repetition: int) -> LoadResult:
            topic = f"bench-{repetition:03}"
            broker.create_topic(topic, PARTITION_COUNT, flush_messages=FLUSH_MESSAGES[kind])
            result = load.run(broker, topic)
            found = broker.record_count(topic, PARTITION_COUNT)
            if found != result.records_answered:
                raise SystemExit(f"the log holds {found} records, {result.records_answered} were acknowledged")
            broker.delete_topic(topic)
            print(
                f"  {kind:10} {result.requests_per_second:8.0f}/s  p50 {result.p50_us:.0f} us  p99 {result.p99_us:.0f} us"
                f"  {result.cpu_us_per_request:.1f} us CPU",
                file=sys.stderr,
                flush=True,
            )
            return result

        results = interleaved(tuple(FLUSH_MESSAGES), settings.repetitions, run)
    synced, unsynced = results["synced"], results["not synced"]
    pairs = [one.requests_per_second / other.requests_per_second for one, other in zip(synced, unsynced, strict=True)]
    return [
        _LINE.outcome(
            median(pairs),
            synced_requests_per_second=median(one.requests_per_second for one in synced),
            unsynced_requests_per_second=median(one.requests_per_second for one in unsynced),
            synced_p50_us=median(one.p50_us for one in synced),
            synced_p99_us=median(one.p99_us for one in synced),
            unsynced_p50_us=median(one.p50_us for one in unsynced),
            unsynced_p99_us=median(one.p99_us for one in unsynced),
            ours_cpu_us=median(one.cpu_us_per_request for one in synced),
        )
    ]


CELL = Cell(_LINE.cell, (_LINE,), _measure)
