"""The nodes of one cluster on this machine, as ``stratalog dev --nodes`` runs them: a process each, linked directly."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from bench.build import broker_environment
from bench.processes import cpu_seconds_of_tree, pss_megabytes_of_tree
from bench.servers import parse_metric
from bench.watched_node import turn_ms_of
from stratalog.broker.control.control_plane import new_topic_id
from stratalog.broker.local_cluster.child_process import ChildProcess
from stratalog.broker.local_cluster.directories import choose_ports, make_cluster
from stratalog.broker.local_cluster.node_files import HOST, NodePorts, cluster_layout
from stratalog.broker.local_cluster.supervision import Ended, Wrote
from stratalog.client.client import BrokerAway, Client
from stratalog.client.quorum import Quorum, QuorumAdmin
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import uuid_text

__all__ = ["LocalNodes", "Turn"]

_ASK_SECONDS: Final = 2.0
_READY_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.02


class Turn(NamedTuple):
    """A long turn of a node's event loop, while its node was ``starting``, ``serving`` or ``stopping``."""

    node_id: int
    phase: str
    milliseconds: float


class _Run:
    """One start of one node."""

    def __init__(self) -> None:
        self.ready, self.ended = threading.Event(), threading.Event()
        self.ready_at = self.ended_at = 0.0
        self.code: int | None = None
        self.phase = "starting"
        self.child: ChildProcess | None = None


