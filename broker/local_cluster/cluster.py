"""A cluster of real processes for tests: nodes are killed, stopped and started, and links between them are cut.

Clients reach each node directly. Nodes reach each other through proxies, in front of the listeners of controllers and of
brokers, so that the link between two of them can be cut.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from stratalog.broker.control.control_plane import new_topic_id
from stratalog.broker.local_cluster.child_process import ChildProcess, serve_command
from stratalog.broker.local_cluster.connection_owners import owner_of
from stratalog.broker.local_cluster.directories import child_environment, choose_ports, make_cluster
from stratalog.broker.local_cluster.link_proxies import LinkProxies
from stratalog.broker.local_cluster.node_files import HOST, ClusterLayout, NodePorts, cluster_layout
from stratalog.broker.local_cluster.supervision import Ended, Wrote
from stratalog.broker.runtime.clock import SystemClock
from stratalog.client.client import BrokerAway, Client
from stratalog.client.quorum import QuorumAdmin
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import uuid_text

__all__ = ["SETTINGS", "ClusterFault", "LocalCluster"]

T = TypeVar("T")

READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
ASK_SECONDS: Final = 2.0
LAST_LINES: Final = 30

SETTINGS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "stratalog.ballast.bytes": "0",
    "transaction.state.log.num.partitions": "3",
}
"""Where nodes for tests differ from those that serve."""


class ClusterFault(RuntimeError):
    """A node did not do what a test asked for, in time or at all; the message has its last lines."""


class Loop(Protocol):
    """An event loop in a thread of its own, as `LoopThread` is."""

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Carry ``work`` out on the loop and wait for its result."""
        ...


class _Run:
    """One start of one node."""

    def __init__(self, node_id: int, command: list[str], environment: Mapping[str, str], log_path: Path) -> None:
        self.node_id = node_id
        self.news = threading.Event()
        """Set when the node serves, or has ended."""
        self.is_ready = False
        self.code: int | None = None
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._writing = threading.Lock()
        self._log_path = log_path
        self.child = ChildProcess(node_id, command, self._take, environment=environment)

    def _take(self, event: Wrote | Ended) -> None:
        if isinstance(event, Ended):
            self.code = event.code
            self.news.set()
            return
        with self._writing, self._log_path.open("a") as log:
            log.write(f"{event.text}\n")
            self._lines.append(event.text)
        if event.on_stdout and event.text.startswith("ready "):
            self.is_ready = True
            self.news.set()

    def fault(self, sentence: str) -> ClusterFault:
        """The error that says what is wrong with this node, and shows its last lines."""
        with self._writing:
            lines = "".join(f"\n  {line}" for line in self._lines)
        return ClusterFault(f"node {self.node_id} {sentence}; {self._log_path} ends with{lines or ' nothing'}")


