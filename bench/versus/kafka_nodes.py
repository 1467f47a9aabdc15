"""Three nodes of Apache Kafka on this machine, each broker and controller, with a heap of 1 GiB."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.build import cubic_environment
from bench.processes import cpu_seconds_of_tree
from bench.versus.kafka import CLUSTER_ID, HEAP, free_port, java
from stratalog.client.client import BrokerAway, Client
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.metadata import MetadataRequest

__all__ = ["KafkaNodes"]

_COUNT: Final = 3
_READY_SECONDS: Final = 180.0


class KafkaNodes:
    """The nodes below ``folder``; they start when the context is entered and end when it is left."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._ports = {node_id: (free_port(), free_port()) for node_id in range(1, _COUNT + 1)}
        self._processes: list[subprocess.Popen[str]] = []

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for clients."""
        return ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())

    def cpu_seconds(self) -> float:
        """The CPU time that all nodes have used."""
        return sum(cpu_seconds_of_tree(one.pid) for one in self._processes)

    def __enter__(self) -> Self:
        files = [self._properties(node_id) for node_id in self._ports]
        for properties in files:
            storage = java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
            subprocess.run(storage, check=True, capture_output=True)
        for properties in files:
            with properties.with_suffix(".log").open("a") as log:
                command = java("kafka.Kafka", str(properties), heap=HEAP)
                self._processes.append(
                    subprocess.Popen(command, stdout=log, stderr=log, text=True, env=cubic_environment())
                )
        try:
            self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _properties(self, node_id: int) -> Path:
        port, controller = self._ports[node_id]
        voters = ",".join(f"{one}@127.0.0.1:{ports[1]}" for one, ports in self._ports.items())
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
        values = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": voters,
            "log.dirs": str(self._folder / f"node-{node_id}"),
            "log.segment.delete.delay.ms": "200",
        }
        path = self._folder / f"node-{node_id}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return path

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline and all(one.poll() is None for one in self._processes):
            try:
                with Client(self.bootstrap, timeout_seconds=5) as client:
                    if len(client.call(MetadataRequest(topics=[])).brokers) == _COUNT:
                        return
            except (BrokerAway, KafkaError, OSError):
                pass  # not listening yet, or not registered: asked again until the deadline
            time.sleep(0.1)
        raise SystemExit(f"Kafka's nodes did not get ready; their logs are in {self._folder}")
