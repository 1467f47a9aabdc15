"""How long CreateTopics waits when the active controller of three nodes stops, is killed or stands still; how long stops take.

A client at each of the other two nodes creates one topic after the other. The later of the two counts. The longest
turn of any event loop after the nodes serve is reported beside it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bench.cell import Cell, Line
from bench.local_nodes import LocalNodes
from bench.outcome import Bound, Outcome, median
from bench.settings import Settings
from stratalog.client.admin import delete_topics
from stratalog.client.client import Client
from stratalog.client.link import BrokerAway, BrokerLink
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

__all__ = ["CELL"]

_BEFORE_SECONDS: Final = 0.3
_AFTER_SECONDS: Final = 0.7
_PAUSE_SECONDS: Final = 0.03
_TIMEOUT_SECONDS: Final = 30.0
_REPETITIONS_MIN: Final = 5
_FROZEN_SECONDS: Final = 6.0

_STOPPED = Line(
    "failover-stop", "s until the others answer CreateTopics, SIGTERM of the active controller", Bound("<=", 0.5)
)
_KILLED = Line(
    "failover-kill", "s until the others answer CreateTopics, SIGKILL of the active controller", Bound("<=", 2.0)
)
_FROZEN = Line(
    "failover-frozen", "s until the others answer CreateTopics, the active controller stands still", Bound("<=", 2.5)
)
_ENDED = Line("stop-controller", "s until the process of the stopped active controller has ended", Bound("<=", 2.0))
_ALL = Line("stop-cluster", "s until three nodes have stopped, one after the other", Bound("<=", 3.0))
_BACK = Line("return-killed", "s until a killed node serves again: the session of before has to end", Bound("<=", 12.0))
_TURN = Line("failover-turn", "ms of CPU in the longest turn of any node's loop meanwhile", Bound("<=", 50.0))


class _Call(NamedTuple):
    begun: float
    answered: float
    error: str


class _Creator(threading.Thread):
    """Creates one topic after the other at one node."""

    def __init__(self, port: int, prefix: str) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._prefix = prefix
        self._over = threading.Event()
        self.calls: list[_Call] = []
        self.created: list[str] = []

    def run(self) -> None:
        with BrokerLink("127.0.0.1", self._port, timeout_seconds=_TIMEOUT_SECONDS) as link:
            number = 0
            while not self._over.is_set():
                name = f"{self._prefix}-{number}"
                number += 1
                topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
                begun, error = time.monotonic(), ""
                try:
                    answer = link.call(CreateTopicsRequest(topics=[topic])).topics[0]
                    error = "" if not answer.error_code else f"{answer.error_code} {answer.error_message}"
                except (BrokerAway, KafkaError) as failure:
                    error = str(failure)
                self.calls.append(_Call(begun, time.monotonic(), error))
                if not error:
                    self.created.append(name)
                self._over.wait(_PAUSE_SECONDS)

    def end(self) -> None:
        """No more topics."""
        self._over.set()
        self.join()

    def answered_after(self, signalled: float) -> float:
        """Seconds from the signal to the first answer to a call behind it, or what any later call took, if that is more."""
        good = [call for call in self.calls if not call.error and call.begun >= signalled]
        if not good:
            raise SystemExit(f"no topic was created after the signal: {self.calls[-1].error}")
        return max(good[0].answered - signalled, *(call.answered - call.begun for call in good))


def _round(nodes: LocalNodes, name: str, end: Callable[[int], float]) -> tuple[float, float, float]:
    """End the active controller: seconds until the others answer, until it has ended, until it serves again."""
    active = nodes.active()
    creators = [_Creator(nodes.port(one), f"{name}-{one}") for one in nodes.node_ids if one != active]
    for creator in creators:
        creator.start()
    time.sleep(_BEFORE_SECONDS)
    signalled = end(active)
    ended, _ = nodes.wait_ended(active)
    time.sleep(_AFTER_SECONDS)
    for creator in creators:
        creator.end()
    answered = max(creator.answered_after(signalled) for creator in creators)
    refused = [call.error for creator in creators for call in creator.calls if call.error]
    if refused:
        print(f"  {len(refused)} calls refused, the first: {refused[0]}", file=sys.stderr, flush=True)
    nodes.start(active)
    begun = time.monotonic()
    nodes.wait_ready(active)
    back = nodes.ready_at(active) - begun
    with Client(nodes.bootstrap, _TIMEOUT_SECONDS) as client:
        delete_topics(client, [each for creator in creators for each in creator.created])
    return answered, ended - signalled, back


def _stop_all(nodes: LocalNodes) -> float:
    """Stop every node as ``stratalog dev`` does: the next one when one has ended."""
    begun = time.monotonic()
    for node_id in sorted(nodes.running, reverse=True):
        nodes.terminate(node_id)
        nodes.wait_ended(node_id)
    return time.monotonic() - begun


def _spread(figures: Sequence[float]) -> dict[str, float | str]:
    return {"count": float(len(figures)), "least": min(figures), "worst": max(figures)}


def _measure(settings: Settings) -> list[Outcome]:
    count = max(settings.repetitions, _REPETITIONS_MIN)
    lines = [_STOPPED, _KILLED, _FROZEN, _ENDED, _ALL, _BACK]
    found: dict[str, list[float]] = {line.cell: [] for line in lines}
    with settings.folder(settings.disk) as folder, LocalNodes(folder) as nodes:
        nodes.start()
        nodes.wait_ready()
        for number in range(count):
            answered, ended, _ = _round(nodes, f"stopped-{number}", nodes.terminate)
            found[_STOPPED.cell].append(answered)
            found[_ENDED.cell].append(ended)
            killed, _, back = _round(nodes, f"killed-{number}", nodes.kill)
            found[_KILLED.cell].append(killed)
            found[_BACK.cell].append(back)
            frozen, _, _ = _round(nodes, f"frozen-{number}", lambda node_id: nodes.freeze(node_id, _FROZEN_SECONDS))
            found[_FROZEN.cell].append(frozen)
            found[_ALL.cell].append(_stop_all(nodes))
            print(
                f"  stopped {answered:.2f} s (ended {ended:.2f}), killed {killed:.2f} s (back {back:.2f}), frozen {frozen:.2f} s, "
                f"all stopped {found[_ALL.cell][-1]:.2f} s",
                file=sys.stderr,
                flush=True,
            )
            nodes.start()
            nodes.wait_ready()
        turns = {
            phase: max((turn.milliseconds for turn in nodes.turns if turn.phase == phase), default=0.0)
            for phase in ("starting", "serving", "stopping")
        }
    return [
        *(line.outcome(median(found[line.cell]), **_spread(found[line.cell])) for line in lines),
        _TURN.outcome(turns["serving"], **turns),
    ]


CELL = Cell("failover", (_STOPPED, _KILLED, _FROZEN, _ENDED, _ALL, _BACK, _TURN), _measure)
