"""Clients that ask for the whole cluster: what an answer with 10,000 partitions costs the broker."""

from __future__ import annotations

import sys

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, median
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.settings import Settings
from stratalog.client.admin import create_topic
from stratalog.client.link import BrokerLink
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

__all__ = ["CELL"]

PARTITION_COUNT = 10_000
TOPIC_COUNT = 100
_ROUNDS = 2000
_CHANGES = 20
_VERSION = 12

_LINE = Line("metadata-10000-partitions", "ms of broker CPU per answer, 100 topics of 100 partitions", Bound("<=", 2))


def _fill(broker: BrokerServer) -> list[str]:
    """The names of topics that have 10,000 partitions together."""
    names = [f"topic-{number:03}" for number in range(TOPIC_COUNT)]
    with broker.client() as client:
        for name in names:
            create_topic(client, name, partition_count=PARTITION_COUNT // TOPIC_COUNT)
    return names


def _cost(broker: BrokerServer, request: MetadataRequest) -> float:
    """Milliseconds of CPU for one answer; the first one, which nothing is kept for, does not count.

    Raises ``SystemExit`` for an answer that does not tell of all partitions.
    """
    with BrokerLink("127.0.0.1", broker.port) as link:
        answer = link.call(request, _VERSION)
        found = sum(len(topic.partitions) for topic in answer.topics)
        if found != PARTITION_COUNT:
            raise SystemExit(f"an answer tells of {found} partitions")
        before = broker.cpu_seconds()
        for _ in range(_ROUNDS):
            link.send(request, _VERSION)
            link.receive_frame()
        return (broker.cpu_seconds() - before) / _ROUNDS * 1e3


def _after_changes(broker: BrokerServer, run: int) -> float:
    """Milliseconds of CPU for the first answer after a topic was made, the making included."""
    before = broker.cpu_seconds()
    with broker.client() as client, BrokerLink("127.0.0.1", broker.port) as link:
        for number in range(_CHANGES):
            create_topic(client, f"more-{run}-{number}", partition_count=1)
            link.send(MetadataRequest(topics=None), _VERSION)
            link.receive_frame()
    return (broker.cpu_seconds() - before) / _CHANGES * 1e3


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.memory) as folder, BrokerServer.start(folder / "data", KAFKA_FLUSH) as broker:
        names = _fill(broker)
        by_name = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        named = [_cost(broker, by_name) for _ in range(settings.repetitions)]
        everything = [_cost(broker, MetadataRequest(topics=None)) for _ in range(settings.repetitions)]
        changed = [_after_changes(broker, run) for run in range(settings.repetitions)]
    for every, some, first in zip(everything, named, changed, strict=True):
        print(f"  all {every:.2f} ms, by name {some:.2f} ms, after a change {first:.1f} ms CPU", file=sys.stderr)
    outcome = _LINE.outcome(median(everything), by_name_cpu_ms=median(named), after_change_cpu_ms=median(changed))
    outcome.note = f"by name {median(named):.2f} ms; making a topic and the answer after it {median(changed):.1f} ms"
    return [outcome]


CELL = Cell(_LINE.cell, (_LINE,), _measure)
