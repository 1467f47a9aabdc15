"""kafkajs while the active controller is killed, and a broker that leads nothing."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.client.client import Client
from stratalog.client.quorum import QuorumAdmin
from tests.java.conftest import Clients
from tests.java.mixed_nodes import MixedCluster

pytestmark = [pytest.mark.node, pytest.mark.timeout(1200)]

PROGRAM = str(Path(__file__).parent / "kafkajs" / "kills.mjs")
TOPIC = "steady"


@pytest.fixture
def mixed(tmp_path) -> Iterator[MixedCluster]:
    """Three controllers and two brokers, all of them ours."""
    made = MixedCluster(None, tmp_path)
    for node_id in (1, 2, 3):
        made.add("ours", node_id, "controller")
    for node_id in (11, 12):
        made.add("ours", node_id, "broker")
    made.format()
    made.start()
    yield made
    made.kill()


@pytest.fixture
def program(kafkajs, mixed):
    """Starts a function of the program; its output is piped."""

    def start(name: str, topic: str) -> subprocess.Popen:
        return subprocess.Popen(
            ["node", PROGRAM, name, mixed.brokers, topic], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "KAFKAJS_DIRECTORY": str(kafkajs), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        )  # fmt: skip

    return start


def active(mixed: MixedCluster) -> int:
    """The active controller, as broker 11 tells."""
    with Client(mixed.nodes[11].address) as client:
        return QuorumAdmin(client).describe().leader_id


def test_acknowledged_records_of_kafkajs_are_read_and_its_topics_are_created(mixed, program) -> None:
    """It writes on, and each command that comes right after a kill is answered."""
    create = program("createTopic", TOPIC)
    create.communicate(timeout=120)
    assert create.returncode == 0
    with program("writeUntilToldToStop", TOPIC) as writer:
        lines = [writer.stdout.readline() for _ in range(100)]
        for name, victim in (("controller", active(mixed)), ("idle", 12)):
            mixed.kill(victim)
            begun = time.monotonic()
            create = program("createTopic", name)
            create.communicate(timeout=120)
            assert create.returncode == 0
            print(f"{name} killed: a topic was created after {time.monotonic() - begun:.2f} s")
            lines += [writer.stdout.readline() for _ in range(100)]
            mixed.start(victim)
        writer.stdin.close()
        lines += writer.stdout.readlines()  # `communicate` would not see what the reader has buffered
        assert writer.wait(120) == 0
    acknowledged = [json.loads(line) for line in lines]
    read = {(0, row[0]): row[2].decode() for row in Clients.read(mixed.nodes[11].address, TOPIC)}
    assert {(one["partition"], one["offset"]): one["value"] for one in acknowledged}.items() <= read.items()
    assert len(acknowledged) >= 300