class LocalNodes:
    """``count`` nodes, each broker and controller, below ``folder``; leaving the context kills them."""

    def __init__(
        self, folder: Path, *, count: int = 3, settings: Mapping[str, str] | None = None, watched: bool = True
    ) -> None:
        """``watched``: whether the turns of their loops are timed, which costs each turn a microsecond."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        chosen = choose_ports([0] * (3 * count))
        self._ports = {
            node_id: NodePorts(clients=ports[0], controller=ports[1], http=ports[2])
            for node_id, ports in enumerate(zip(*[iter(chosen)] * 3, strict=True), 1)
        }
        layout = cluster_layout(
            list(self._ports.values()),
            str(folder),
            cluster_id=uuid_text(new_topic_id()),
            directory_ids=[new_topic_id() for _ in range(count)],
            bucket_url=f"file://{folder}/bucket",
            replicas=1,  # a cell that measures replicas asks for them
            settings={"stratalog.ballast.bytes": "0", **(settings or {})},
        )
        make_cluster(layout, now_ms=time.time_ns() // 1_000_000)
        self._paths = {node.node_id: node.properties_path for node in layout.nodes}
        self._environment = broker_environment()
        self._module = "bench.watched_node" if watched else "stratalog"
        self._runs: dict[int, _Run] = {}
        self.turns: list[Turn] = []
        """The long turns of all nodes so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node_id in self.running:
            self.kill(node_id)
        for run in self._runs.values():
            run.ended.wait(_READY_SECONDS)

    @property
    def node_ids(self) -> Sequence[int]:
        """All of them."""
        return tuple(self._paths)

    @property
    def running(self) -> Sequence[int]:
        """Those whose process runs."""
        return tuple(node_id for node_id, run in sorted(self._runs.items()) if not run.ended.is_set())

    @property
    def serving(self) -> Sequence[int]:
        """Those that have said that they are ready, and whose process runs."""
        return tuple(node_id for node_id in self.running if self._runs[node_id].ready_at)

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for clients."""
        return ",".join(f"{HOST}:{each.clients}" for each in self._ports.values())

    def port(self, node_id: int) -> int:
        """Where clients reach a node."""
        return self._ports[node_id].clients

    def properties_path(self, node_id: int) -> str:
        """The file that a node runs from."""
        return self._paths[node_id]

    def start(self, *node_ids: int) -> None:
        """Start these, or all that do not run."""
        for node_id in node_ids or [one for one in self.node_ids if one not in self.running]:
            run = self._runs[node_id] = _Run()
            command = [sys.executable, "-m", self._module, "serve", "--config", self._paths[node_id]]
            run.child = ChildProcess(
                node_id, command, lambda event, run=run: self._take(run, event), environment=self._environment
            )

    def _take(self, run: _Run, event: Wrote | Ended) -> None:
        now = time.monotonic()
        if isinstance(event, Ended):
            run.code, run.ended_at = event.code, now
            run.ended.set()
            run.ready.set()
            return
        turn_ms = turn_ms_of(event.text)
        if turn_ms is not None:
            self.turns.append(Turn(event.node_id, run.phase, turn_ms))
        with (self.folder / f"node-{event.node_id}.log").open("a") as log:
            log.write(f"{now:.3f} {event.text}\n")
        if event.on_stdout and event.text.startswith("ready "):
            run.ready_at, run.phase = now, "serving"
            run.ready.set()

    def process_id(self, node_id: int) -> int:
        """The process of a node's present run."""
        return self._child(node_id).pid

    def wait_ready(self, *node_ids: int, seconds: float = _READY_SECONDS) -> None:
        """Wait until these nodes serve, or all. Raises ``SystemExit`` for one that does not in so long."""
        for node_id in node_ids or self.node_ids:
            run = self._runs[node_id]
            if not run.ready.wait(seconds) or not run.ready_at:
                raise SystemExit(f"node {node_id} does not serve: see {self.folder}/node-{node_id}.log")

    def ready_at(self, node_id: int) -> float:
        """When the present run of a node served first."""
        return self._runs[node_id].ready_at

    def terminate(self, node_id: int) -> float:
        """Ask a node to stop, by SIGTERM; when that was."""
        at = time.monotonic()
        self._runs[node_id].phase = "stopping"
        self._child(node_id).terminate()
        return at

    def kill(self, node_id: int) -> float:
        """End a node at once, by SIGKILL; when that was."""
        at = time.monotonic()
        self._child(node_id).kill()
        return at

    def freeze(self, node_id: int, seconds: float) -> float:
        """Let a node stand still by SIGSTOP, as one whose machine is gone, and kill it so much later; when that was."""
        at = time.monotonic()
        child = self._child(node_id)
        os.kill(child.pid, signal.SIGSTOP)
        threading.Timer(seconds, child.kill).start()
        return at

    def wait_ended(self, node_id: int, seconds: float = _READY_SECONDS) -> tuple[float, int]:
        """When the process of a node ended, and its exit code. Raises ``SystemExit`` if it does not."""
        run = self._runs[node_id]
        if not run.ended.wait(seconds) or run.code is None:
            raise SystemExit(f"node {node_id} has not ended: see {self.folder}/node-{node_id}.log")
        return run.ended_at, run.code

    def _child(self, node_id: int) -> ChildProcess:
        child = self._runs[node_id].child
        assert child is not None
        return child

    def cpu_seconds(self, *node_ids: int) -> float:
        """The CPU time that these nodes, or all that run, have used, with their workers."""
        return sum(cpu_seconds_of_tree(self._child(one).pid) for one in node_ids or self.running)

    def pss_megabytes(self, node_id: int) -> float:
        """The memory of a node and its workers now, in 10**6 bytes."""
        return pss_megabytes_of_tree(self._child(node_id).pid)

    def metric(self, node_id: int, name: str, label: str = "") -> float:
        """The sum of a figure of a node's ``/metrics`` over its labels, or over those with ``label``, as `name="value"`."""
        address = f"http://{HOST}:{self._ports[node_id].http}/metrics"
        with urllib.request.urlopen(address, timeout=_READY_SECONDS) as answer:
            lines = [line for line in answer.read().decode().splitlines() if label in line]
        return parse_metric("\n".join(lines), name)

    def quorum(self, asked: int | None = None) -> Quorum | None:
        """The quorum as a node describes it; None if it does not."""
        at = self.bootstrap if asked is None else f"{HOST}:{self.port(asked)}"
        try:
            with Client(at, _ASK_SECONDS) as client:
                return QuorumAdmin(client).describe()
        except (BrokerAway, KafkaError):
            return None

    def active(self, seconds: float = _READY_SECONDS) -> int:
        """The active controller. Raises ``SystemExit`` if there is none in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.quorum()
            if found is not None and found.leader_id in self.running:
                return found.leader_id
            time.sleep(_LOOK_SECONDS)
        raise SystemExit(f"no controller is active after {seconds:g} s")
