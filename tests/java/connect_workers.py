"""Workers of Kafka Connect, and a source of it that copies the lines of a file exactly once."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SETTINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "service_load",
    "group.id": "connect",
    "config.storage.topic": "connect-configs",
    "config.storage.replication.factor": 1,
    "offset.storage.topic": "connect-offsets",
    "offset.storage.replication.factor": 1,
    "offset.storage.partitions": 2,
    "status.storage.topic": "connect-status",
    "status.storage.replication.factor": 1,
    "status.storage.partitions": 2,
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
    "rebalance.timeout.ms": 10_000,
    "scheduled.rebalance.max.delay.ms": 1000,
}
READER = {
    "name": "reader",
    "connector.class": SOURCE,
    "tasks.max": "1",
    "topic": "once",
    "batch.size": "100",
    "exactly.once.support": "required",
}


class Worker:
    """A distributed worker, with its REST interface on a port of its own."""

    def __init__(self, background, servers: str, directory: Path, number: int, **more: object) -> None:
        """``more``: settings that win over `SETTINGS`, with underscores for dots."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        config = directory / f"worker-{number}"
        own = {name.replace("_", "."): value for name, value in more.items()}
        settings = SETTINGS | own | {"bootstrap.servers": servers, "listeners": self.url}
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.program = background("org.apache.kafka.connect.cli.ConnectDistributed", str(config))

    def ask(self, path: str, method: str = "GET", body: object = None) -> object:
        """Answer of the REST interface; None without one."""
        self.program.alive()
        request = urllib.request.Request(
            f"{self.url}{path}", method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.loads(answer.read() or b"null")
        except OSError:
            return None

    def running(self, connector: str) -> bool:
        """Whether a connector and all of its tasks run."""
        status = self.ask(f"/connectors/{connector}/status")
        return bool(status) and {one["state"] for one in [status["connector"], *status["tasks"]]} == {"RUNNING"}


class Lines:
    """A file that grows; the source copies its lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: list[str] = []

    def write(self, count: int) -> None:
        """Write that many more lines."""
        more = [f"line {len(self.written) + n}" for n in range(count)]
        self.written += more
        with self.path.open("a") as file:
            file.write("".join(f"{line}\n" for line in more))


def begin_copying(workers: list[Worker], lines: Lines, until: Callable[[Callable[[], object]], object]) -> None:
    """Have the workers copy the lines, and wait until the task runs."""
    until(lambda: all(worker.ask("/connectors") == [] for worker in workers))
    reader = {"name": READER["name"], "config": READER | {"file": str(lines.path)}}
    until(lambda: workers[0].ask("/connectors", "POST", reader))
    until(lambda: workers[-1].running("reader"))
