"""A cluster of Kafka Connect workers: a group of a protocol of its own, compacted topics, transactions of its leader."""

from __future__ import annotations

import json
import socket
import urllib.request

import pytest

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

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


@pytest.fixture(scope="module")
def broker(kafka, serve):
    return serve("group.initial.rebalance.delay.ms=0", "log.cleaner.backoff.ms=500")


class Worker:
    """A distributed worker, with its REST interface on a port of its own."""

    def __init__(self, background, broker, directory, number: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        config = directory / f"worker-{number}"
        settings = SETTINGS | {"bootstrap.servers": broker.address, "listeners": self.url}
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


def test_a_cluster_of_workers_copies_each_line_once(background, broker, clients, until, tmp_path) -> None:
    """Two workers with an exactly-once source; the one that has its task is killed: each line is in the topic once."""
    workers = [Worker(background, broker, tmp_path, number) for number in range(2)]
    until(lambda: all(worker.ask("/connectors") == [] for worker in workers))
    source = tmp_path / "in"
    lines: list[str] = []

    def write(count: int) -> None:
        more = [f"line {len(lines) + n}" for n in range(count)]
        lines.extend(more)
        with source.open("a") as file:
            file.write("".join(f"{line}\n" for line in more))

    def committed() -> list[str]:
        return [value.decode() for _, _, value, _ in clients.read(broker.address, "once")]

    write(3000)
    until(lambda: workers[0].ask("/connectors", "POST", {"name": "reader", "config": READER | {"file": str(source)}}))
    until(lambda: workers[1].running("reader"))
    until(lambda: len(committed()) > 500)
    (task,) = workers[1].ask("/connectors/reader/status")["tasks"]
    (victim,) = [worker for worker in workers if worker.url.endswith(task["worker_id"])]
    (other,) = [worker for worker in workers if worker is not victim]
    write(3000)
    victim.program.kill()
    write(3000)
    until(lambda: other.running("reader") and len(committed()) >= len(lines))
    assert committed() == lines
