"""Cost for the broker of a poll in a fetch session: consumers of a thousand partitions, one of them busy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, median
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.settings import Settings
from stratalog.client.link import BrokerLink
from stratalog.client.records import produce_batches
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from stratalog.wire.topic import TopicPartition

__all__ = ["CELL", "Consumer"]

TOPIC = "many"
PARTITION_COUNT = 1000
HOT = 7
VALUE_BYTES = 200
_CONSUMERS = 20
_ROUNDS = 300
_FULL_ROUNDS = 3
_VERSION = 12

_LINE = Line("session-1000-partitions", "us of broker CPU per poll, 1 of 1,000 partitions hot", Bound("<=", 50))


@dataclass
class Consumer:
    """One connection with one session. Its reader stands before the only batch of the hot partition, or behind it."""

    link: BrokerLink
    session_id: int = 0
    epoch: int = 0

    def ask(self, partitions: range | tuple[int, ...], offset: int) -> None:
        """Send a poll that names these partitions."""
        wanted = [
            FetchPartition(partition=number, fetch_offset=offset if number == HOT else 0, partition_max_bytes=1 << 20)
            for number in partitions
        ]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic=TOPIC, partitions=wanted)] if wanted else [],
        )
        self.link.send(request, _VERSION)

    def told(self) -> list[int]:
        """The partitions of the next answer."""
        answer: FetchResponse = self.link.receive()
        if answer.error_code:
            raise SystemExit(f"a poll failed with error {answer.error_code}")
        self.session_id = answer.session_id
        self.epoch += self.epoch >= 0
        return [one.partition_index for topic in answer.responses for one in topic.partitions]


def poll(consumers: Sequence[Consumer], partitions: range | tuple[int, ...], offset: int, told: list[int]) -> None:
    """One poll of every consumer, all of them under way together. Raises ``SystemExit`` for an unexpected answer."""
    for consumer in consumers:
        consumer.ask(partitions, offset)
    for consumer in consumers:
        found = consumer.told()
        if found != told:
            raise SystemExit(f"a poll told of {len(found)} partitions, {len(told)} were expected: {found[:9]}")


def _fill(broker: BrokerServer) -> None:
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"v" * VALUE_BYTES)])
    with broker.client() as client:
        produce_batches(client, {TopicPartition(TOPIC, HOT): batch}, acks=1)


def _cost(
    broker: BrokerServer, consumers: Sequence[Consumer], asked: range | tuple[int, ...], offset: int, told: list[int]
) -> float:
    """Microseconds of CPU for one poll."""
    rounds = _FULL_ROUNDS if len(asked) == PARTITION_COUNT else _ROUNDS
    before = broker.cpu_seconds()
    for _ in range(rounds):
        poll(consumers, asked, offset, told)
    return (broker.cpu_seconds() - before) / rounds / len(consumers) * 1e6


def _run(broker: BrokerServer) -> dict[str, float]:
    """One batch for every poll, nothing for every poll, and the same without a session."""
    everything = range(PARTITION_COUNT)
    with ExitStack() as stack:
        consumers = [Consumer(stack.enter_context(BrokerLink("127.0.0.1", broker.port))) for _ in range(_CONSUMERS)]
        poll(consumers, everything, 1, list(everything))
        if not all(consumer.session_id for consumer in consumers):
            raise SystemExit("the broker opened no session")
        poll(consumers, (), 0, [])
        hot = _cost(broker, consumers, (HOT,), 0, [HOT])
        poll(consumers, (HOT,), 1, [])
        idle = _cost(broker, consumers, (), 0, [])
        for consumer in consumers:
            consumer.epoch = -1
        full = _cost(broker, consumers, everything, 0, list(everything))
    return {"hot": hot, "idle": idle, "full": full}


def _measure(settings: Settings) -> list[Outcome]:
    runs: list[dict[str, float]] = []
    with settings.folder(settings.memory) as folder, BrokerServer.start(folder / "data", KAFKA_FLUSH) as broker:
        broker.create_topic(TOPIC, PARTITION_COUNT)
        _fill(broker)
        for _ in range(settings.repetitions):
            runs.append(_run(broker))
            hot, idle, full = runs[-1].values()
            print(
                f"  hot {hot:.1f} us, idle {idle:.1f} us, without a session {full:.0f} us CPU a poll", file=sys.stderr
            )
    found = {name: median(run[name] for run in runs) for name in ("hot", "idle", "full")}
    outcome = _LINE.outcome(found["hot"], idle_poll_cpu_us=found["idle"], full_fetch_cpu_us=found["full"])
    outcome.note = f"{_CONSUMERS} consumers at once; a poll without news costs {found['idle']:.0f} us"
    return [outcome]


CELL = Cell(_LINE.cell, (_LINE,), _measure)
