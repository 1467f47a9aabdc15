"""Kafka's programs move a replica between the log directories of a broker of ours, and say where it lies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.java.reassignments import PROGRAM

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

LOG_DIRS = "LogDirsCommand"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def described(tools, address: str, topic: str) -> dict[str, dict]:
    """The rows of a topic by their directory, as kafka-log-dirs prints them."""
    said = tools.run(LOG_DIRS, "--bootstrap-server", address, "--describe", "--topic-list", topic).ok()
    (found,) = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    (broker,) = found["brokers"]
    return {one["logDir"]: row for one in broker["logDirs"] for row in one["partitions"]}


def test_a_replica_moves_within_a_throttle(tools, clients, serve, until, tmp_path) -> None:
    """--execute with log_dirs begins it, kafka-log-dirs shows the future log, --verify says when it is done and lifts the throttle."""
    folders = [str(tmp_path / name) for name in ("one", "two")]
    broker = serve(f"log.dirs={','.join(folders)}")
    at = ("--bootstrap-server", broker.address)
    tools.run("TopicCommand", *at, "--create", "--topic", "moved", "--partitions", "1").ok()
    values = [b"%d" % number + bytes(1000) for number in range(3000)]
    clients.load(broker.address, "none", [("moved", 0, value, 0) for value in values])
    (home,) = described(tools, broker.address, "moved")
    (other,) = set(folders) - {home}
    plan = tmp_path / "plan.json"
    rows = [{"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [other]}]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    named = (*at, "--reassignment-json-file", str(plan))

    said = tools.run(PROGRAM, *named, "--execute", "--replica-alter-log-dirs-throttle", "200000").ok()
    assert f"Successfully started moving log directory to {other} for replica moved-0 with broker 1" in said, said
    found = described(tools, broker.address, "moved")
    assert found.keys() == {home, other}
    assert (found[home]["isFuture"], found[other]["isFuture"]) == (False, True)
    assert found[other]["offsetLag"] > 0
    said = tools.run(PROGRAM, *named, "--verify").ok()
    assert "is still in progress" in said, said
    faster = f"{RATE}=1000000000"
    tools.run(
        "kafka.admin.ConfigCommand",
        *at,
        "--alter",
        "--entity-type",
        "brokers",
        "--entity-name",
        "1",
        "--add-config",
        faster,
    ).ok()
    until(lambda: described(tools, broker.address, "moved").keys() == {other})
    said = tools.run(PROGRAM, *named, "--verify").ok()
    assert "Reassignment of replica moved-0-1 completed successfully." in said, said
    said = tools.run(
        "kafka.admin.ConfigCommand", *at, "--describe", "--entity-type", "brokers", "--entity-name", "1"
    ).ok()
    assert RATE not in said
    assert [row[2] for row in clients.read(broker.address, "moved")] == values
    broker.stop()
    assert not Path(home, "moved-0").exists()
    said = tools.run("DumpLogSegments", "--files", str(Path(other, "moved-0", f"{0:020d}.log"))).ok()
    assert "lastOffset: 2999" in said
