"""The decisions over several nodes that run as processes of one terminal: what is said, who is stopped when. Pure.

Nodes are stopped one after the other, the one with the highest id first: each gives its partitions to the others, and the
quorum keeps a majority for as long as it can. A node that ends by itself is said with its last lines, and the others go on.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

from msgspec import Struct, field

__all__ = [
    "Action",
    "AllServe",
    "Ended",
    "Event",
    "Finish",
    "Kill",
    "Print",
    "Say",
    "StopAsked",
    "Supervisor",
    "Terminate",
    "Tick",
    "Wrote",
]

GRACE_MS: Final = 30_000
"""The time that a node has to stop in order before it is killed."""
TOGETHER_MS: Final = 50
"""Signals that come together count as one: timeout(1) sends its own to the process and again to the group."""
LAST_LINES: Final = 10


class Wrote(Struct, frozen=True):
    """A node wrote a line, on stdout or on stderr."""

    node_id: int
    text: str
    on_stdout: bool = False


class Ended(Struct, frozen=True):
    """The process of a node ended, with an exit code, or minus the number of a signal; its lines came before."""

    node_id: int
    code: int


class StopAsked(Struct, frozen=True):
    """A signal asks for the end."""

    signal_name: str


class Tick(Struct, frozen=True):
    """The time that `Supervisor.wakes_at_ms` named has come."""


class Print(Struct, frozen=True):
    """A line of the result, for stdout."""

    text: str


class AllServe(Struct, frozen=True):
    """Every node serves for the first time: the words of the ready line of each, by name, in the order of node ids."""

    nodes: tuple[Mapping[str, str], ...]


class Say(Struct, frozen=True):
    """A line about the work, for stderr."""

    text: str


class Terminate(Struct, frozen=True):
    """Ask a node to stop in order."""

    node_id: int


class Kill(Struct, frozen=True):
    """End a node at once."""

    node_id: int


class Finish(Struct, frozen=True):
    """No node is left; nothing is said after this."""

    failed: bool


Event = Wrote | Ended | StopAsked | Tick
Action = Print | Say | AllServe | Terminate | Kill | Finish


class _State(Enum):
    STARTING = auto()
    SERVING = auto()
    STOPPING = auto()
    KILLED = auto()
    ENDED = auto()


class _Node(Struct):
    state: _State = _State.STARTING
    ready: dict[str, str] = field(default_factory=dict)
    """The words of its ready line by name."""
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))


class Supervisor:
    """Decides over the nodes of one cluster from their start on."""

    def __init__(self, node_ids: Iterable[int], *, grace_ms: int = GRACE_MS) -> None:
        self._nodes = {node_id: _Node() for node_id in sorted(node_ids)}
        self._grace_ms = grace_ms
        self._asked_at_ms: int | None = None
        self._kill_at_ms: int | None = None
        self._failed = False
        self._told_cluster = False

    @property
    def wakes_at_ms(self) -> int | None:
        """When a `Tick` is due; None while nothing waits."""
        return self._kill_at_ms

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """The actions that answer ``event``, in order."""
        match event:
            case Wrote():
                return self._wrote(event)
            case Ended():
                return self._ended(event, now_ms)
            case StopAsked():
                return self._stop_asked(event, now_ms)
            case Tick():
                return self._tick(now_ms)

    def _wrote(self, event: Wrote) -> list[Action]:
        node = self._nodes[event.node_id]
        if event.on_stdout and node.state is _State.STARTING and event.text.startswith("ready "):
            node.state = _State.SERVING
            node.ready = dict(word.partition("=")[::2] for word in event.text.split()[1:])
            return [Print(f"ready node={event.node_id} {event.text.removeprefix('ready ')}"), *self._cluster_ready()]
        node.last_lines.append(event.text)
        return [Say(f"{event.node_id} | {event.text}")]

    def _cluster_ready(self) -> list[Action]:
        """The line of the whole cluster, once, when the last node of all serves."""
        if self._told_cluster or any(node.state is not _State.SERVING for node in self._nodes.values()):
            return []
        self._told_cluster = True
        words = tuple(node.ready for node in self._nodes.values())
        kafka = ",".join(each.get("kafka", "") for each in words)
        return [Print(f"ready nodes={len(words)} kafka={kafka} bucket={words[0].get('bucket', '')}"), AllServe(words)]

    def _ended(self, event: Ended, now_ms: int) -> list[Action]:
        node = self._nodes[event.node_id]
        before, node.state = node.state, _State.ENDED
        if before in {_State.STOPPING, _State.KILLED}:
            said: list[Action] = []
            if before is _State.STOPPING:
                how = "has stopped" if event.code == 0 else f"has stopped with {_code_words(event.code)}"
                said.append(Say(f"Node {event.node_id} {how}."))
            self._failed |= before is _State.KILLED or event.code != 0
        else:
            said = self._died(event, node)
        if all(each.state is _State.ENDED for each in self._nodes.values()):
            self._kill_at_ms = None
            return [*said, Finish(self._failed)]
        if self._asked_at_ms is not None and not self._is_stopping():
            said += self._stop_next(now_ms)
        return said

    def _died(self, event: Ended, node: _Node) -> list[Action]:
        self._failed = True
        others = [str(other) for other, each in self._nodes.items() if each.state is not _State.ENDED]
        if not others:
            go_on = "No node is left."
        elif len(others) == 1:
            go_on = f"Node {others[0]} goes on."
        else:
            go_on = f"Nodes {', '.join(others)} go on."
        said: list[Action] = [Say(f"Node {event.node_id} ended with {_code_words(event.code)}. {go_on}")]
        if node.last_lines:
            said.append(Say(f"The last lines of node {event.node_id}:"))
            said += [Say(f"  {line}") for line in node.last_lines]
        return said

    def _stop_asked(self, event: StopAsked, now_ms: int) -> list[Action]:
        if self._asked_at_ms is None:
            self._asked_at_ms = now_ms
            order = ", then ".join(str(node_id) for node_id in reversed(self._living()))
            return [Say(f"{event.signal_name}: stopping node {order}."), *self._stop_next(now_ms)]
        if now_ms - self._asked_at_ms < TOGETHER_MS:
            return []
        self._kill_at_ms = None
        said: list[Action] = [
            Say(f"Second {event.signal_name}: stopping at once; logs are recovered at the next start.")
        ]
        return said + self._kill([one for one in self._living() if self._nodes[one].state is not _State.KILLED])

    def _tick(self, now_ms: int) -> list[Action]:
        if self._kill_at_ms is None or now_ms < self._kill_at_ms:
            return []
        self._kill_at_ms = None
        late = [node_id for node_id, node in self._nodes.items() if node.state is _State.STOPPING]
        said: list[Action] = [
            Say(
                f"Node {node_id} has not stopped within {self._grace_ms / 1000:g} s and is killed; its log is recovered at "
                "the next start."
            )
            for node_id in late
        ]
        return said + self._kill(late)

    def _stop_next(self, now_ms: int) -> list[Action]:
        """Ask the living node with the highest id to stop."""
        node_id = self._living()[-1]
        self._nodes[node_id].state = _State.STOPPING
        self._kill_at_ms = now_ms + self._grace_ms
        return [Terminate(node_id)]

    def _kill(self, node_ids: Iterable[int]) -> list[Action]:
        actions: list[Action] = []
        for node_id in node_ids:
            self._nodes[node_id].state = _State.KILLED
            actions.append(Kill(node_id))
        return actions

    def _living(self) -> list[int]:
        return [node_id for node_id, node in self._nodes.items() if node.state is not _State.ENDED]

    def _is_stopping(self) -> bool:
        return any(node.state in {_State.STOPPING, _State.KILLED} for node in self._nodes.values())


def _code_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
