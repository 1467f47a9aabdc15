"""A thousand partitions of three replicas: a broker that leads a third of them is killed; what three thousand cost while idle."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.cell import Cell, Line
from bench.local_nodes import LocalNodes
from bench.outcome import Bound, Outcome
from bench.replicated import REPLICAS, Replicated, await_true
from bench.settings import Settings

__all__ = ["CELLS"]

_SETTINGS: Final = {"broker.session.timeout.ms": "3000"}
_TOPICS: Final = tuple(f"many-{number}" for number in range(10))
_PARTITIONS: Final = 100
_IDLE_TOPICS: Final = tuple(f"idle-{number}" for number in range(30))
_SETTLE_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 20.0
_LED_SECONDS: Final = 60.0
_FETCHES: Final = "kafka_network_requestmetrics_requests_total"

_LED = Line(
    "replicas-1000-led", "s until all of 1,000 partitions are led, from the first that is led anew", Bound("<=", 1.0)
)
_TURN = Line("replicas-1000-turn", "ms of CPU in the longest turn of any node's loop meanwhile", Bound("<=", 50.0))
_ELECTIONS = Line("replicas-1000-elections", "elections of controllers meanwhile", Bound("<=", 0))
_CPU = Line("replicas-idle-cpu", "% of a core above a broker without topics, 3,000 idle replicas", Bound("<=", 2.0))
_PEER = Line("replicas-idle-fetches", "fetches a second from each peer", Bound("<=", 10.0))
_MEMORY = Line("replicas-idle-memory", "KiB of PSS for each idle replica", Bound("<=", 24.0))


def _made(topics: Replicated, names: Sequence[str]) -> None:
    for name in names:
        topics.create(name, _PARTITIONS)


def _killed_at(folder: Path) -> list[Outcome]:
    with LocalNodes(folder, settings=_SETTINGS) as nodes:
        nodes.start()
        nodes.wait_ready()
        topics = Replicated(nodes.bootstrap)
        _made(topics, _TOPICS)
        await_true(lambda: topics.in_sync(*_TOPICS) == len(_TOPICS) * _PARTITIONS, "all are in sync")
        time.sleep(_SETTLE_SECONDS)
        active = nodes.active()
        victim = next(one for one in nodes.node_ids if one != active)
        before, turns = nodes.quorum(active), len(nodes.turns)
        led = topics.leaders(_TOPICS)[victim]
        asked = f"127.0.0.1:{nodes.port(active)}"
        at = nodes.kill(victim)
        first, last = _watched(topics, asked, victim, led, at)
        time.sleep(_SETTLE_SECONDS / 2)
        after = nodes.quorum(active)
        longest = max((turn.milliseconds for turn in nodes.turns[turns:]), default=0.0)
    assert before is not None
    assert after is not None
    print(
        f"  {led} led by the killed one; first led anew {first - at:.2f} s after the kill, last {last - at:.2f} s; turn {longest:.0f} ms",
        file=sys.stderr,
        flush=True,
    )
    return [
        _LED.outcome(last - first, killed_to_last=last - at, led=led),
        _TURN.outcome(longest),
        _ELECTIONS.outcome(after.leader_epoch - before.leader_epoch),
    ]


def _watched(topics: Replicated, asked: str, victim: int, led: int, killed_at: float) -> tuple[float, float]:
    """When the first partition of the victim had another leader, and when all had."""
    first = 0.0
    while time.monotonic() - killed_at < _LED_SECONDS:
        left = topics.leaders(_TOPICS, asked=asked)
        now = time.monotonic()
        if not first and left.total() and left[victim] < led:
            first = now
        if left.total() == len(_TOPICS) * _PARTITIONS and not left[victim] and not left[-1]:
            return first, now
    raise SystemExit(f"not all partitions of the killed broker were led again within {_LED_SECONDS:g} s")


def _killed(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        return _killed_at(folder)


def _share(nodes: LocalNodes, node_id: int) -> float:
    """Which part of a core a node uses."""
    before = nodes.cpu_seconds(node_id)
    time.sleep(_IDLE_SECONDS)
    return (nodes.cpu_seconds(node_id) - before) / _IDLE_SECONDS


def _idle_at(folder: Path) -> list[Outcome]:
    with LocalNodes(folder, settings=_SETTINGS, watched=False) as nodes:
        nodes.start()
        nodes.wait_ready()
        time.sleep(_SETTLE_SECONDS)
        watched = next(one for one in nodes.node_ids if one != nodes.active())
        empty, empty_megabytes = _share(nodes, watched), nodes.pss_megabytes(watched)
        topics = Replicated(nodes.bootstrap)
        _made(topics, _IDLE_TOPICS)
        replicas = len(_IDLE_TOPICS) * _PARTITIONS
        await_true(lambda: topics.in_sync(*_IDLE_TOPICS) == replicas, "all are in sync")
        time.sleep(2 * _SETTLE_SECONDS)
        asked = nodes.metric(watched, _FETCHES, 'request="Fetch"')
        full = _share(nodes, watched)
        fetches = (nodes.metric(watched, _FETCHES, 'request="Fetch"') - asked) / _IDLE_SECONDS / (REPLICAS - 1)
        kibibytes = (nodes.pss_megabytes(watched) - empty_megabytes) * 1e6 / 1024 / replicas
    print(
        f"  {empty:.3f} of a core empty, {full:.3f} full, {fetches:.1f} fetches/s a peer, {kibibytes:.1f} KiB",
        file=sys.stderr,
    )
    return [_CPU.outcome((full - empty) * 100, empty=empty * 100), _PEER.outcome(fetches), _MEMORY.outcome(kibibytes)]


def _idle(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        return _idle_at(folder)


CELLS = (
    Cell("replicas-1000", (_LED, _TURN, _ELECTIONS), _killed),
    Cell("replicas-idle", (_CPU, _PEER, _MEMORY), _idle),
)