class LocalCluster:
    """``count`` nodes, each broker and controller, with their files below ``directory``; ``settings`` are for all of them.

    ``loop`` carries the proxies. ``command`` makes the command of a node from its properties file.
    """

    def __init__(
        self,
        directory: str,
        loop: Loop,
        *,
        count: int = 3,
        settings: Mapping[str, object] | None = None,
        command: Callable[[str], list[str]] = serve_command,
    ) -> None:
        self.directory = directory
        self._loop = loop
        self._command = command
        self._runs: dict[int, _Run] = {}
        self._proxies = LinkProxies(self._node_of)
        self._layout = self._laid_out(count, {name: str(value) for name, value in (settings or {}).items()})
        make_cluster(self._layout, now_ms=SystemClock().wall_ms())
        names = {name for node in self._layout.nodes for name in node.settings}
        self._environment = child_environment(os.environ, names)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The ids of all nodes, running or not."""
        return tuple(node.node_id for node in self._layout.nodes)

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the nodes whose process runs."""
        return tuple(node_id for node_id, run in sorted(self._runs.items()) if run.code is None)

    @property
    def bootstrap(self) -> str:
        """``HOST:PORT,…`` of all nodes, for clients."""
        return ",".join(map(self.address, self.node_ids))

    def address(self, node_id: int) -> str:
        """``HOST:PORT`` of one node, for clients."""
        return f"{HOST}:{self._ports[node_id].clients}"

    def log(self, node_id: int) -> str:
        """Everything that a node has written, over all of its starts."""
        path = self._log_path(node_id)
        return path.read_text() if path.exists() else ""

    def start(self, *node_ids: int) -> None:
        """Start nodes, or without arguments all that do not run; `wait_ready` waits for them."""
        for node_id in node_ids or set(self.node_ids) - set(self.running):
            if node_id in self.running:
                raise ClusterFault(f"node {node_id} runs already")
            self._loop.run(partial(self._proxies.let_in, node_id))
            path = next(node.properties_path for node in self._layout.nodes if node.node_id == node_id)
            self._runs[node_id] = _Run(node_id, self._command(path), self._environment, self._log_path(node_id))

    def stop(self, node_id: int, seconds: float = STOP_SECONDS) -> None:
        """Stop a node in order. Raises `ClusterFault` if that takes longer, or fails."""
        run = self._running(node_id)
        run.child.terminate()
        code = run.child.wait(seconds)
        if code is None:
            raise run.fault(f"has not stopped within {seconds:g} s")
        self._ended(run, code)
        if code:
            raise run.fault(f"ended with {code} when it was stopped")

    def kill(self, node_id: int) -> None:
        """End a node at once, by SIGKILL."""
        run = self._running(node_id)
        run.child.kill()
        code = run.child.wait(STOP_SECONDS)
        if code is None:
            raise run.fault("was killed and has not ended")
        self._ended(run, code)

    def partition(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Cut the link between two nodes, until `heal`; each still reaches the others, and clients reach both.

        With ``one_way`` nothing passes from the first to the second, and everything back.
        """
        if one == other or not {one, other} <= set(self.node_ids):
            raise ClusterFault(f"there is no link between nodes {one} and {other}")
        self._loop.run(lambda: self._proxies.cut(one, other, one_way=one_way))

    def isolate(self, node_id: int) -> None:
        """Cut the links of a node to all others, until `heal`."""
        for other in set(self.node_ids) - {node_id}:
            self.partition(node_id, other)

    def heal(self, one: int | None = None, other: int | None = None) -> None:
        """Let the link between two nodes carry again, or without arguments every link."""
        self._loop.run(lambda: self._proxies.heal(one, other))

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until every node that was started serves. Raises `ClusterFault` for one that ended, or does not in time."""
        deadline = SystemClock.monotonic() + seconds
        for node_id in self.node_ids:
            run = self._runs.get(node_id)
            if run is None or (run.code is not None and run.is_ready):
                continue
            if not run.news.wait(max(deadline - SystemClock.monotonic(), 0)):
                raise run.fault(f"does not serve after {seconds:g} s")
            if not run.is_ready:
                raise run.fault(f"ended with {run.code} before it served")

    def active_controller(self, seconds: float = READY_SECONDS) -> int:
        """The node that leads the quorum in the newest epoch that a running node knows; waits for one.

        Raises `ClusterFault` if none is known in time.
        """
        deadline = SystemClock.monotonic() + seconds
        while SystemClock.monotonic() < deadline:
            found = max(map(self._leader_seen_by, self.running), default=(-1, -1))
            if found[1] >= 0:
                return found[1]
            time.sleep(0.1)
        raise ClusterFault(f"no controller is active after {seconds:g} s; running: {self.running}")

    def discard(self) -> None:
        """End all processes and proxies for good; the files stay."""
        for run in self._runs.values():
            run.child.kill()
        for run in self._runs.values():
            run.child.wait(STOP_SECONDS)
        self._loop.run(self._proxies.close)

    def _leader_seen_by(self, node_id: int) -> tuple[int, int]:
        """Epoch and leader of the quorum as one node tells them; -1 where it does not."""
        try:
            with Client(self.address(node_id), ASK_SECONDS) as client:
                found = QuorumAdmin(client).describe()
        except (BrokerAway, KafkaError):
            return -1, -1
        return (found.leader_epoch, found.leader_id) if found.leader_id >= 0 else (-1, -1)

    def _ended(self, run: _Run, code: int) -> None:
        run.code = code
        self._loop.run(partial(self._proxies.refuse, run.node_id))

    def _running(self, node_id: int) -> _Run:
        run = self._runs.get(node_id)
        if run is None or run.code is not None:
            raise ClusterFault(f"node {node_id} does not run")
        return run

    def _node_of(self, client_port: int, proxy_port: int) -> int | None:
        return owner_of(client_port, proxy_port, {node_id: self._runs[node_id].child.pid for node_id in self.running})

    def _log_path(self, node_id: int) -> Path:
        return Path(self.directory, f"node-{node_id}.log")

    def _laid_out(self, count: int, settings: Mapping[str, str]) -> ClusterLayout:
        chosen = iter(choose_ports([0] * (4 * count)))
        self._ports: dict[int, NodePorts] = {}
        for node_id in range(1, count + 1):
            clients, brokers, controller, http = (next(chosen) for _ in range(4))
            self._ports[node_id] = NodePorts(
                clients=clients,
                brokers=brokers,
                controller=controller,
                http=http,
                told_brokers=self._proxied(node_id, brokers),
                told_controller=self._proxied(node_id, controller),
            )
        return cluster_layout(
            list(self._ports.values()),
            self.directory,
            cluster_id=uuid_text(new_topic_id()),
            directory_ids=[new_topic_id() for _ in range(count)],
            bucket_url=f"file://{self.directory}/bucket",
            settings={**SETTINGS, **settings},
        )

    def _proxied(self, node_id: int, port: int) -> int:
        return self._loop.run(lambda: self._proxies.open(node_id, port))
