"""How long a producer goes without an acknowledgement when the leader is killed, or stops in order; a rolling restart under load.

librdkafka sends 500 records a second with ``acks=all`` to one partition of three replicas, at least two in sync.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from bench.cell import Cell, Line
from bench.local_nodes import LocalNodes
from bench.outcome import Bound, Outcome, median
from bench.replicated import Replicated, await_true
from bench.settings import Settings
from bench.steady_producer import SteadyProducer, longest_gap
from stratalog.client.client import Client
from stratalog.wire.topic import TopicPartition

__all__ = ["CELLS"]

_SESSION: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "1500"}
"""Kafka asks for two heartbeats a session."""
_TOPIC: Final = "gaps"
_BEFORE_SECONDS: Final = 1.0
_AFTER_SECONDS: Final = 4.0
_IN_SYNC_SECONDS: Final = 15.0
_KILLS_MIN: Final = 6
_NODES: Final = 5

_KILLED = Line(
    "replicas-kill", "s without an acknowledgement, SIGKILL of the leader, session 3 s, median", Bound("<=", 3.0)
)
_LED = Line("replicas-kill-led", "s until the other brokers name another leader, SIGKILL, median", Bound("<=", 3.0))
_WORST = Line("replicas-kill-worst", "the same, the worst", Bound("<=", 5.0))
_STOPPED = Line("replicas-stop", "s without an acknowledgement, SIGTERM of the leader, median", Bound("<=", 0.3))
_LOST = Line("replicas-lost", "records that were acknowledged and are not in the log, or failed", Bound("<=", 0))
_ROLLING_GAP = Line(
    "replicas-rolling", "s without an acknowledgement, five nodes restarted in turn, worst", Bound("<=", 0.5)
)
_ROLLING_FAILED = Line("replicas-rolling-failed", "records that failed meanwhile", Bound("<=", 0))
_ROLLING_SYNC = Line("replicas-rolling-sync", "s from a start until all replicas are in sync, worst", Bound("<=", 15.0))


def _missing(nodes: LocalNodes, acknowledged: int) -> int:
    with Client(nodes.bootstrap) as client:
        client.refresh([_TOPIC])
        end = client.list_offsets({TopicPartition(_TOPIC, 0): -1})[TopicPartition(_TOPIC, 0)].offset
    return max(0, acknowledged - end)


def _end_leader(nodes: LocalNodes, topics: Replicated, producer: SteadyProducer, *, kill: bool) -> tuple[float, float]:
    """Seconds without an acknowledgement, and until another leader is named. The node serves and is in sync again afterwards."""
    time.sleep(_BEFORE_SECONDS)
    leader = topics.leader(_TOPIC)
    at = nodes.kill(leader) if kill else nodes.terminate(leader)
    nodes.wait_ended(leader)
    await_true(lambda: _is_led_by_another(topics, leader), "another broker leads")
    led = time.monotonic() - at
    time.sleep(_AFTER_SECONDS if kill else _BEFORE_SECONDS)
    gap = longest_gap(producer.acknowledged, at, time.monotonic())
    nodes.start(leader)
    nodes.wait_ready(leader)
    await_true(lambda: topics.in_sync(_TOPIC) == 1, "all replicas are in sync")
    return gap, led


def _is_led_by_another(topics: Replicated, leader: int) -> bool:
    return any(one.leader not in (leader, -1) for one in topics.partitions(_TOPIC))


def _failover_at(folder: Path, count: int) -> list[Outcome]:
    killed: list[float] = []
    led: list[float] = []
    stopped: list[float] = []
    with LocalNodes(folder, settings=_SESSION) as nodes:
        nodes.start()
        nodes.wait_ready()
        topics = Replicated(nodes.bootstrap)
        topics.create(_TOPIC)
        with SteadyProducer(nodes.bootstrap, _TOPIC) as producer:
            for _ in range(count):
                gap, _ = _end_leader(nodes, topics, producer, kill=False)
                stopped.append(gap)
                gap, named = _end_leader(nodes, topics, producer, kill=True)
                killed.append(gap)
                led.append(named)
                print(
                    f"  stopped {stopped[-1]:.2f} s, killed {gap:.2f} s, led again after {named:.2f} s",
                    file=sys.stderr,
                    flush=True,
                )
        lost = _missing(nodes, len(producer.acknowledged)) + len(producer.failures)
    return [
        _KILLED.outcome(median(killed), least=min(killed), count=len(killed)),
        _WORST.outcome(max(killed)),
        _LED.outcome(median(led), least=min(led), worst=max(led)),
        _STOPPED.outcome(median(stopped), worst=max(stopped)),
        _LOST.outcome(lost, sent=producer.sent),
    ]


def _failover(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        return _failover_at(folder, max(_KILLS_MIN, settings.repetitions))


def _rolling_at(folder: Path) -> list[Outcome]:
    gaps, waits = [], []
    with LocalNodes(folder, count=_NODES, settings=_SESSION) as nodes:
        nodes.start()
        nodes.wait_ready()
        topics = Replicated(nodes.bootstrap)
        topics.create(_TOPIC, 10)
        with SteadyProducer(nodes.bootstrap, _TOPIC) as producer:
            for node_id in nodes.node_ids:
                time.sleep(_BEFORE_SECONDS)
                at = nodes.terminate(node_id)
                nodes.wait_ended(node_id)
                begun = time.monotonic()
                nodes.start(node_id)
                nodes.wait_ready(node_id)
                await_true(lambda: topics.in_sync(_TOPIC) == 10, "all replicas are in sync")
                waits.append(time.monotonic() - begun)
                gaps.append(longest_gap(producer.acknowledged, at, time.monotonic()))
                print(
                    f"  node {node_id}: {gaps[-1]:.2f} s, in sync after {waits[-1]:.1f} s", file=sys.stderr, flush=True
                )
        back = await_true(lambda: _preferred(topics) == 10, "preferred leaders lead", seconds=400.0)
    print(f"  preferred leaders after {back:.0f} s", file=sys.stderr, flush=True)
    return [
        _ROLLING_GAP.outcome(max(gaps), median=median(gaps)),
        _ROLLING_FAILED.outcome(len(producer.failures), sent=producer.sent),
        _ROLLING_SYNC.outcome(max(waits), median=median(waits), limit=_IN_SYNC_SECONDS, preferred_after=back),
    ]


def _preferred(topics: Replicated) -> int:
    """How many partitions are led by their first replica."""
    return sum(one.leader == one.replicas[0] for one in topics.partitions(_TOPIC))


def _rolling(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        return _rolling_at(folder)


CELLS = (
    Cell("replicas-failover", (_KILLED, _WORST, _LED, _STOPPED, _LOST), _failover),
    Cell("replicas-rolling", (_ROLLING_GAP, _ROLLING_FAILED, _ROLLING_SYNC), _rolling),
)
