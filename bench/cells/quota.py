"""A producer and a consumer that ignore throttle times: what the broker takes and gives in spite of them."""

from __future__ import annotations

import sys
import time

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.settings import Settings
from stratalog.client.link import BrokerLink
from stratalog.client.quotas import alter_quotas
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["CELL", "delivered"]

TOPIC, CLIENT = "limited", "deaf"
QUOTA = 10_000_000.0
BATCH_BYTES = 100_000
_DEPTH = 4
_SECONDS_MIN = 8.0
"""A limited client comes in bursts of a second: over less time than this one burst more or less would count."""
_BURST_SECONDS = 1.5
"""Two windows of a second: one of them may be used at once. Measured is what comes after that."""

_PRODUCE = Line("quota-produce", "delivered / quota, a client that ignores throttle times", Bound("<=", 1.05))
_FETCH = Line("quota-fetch", "delivered / quota, a client that ignores throttle times", Bound("<=", 1.05))


def delivered(link: BrokerLink, request: ProduceRequest | FetchRequest, version: int, seconds: float) -> float:
    """Bytes a second of requests that follow each other without a pause, after the burst. Raises ``SystemExit``."""
    produced = isinstance(request, ProduceRequest)
    for _ in range(_DEPTH):
        link.send(request, version)
    begin = time.monotonic() + _BURST_SECONDS
    total = 0
    while (now := time.monotonic()) < begin + seconds:
        answer = link.receive()
        link.send(request, version)
        size = BATCH_BYTES if produced else sum(len(p.records or b"") for t in answer.responses for p in t.partitions)
        if now >= begin:
            total += size
    return total / seconds


def _fetch() -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=BATCH_BYTES)
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])


def _measure(settings: Settings) -> list[Outcome]:
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"v" * (BATCH_BYTES - 100))])
    topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
    produce = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])
    broker_settings = {**KAFKA_FLUSH, "quota.window.num": "2"}
    seconds = max(settings.seconds, _SECONDS_MIN)
    with settings.folder(settings.memory) as folder, BrokerServer.start(folder / "data", broker_settings) as broker:
        broker.create_topic(TOPIC)
        with broker.client() as client:
            alter_quotas(client, {"client-id": CLIENT}, {"producer_byte_rate": QUOTA, "consumer_byte_rate": QUOTA})
        rates = []
        for request, version in ((produce, 9), (_fetch(), 11)):
            with BrokerLink("127.0.0.1", broker.port, client_id=CLIENT) as link:
                rates.append(delivered(link, request, version, seconds))
        print(
            f"  produced {rates[0] / 1e6:.2f}, fetched {rates[1] / 1e6:.2f} of {QUOTA / 1e6:.0f} MB/s", file=sys.stderr
        )
    return [
        line.outcome(rate / QUOTA, megabytes_per_second=rate / 1e6)
        for line, rate in zip((_PRODUCE, _FETCH), rates, strict=True)
    ]


CELL = Cell("quota", (_PRODUCE, _FETCH), _measure)
