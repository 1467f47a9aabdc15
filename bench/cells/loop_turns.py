"""How long one request keeps the others waiting: the longest turn of the event loop for the worst of every API, and for
each long answer of the HTTP port.

The broker runs in this process. Every turn of its loop is timed by the CPU time of the loop's thread, which other
programs of the machine and this client do not change, and by the clock.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome
from bench.settings import Settings
from bench.worst.requests import GROUP, MANY, Worst, worst_requests
from stratalog.broker.embedded import EmbeddedBroker, LoopThread
from stratalog.client.link import BrokerLink, BrokerUnavailable
from stratalog.wire.errors import Invalid
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.schema import EncodeError

__all__ = ["CELL", "LONG_PATHS", "LoopTurns", "fill", "longest_turn", "longest_turn_of_page"]

TOPIC_COUNT: Final = 10_000
_GROUP_COUNT: Final = 2_000
_MEMBER_COUNT: Final = 300
_AT_ONCE: Final = 500
_TIMEOUT_SECONDS: Final = 120.0

LONG_PATHS: Final = ("/metrics", "/readyz?verbose", "/tier/status", "/v1/tier", "/v1/tier/plan")
"""The answers of the HTTP port that grow with the topics."""

_LINE = Line("loop-turn", "ms of CPU in the longest turn of the loop, worst legal request", Bound("<=", 50))


@dataclass
class LoopTurns:
    """Times the turns of one event loop. ``longest_ms`` is CPU time, ``longest_wall_ms`` by the clock.

    ``collecting_ms`` is what of the longest turn went into the garbage collector. It looks at the objects of the client,
    too, which shares this process; so the bench reports that time apart from ``longest_ms``.
    """

    longest_ms: float = 0.0
    collecting_ms: float = 0.0
    longest_wall_ms: float = 0.0
    total_ms: float = 0.0

    def watch(self, thread: LoopThread) -> None:
        """Time every turn of the thread's loop from now on."""
        loop: Any = thread.loop
        turn = loop._run_once  # noqa: SLF001 - asyncio has no hook for a turn

        collected = 0.0
        began_collecting = 0.0
        thread_id = 0

        def note(phase: str, _details: dict[str, int]) -> None:
            nonlocal collected, began_collecting
            if threading.get_ident() != thread_id:
                return
            if phase == "start":
                began_collecting = time.thread_time()
            else:
                collected += time.thread_time() - began_collecting

        gc.callbacks.append(note)

        def timed() -> None:
            nonlocal collected, thread_id
            collected, thread_id = 0.0, threading.get_ident()
            began, wall = time.thread_time(), time.perf_counter()
            idle = loop.ready_sockets.idle_seconds
            turn()
            collecting = collected * 1e3
            taken = (time.thread_time() - began) * 1e3 - collecting
            waited = loop.ready_sockets.idle_seconds - idle
            if taken > self.longest_ms:
                self.longest_ms, self.collecting_ms = taken, collecting
            self.longest_wall_ms = max(self.longest_wall_ms, (time.perf_counter() - wall - waited) * 1e3)
            self.total_ms += taken

        loop._run_once = timed  # noqa: SLF001

    def reset(self) -> None:
        """Forget what was measured."""
        self.longest_ms = self.collecting_ms = self.longest_wall_ms = self.total_ms = 0.0


def fill(link: BrokerLink, topic_count: int) -> list[str]:
    """Topics, groups with committed offsets and a group with members; the topics' names."""
    names = [f"topic-{number:05}" for number in range(topic_count)]
    for begin in range(0, topic_count, _AT_ONCE):
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in names[begin : begin + _AT_ONCE]
        ]
        link.call(CreateTopicsRequest(topics=topics))
    link.call(FindCoordinatorRequest(key="", coordinator_keys=[GROUP]))
    link.call(FindCoordinatorRequest(key="", coordinator_keys=[GROUP], key_type=1))
    time.sleep(1)
    for begin in range(0, topic_count, _AT_ONCE):
        _commit(link, GROUP, names[begin : begin + _AT_ONCE])
    for number in range(min(_GROUP_COUNT, topic_count)):
        _commit(link, MANY.format(number), names[number : number + 1])
    for number in range(_MEMBER_COUNT):
        joining = ConsumerGroupHeartbeatRequest(
            group_id="members",
            member_id=f"member-{number}",
            member_epoch=0,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=names[:1000],
            topic_partitions=[],
        )
        link.call(joining, 0)
    return names


