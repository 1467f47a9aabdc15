"""A cluster of Kafka Connect workers: a group of a protocol of its own, compacted topics, transactions of its leader."""

from __future__ import annotations

import pytest

from tests.java.connect_workers import Lines, Worker, begin_copying

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def broker(kafka, serve):
    return serve("group.initial.rebalance.delay.ms=0", "log.cleaner.backoff.ms=500")


def test_a_cluster_of_workers_copies_each_line_once(background, broker, clients, until, tmp_path) -> None:
    """Two workers with an exactly-once source; the one that has its task is killed: each line is in the topic once."""
    workers = [Worker(background, broker.address, tmp_path, number) for number in range(2)]
    lines = Lines(tmp_path / "in")

    def committed() -> list[str]:
        return [value.decode() for _, _, value, _ in clients.read(broker.address, "once")]

    lines.write(3000)
    begin_copying(workers, lines, until)
    until(lambda: len(committed()) > 500)
    (task,) = workers[1].ask("/connectors/reader/status")["tasks"]
    (victim,) = [worker for worker in workers if worker.url.endswith(task["worker_id"])]
    (other,) = [worker for worker in workers if worker is not victim]
    lines.write(3000)
    victim.program.kill()
    lines.write(3000)
    until(lambda: other.running("reader") and len(committed()) >= len(lines.written))
    assert committed() == lines.written
