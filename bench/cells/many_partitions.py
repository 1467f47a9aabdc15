"""A cluster of three nodes gets 100,000 partitions; then a broker that leads a third of them is killed, and comes back.

Ten thousand topics of ten partitions are created, a hundred at a time. Turns are CPU time of the event loops of nodes that serve. An
election of a controller in the run means that heartbeats or fetches of the quorum were late.
"""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Final

from bench.cell import Cell, Line
from bench.local_nodes import LocalNodes
from bench.outcome import Bound, Outcome
from bench.processes import cpu_seconds_of_tree
from bench.settings import Settings
from stratalog.client.client import Client
from stratalog.client.cluster import describe_cluster
from stratalog.client.link import BrokerLink
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

__all__ = ["CELL"]

_TOPICS: Final = 10_000
_PARTITIONS_A_TOPIC: Final = 10
_TOGETHER: Final = 100
_TIMEOUT_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.2
_QUIET_SECONDS: Final = 10.0
_LOOKS_MAX: Final = 24
_RETURN_SECONDS: Final = 300.0

_CREATED = Line("many-create", "s to create 10,000 topics of 10 partitions, 100 at a time", Bound("<=", 60))
_FENCED = Line("many-fence", "s from the kill of a node that leads a third until it is fenced", Bound("<=", 12))
_BACK = Line("many-return", "s from its start until it serves again, its 33,333 logs recovered", Bound("<=", 60))
_TURN = Line("many-turn", "ms of CPU in the longest turn of a serving node's loop meanwhile", Bound("<=", 50))
_ELECTIONS = Line("many-elections", "epochs of the quorum that this took", Bound("<=", 0))


def _create(port: int) -> float:
    begun = time.monotonic()
    with BrokerLink("127.0.0.1", port, timeout_seconds=_TIMEOUT_SECONDS) as link:
        for first in range(0, _TOPICS, _TOGETHER):
            topics = [
                CreatableTopic(
                    name=f"topic-{number:05}",
                    num_partitions=_PARTITIONS_A_TOPIC,
                    replication_factor=1,
                    assignments=[],
                    configs=[],
                )
                for number in range(first, first + _TOGETHER)
            ]
            answer = link.call(CreateTopicsRequest(topics=topics, timeout_ms=int(_TIMEOUT_SECONDS * 1000)))
            refused = [topic for topic in answer.topics if topic.error_code]
            if refused:
                raise SystemExit(f"{refused[0].name} is refused: {refused[0].error_code} {refused[0].error_message}")
    return time.monotonic() - begun


def _wait_fenced(nodes: LocalNodes, asked: int, gone: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        with Client(f"127.0.0.1:{nodes.port(asked)}", _TIMEOUT_SECONDS) as client:
            if gone not in {broker.node_id for broker in describe_cluster(client).brokers if not broker.is_fenced}:
                return
        time.sleep(_LOOK_SECONDS)
    raise SystemExit(f"node {gone} is not fenced")


def _longest(nodes: LocalNodes, since: int) -> float:
    return max((turn.milliseconds for turn in nodes.turns[since:] if turn.phase == "serving"), default=0.0)


def _settle(nodes: LocalNodes) -> float:
    """Wait until the nodes take no less CPU than `_QUIET_SECONDS` before, their logs open; the CPU seconds of all by then.

    Tens of thousands of logs are looked after all the time, so idle nodes take some, too.
    """
    taken, rate = _cpu_of(nodes), math.inf
    for _ in range(_LOOKS_MAX):
        time.sleep(_QUIET_SECONDS)
        now = _cpu_of(nodes)
        before, rate = rate, now - taken
        taken = now
        if 0.9 * before < rate < _QUIET_SECONDS * len(os.sched_getaffinity(0)) / 2:
            break
    return taken


def _cpu_of(nodes: LocalNodes) -> float:
    return sum(cpu_seconds_of_tree(nodes.process_id(node_id)) for node_id in nodes.running)


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder, LocalNodes(folder) as nodes:
        nodes.start()
        nodes.wait_ready()
        active = nodes.active()
        before = nodes.quorum(active)
        gone = next(one for one in nodes.node_ids if one != active)
        asked = next(one for one in nodes.node_ids if one not in {active, gone})
        created = _create(nodes.port(asked))
        taken = _settle(nodes)
        turns = {"create": _longest(nodes, 0)}
        print(
            f"  created in {created:.1f} s, CPU {taken:.0f} s, turn {turns['create']:.1f} ms",
            file=sys.stderr,
            flush=True,
        )
        seen = len(nodes.turns)
        killed_at = nodes.kill(gone)
        nodes.wait_ended(gone)
        _wait_fenced(nodes, asked, gone)
        fenced = time.monotonic() - killed_at
        _settle(nodes)
        turns["fence"] = _longest(nodes, seen)
        print(f"  fenced in {fenced:.1f} s, turn {turns['fence']:.1f} ms", file=sys.stderr, flush=True)
        seen, begun = len(nodes.turns), time.monotonic()
        nodes.start(gone)
        nodes.wait_ready(gone, seconds=_RETURN_SECONDS)
        back = nodes.ready_at(gone) - begun
        _settle(nodes)
        turns["return"] = _longest(nodes, seen)
        print(f"  back in {back:.1f} s, turn {turns['return']:.1f} ms", file=sys.stderr, flush=True)
        after = nodes.quorum(active)
        if before is None or after is None:
            raise SystemExit("the quorum cannot be described")
        return [
            _CREATED.outcome(created, cpu_seconds_of_all=taken),
            _FENCED.outcome(fenced),
            _BACK.outcome(back),
            _TURN.outcome(max(turns.values()), **turns),
            _ELECTIONS.outcome(float(after.leader_epoch - before.leader_epoch)),
        ]


CELL = Cell("many-partitions", (_CREATED, _FENCED, _BACK, _TURN, _ELECTIONS), _measure)