def _commit(link: BrokerLink, group: str, names: Sequence[str]) -> None:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m")
    topics = [OffsetCommitRequestTopic(name=name, partitions=[part]) for name in names]
    link.call(OffsetCommitRequest(group_id=group, member_id="", topics=topics), 9)


def longest_turn(link: BrokerLink, turns: LoopTurns, worst: Worst) -> tuple[float, int]:
    """Send a request as often as it says. Returns the longest turn in ms, and the bytes of all answers."""
    turns.reset()
    for _ in range(worst.pipelined):
        link.send(worst.message, worst.version)
    size = 0
    for _ in range(worst.pipelined):
        size += len(link.receive_answer())
    time.sleep(0.05)
    return turns.longest_ms, size


def longest_turn_of_page(broker: EmbeddedBroker, turns: LoopTurns, path: str) -> tuple[float, int]:
    """Get a path of the HTTP port. Returns the longest turn in ms, and the bytes of the answer."""
    host, port = broker.node.http_address
    turns.reset()
    with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=_TIMEOUT_SECONDS) as answer:
        size = len(answer.read())
    time.sleep(0.05)
    return turns.longest_ms, size


def _best_of_page(broker: EmbeddedBroker, turns: LoopTurns, path: str, repetitions: int) -> float:
    """The least of several longest turns, as `_best`; the first of all may import what it needs."""
    longest_ms, size = min(longest_turn_of_page(broker, turns, path) for _ in range(repetitions))
    print(f"  GET {path}: {longest_ms:.1f} ms CPU, {size:,} bytes", file=sys.stderr)
    return longest_ms


def _best(port: int, turns: LoopTurns, worst: Worst, repetitions: int) -> float:
    """The least of several longest turns: the work is the same each time, what the machine adds is not."""
    best = math.inf
    for _ in range(repetitions):
        with BrokerLink("127.0.0.1", port, timeout_seconds=_TIMEOUT_SECONDS) as link:
            try:
                longest_ms, size = longest_turn(link, turns, worst)
            except (BrokerUnavailable, EncodeError, Invalid) as error:
                raise SystemExit(f"{worst.name}: {error}") from error
        if longest_ms < best:
            best = longest_ms
            told = (
                f"{longest_ms:.1f} ms CPU and {turns.collecting_ms:.0f} ms of garbage collection, "
                f"{turns.longest_wall_ms:.1f} ms by the clock, {turns.total_ms:.0f} ms in all, {size:,} bytes"
            )
    print(f"  {worst.name}: {told}", file=sys.stderr)
    return best


def _measure(settings: Settings) -> list[Outcome]:
    thread = LoopThread()
    turns = LoopTurns()
    found: dict[str, float] = {}
    with settings.folder(settings.memory) as folder:
        broker = EmbeddedBroker(str(folder), thread, {"group.consumer.max.size": 10_000}).start()
        try:
            turns.watch(thread)
            with BrokerLink("127.0.0.1", broker.port, timeout_seconds=_TIMEOUT_SECONDS) as link:
                names = fill(link, TOPIC_COUNT)
            print(f"  filling: longest turn {turns.longest_ms:.0f} ms CPU", file=sys.stderr)
            requests = worst_requests(names)
            gc.collect()
            gc.freeze()  # as a broker does that starts with these topics
            for worst in requests:
                found[worst.name] = _best(broker.port, turns, worst, settings.repetitions)
            for path in LONG_PATHS:
                found[f"GET {path}"] = _best_of_page(broker, turns, path, settings.repetitions)
        finally:
            broker.discard()
            thread.close()
    slowest = max(found, key=found.__getitem__)
    outcome = _LINE.outcome(found[slowest], **found)
    outcome.note = (
        f"{slowest}; {len(found)} requests of every API and the HTTP port; {TOPIC_COUNT:,} topics, no authorizer"
    )
    return [outcome]


CELL = Cell(_LINE.cell, (_LINE,), _measure)
