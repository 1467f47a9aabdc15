"""Consumers that commit one offset after the other: how many a second the coordinator takes."""

from __future__ import annotations

import selectors
import socket
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, median
from bench.servers import KAFKA_FLUSH, BrokerServer
from bench.settings import Settings
from stratalog.client.link import BrokerLink
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from stratalog.wire.schema import encode_bytes

__all__ = ["CELL", "answer_frame", "commit_frame", "wait_for_coordinator"]

TOPIC = "events"
CONSUMERS = 50
_VERSION = 9
_API_KEY = 8
_ONE_GROUP = Line("offset-commits", "commits/s, 50 consumers of one group, sync on ack", Bound(">=", 10_000))
_FLUSH_AS_KAFKA = Line("offset-commits-kafka-flush", "commits/s, flush as Kafka", Bound(">=", 10_000))
_OWN_GROUPS = Line(
    "offset-commits-50-groups", "commits/s, a group for each consumer, flush as Kafka", Bound(">=", 10_000)
)


def commit_frame(group: str, partition: int) -> bytes:
    """An OffsetCommit request for one partition, with its length before it."""
    wanted = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=123_456, committed_leader_epoch=0, committed_metadata=""
    )
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[wanted])]
    body = encode_bytes(OffsetCommitRequest(group_id=group, member_id="", topics=topics), _VERSION)
    request = struct.pack(">hhih", _API_KEY, _VERSION, partition, -1) + b"\0" + body
    return struct.pack(">i", len(request)) + request


def answer_frame(partition: int) -> bytes:
    """The answer to it when all is well."""
    answers = [OffsetCommitResponsePartition(partition_index=partition)]
    body = encode_bytes(
        OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=answers)]), _VERSION
    )
    answer = struct.pack(">i", partition) + b"\0" + body
    return struct.pack(">i", len(answer)) + answer


def wait_for_coordinator(link: BrokerLink) -> None:
    """Until the coordinator's topic is there and its partitions are loaded. Raises ``SystemExit`` after a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = link.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        if not found.coordinators[0].error_code:
            return
        time.sleep(0.05)
    raise SystemExit("the coordinator did not come up in a minute")


class _Consumer:
    """A connection that sends its next commit when the last one is answered."""

    def __init__(self, port: int, group: str, partition: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frame = commit_frame(group, partition)
        self._expected = answer_frame(partition)
        self._received = b""
        self.commits = 0

    def send(self) -> None:
        """Send the next commit."""
        self.connection.sendall(self._frame)

    def readable(self) -> None:
        """Take an answer. Raises ``SystemExit`` for a refused commit."""
        self._received += self.connection.recv(4096)
        if self._received != self._expected:
            if len(self._received) < len(self._expected):
                return
            raise SystemExit(f"a commit was answered {self._received.hex()}")
        self._received = b""
        self.commits += 1
        self.send()


def _run(port: int, groups: Sequence[str], seconds: float) -> float:
    """Commits a second of one consumer for each of the groups."""
    consumers = [_Consumer(port, group, number) for number, group in enumerate(groups)]
    with selectors.DefaultSelector() as selector:
        for consumer in consumers:
            selector.register(consumer.connection, selectors.EVENT_READ, consumer.readable)
            consumer.send()
        warm, began, before = time.monotonic() + 0.3, 0.0, 0
        while not began or time.monotonic() < began + seconds:
            for key, _ in selector.select(1.0):
                key.data()
            if not began and time.monotonic() > warm:
                began, before = time.monotonic(), sum(consumer.commits for consumer in consumers)
        rate = (sum(consumer.commits for consumer in consumers) - before) / (time.monotonic() - began)
    for consumer in consumers:
        consumer.connection.close()
    return rate


def _case(folder: Path, settings: Settings, flush: dict[str, str], groups: Sequence[str]) -> tuple[float, float]:
    """Commits a second and microseconds of the broker's CPU for each, the median of some runs."""
    rates, costs = [], []
    with BrokerServer.start(folder, flush) as broker:
        broker.create_topic(TOPIC, CONSUMERS)
        with BrokerLink("127.0.0.1", broker.port) as link:
            wait_for_coordinator(link)
        for _ in range(settings.repetitions):
            before = broker.cpu_seconds()
            began = time.monotonic()
            rates.append(_run(broker.port, groups, settings.seconds))
            costs.append((broker.cpu_seconds() - before) / (rates[-1] * (time.monotonic() - began)) * 1e6)
            print(f"  {rates[-1]:,.0f} commits/s, {costs[-1]:.1f} us CPU each", file=sys.stderr, flush=True)
    return median(rates), median(costs)


def _measure(settings: Settings) -> list[Outcome]:
    one, many = ["g"] * CONSUMERS, [f"g{number}" for number in range(CONSUMERS)]
    outcomes = []
    for line, where, flush, groups in (
        (_ONE_GROUP, settings.disk, {}, one),
        (_FLUSH_AS_KAFKA, settings.memory, KAFKA_FLUSH, one),
        (_OWN_GROUPS, settings.memory, KAFKA_FLUSH, many),
    ):
        print(f"{line.cell}:", file=sys.stderr)
        with settings.folder(where) as folder:
            rate, cost = _case(folder / "data", settings, flush, groups)
        outcomes.append(line.outcome(rate, broker_cpu_us=cost))
    return outcomes


CELL = Cell("offset-commits", (_ONE_GROUP, _FLUSH_AS_KAFKA, _OWN_GROUPS), _measure)
