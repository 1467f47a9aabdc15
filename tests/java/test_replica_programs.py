"""Kafka's programs for replicas at three nodes of ours: moves, elections, what lacks replicas, sizes and equality."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.java.mixed_nodes import MixedCluster
from tests.java.reassignments import PROGRAM, Reassignment
from tests.java.replica_files import assert_equal_batches
from tests.java.steady_clients import SteadyGroup, SteadyProducer, assert_read_once
from tests.java.test_mixed_replicas import all_in_sync, create, in_sync

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

SETTINGS = "offsets.topic.replication.factor=3\nunclean.leader.election.interval.ms=86400000"
ELECT = "LeaderElectionCommand"
ROW = re.compile(r"Topic: (\S+)\s+Partition: (\d+)")


@pytest.fixture(scope="module")
def three(tools, tmp_path_factory) -> Iterator[MixedCluster]:
    """Three nodes of ours that are broker and controller."""
    made = MixedCluster(tools, tmp_path_factory.mktemp("three"), SETTINGS)
    for node_id in (1, 2, 3):
        made.add("ours", node_id, "broker,controller")
    made.format()
    made.start()
    yield made
    made.kill()


def test_replicas_are_added_and_taken_away(tools, clients, three, until, tmp_path) -> None:
    """From one to three and back to one, elsewhere, under a producer and a group; a move that is stuck is cancelled."""
    topic = "moved"
    create(tools, three, "1,2", topic)
    producer = SteadyProducer(clients, three.brokers, topic, 2, value_bytes=1000)
    group = SteadyGroup(three.brokers, topic)

    def go(placed) -> None:
        plan = Reassignment(tools, three, tmp_path, {(topic, number): to for number, to in placed.items()})
        plan.execute()
        until(plan.completed)
        producer.wrote(until)
        found = in_sync(three.brokers, topic)
        assert {number: (isr, replicas) for number, (_, isr, replicas) in found.items()} == {
            number: (set(to), set(to)) for number, to in placed.items()
        }

    try:
        producer.wrote(until)
        for to in ({0: (1, 2, 3), 1: (2, 3, 1)}, {0: (3,), 1: (1,)}, {0: (2, 1, 3), 1: (3, 2, 1)}, {0: (2,), 1: (2,)}):
            go(to)
        three.kill(3)
        stuck = Reassignment(tools, three, tmp_path, {(topic, 0): (3,), (topic, 1): (2, 3, 1)})
        stuck.execute()
        listed = tools.run(PROGRAM, "--bootstrap-server", three.nodes[1].address, "--list").ok()
        assert f"{topic}-0: replicas: 3,2. adding: 3. removing: 2." in listed
        assert (
            f"{topic}-1: replicas: 2,3,1. adding: 3,1." in listed
            or f"{topic}-1: replicas: 2,3,1. adding: 1,3." in listed
        )
        assert set(stuck.states().values()) == {"still in progress"}
        stuck.cancel()
        assert {number: replicas for number, (_, _, replicas) in in_sync(three.nodes[1].address, topic).items()} == {0: {2}, 1: {2}}  # fmt: skip
        three.start(3)
    finally:
        producer.stop()
        group.stop()
    assert not producer.failed
    assert not group.failed
    assert assert_read_once(clients, three.brokers, topic, producer, (0, 1)) == len(producer.values)
    assert set(group.values.values()) <= producer.values
    assert all(len(set(places)) == len(places) for places in group.read.values())


def test_a_plan_is_made(tools, three, tmp_path) -> None:
    """--generate: the placement now, and one over other brokers."""
    create(tools, three, "1:2,2:1", "planned")
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"version": 1, "topics": [{"topic": "planned"}]}))
    said = tools.run(
        PROGRAM, "--bootstrap-server", three.brokers, "--generate", "--topics-to-move-json-file", str(path),
        "--broker-list", "2,3",
    ).ok()  # fmt: skip
    now, then = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
    assert sorted(row["replicas"] for row in now["partitions"]) == [[1, 2], [2, 1]]
    assert {broker for row in then["partitions"] for broker in row["replicas"]} == {2, 3}


def test_preferred_and_unclean_leaders_are_elected(tools, clients, three, until) -> None:
    """The first replica leads again by hand; one that lacks acknowledged records leads only by an unclean election."""
    topic, at = "elected", ("--bootstrap-server", three.brokers)
    named = ("--topic", topic, "--partition", "0")
    create(tools, three, "1:2", topic)
    clients.load(three.brokers, "none", [(topic, 0, b"%d" % number, 0) for number in range(10)])
    three.kill(1)
    until(lambda: in_sync(three.nodes[2].address, topic)[0][:2] == (2, {2}))
    three.start(1)
    until(lambda: all_in_sync(three.brokers, topic))
    assert in_sync(three.brokers, topic)[0][0] == 2
    said = tools.run(ELECT, *at, "--election-type", "preferred", *named).ok()
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in said
    assert in_sync(three.brokers, topic)[0][0] == 1
    said = tools.run(ELECT, *at, "--election-type", "preferred", *named).ok()
    assert f"Valid replica already elected for partitions {topic}-0" in said
    said = tools.run(ELECT, *at, "--election-type", "unclean", *named).ok()
    assert f"Valid replica already elected for partitions {topic}-0" in said

    three.kill(2)
    until(lambda: in_sync(three.nodes[1].address, topic)[0][:2] == (1, {1}))
    clients.load(three.brokers, "none", [(topic, 0, b"gone %d" % number, 0) for number in range(5)])
    three.kill(1)
    three.start(2)
    until(lambda: in_sync(three.nodes[3].address, topic)[0][0] == -1)
    left = ("--bootstrap-server", f"{three.nodes[2].address},{three.nodes[3].address}")
    refused = tools.run(ELECT, *left, "--election-type", "preferred", *named).refused()
    assert "PreferredLeaderNotAvailableException" in refused
    said = tools.run(ELECT, *left, "--election-type", "unclean", *named).ok()
    assert f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0" in said
    until(lambda: in_sync(three.nodes[3].address, topic)[0][0] == 2)
    assert [row[2] for row in clients.read(three.nodes[2].address, topic)] == [b"%d" % number for number in range(10)]
    clients.load(three.nodes[2].address, "none", [(topic, 0, b"new", 0)])
    three.start(1)
    until(lambda: all_in_sync(three.brokers, topic))
    tools.run(ELECT, *at, "--election-type", "preferred", *named)
    assert [row[2] for row in clients.read(three.brokers, topic)][10:] == [b"new"]


def test_partitions_that_lack_replicas_are_named(tools, three, until) -> None:
    """Each filter of kafka-topics, with all brokers and without one."""
    at = ("--bootstrap-server", f"{three.nodes[1].address},{three.nodes[2].address}")
    wanted = {"one": ("3", 1), "any": ("1:2:3", 1), "two": ("2:3:1", 2), "all": ("3:1:2", 3)}
    for topic, (replicas, minimum) in wanted.items():
        create(tools, three, replicas, topic, f"min.insync.replicas={minimum}")

    def named(which: str) -> set[str]:
        said = tools.run("TopicCommand", *at, "--describe", f"--{which}-partitions").ok()
        return {topic for topic, _ in ROW.findall(said) if topic in wanted}

    filters = ("under-replicated", "unavailable", "at-min-isr", "under-min-isr")
    assert {which: named(which) for which in filters} == {
        "under-replicated": set(), "unavailable": set(), "at-min-isr": {"one", "all"}, "under-min-isr": set(),
    }  # fmt: skip
    three.kill(3)
    until(lambda: named("unavailable"))
    assert {which: named(which) for which in filters} == {
        "under-replicated": {"one", "any", "two", "all"},
        "unavailable": {"one"},
        "at-min-isr": {"two"},
        "under-min-isr": {"one", "all"},
    }
    three.start(3)
    until(lambda: not named("under-replicated"))


def test_log_dirs_tells_sizes_of_replicas(tools, clients, three, until) -> None:
    """kafka-log-dirs: each broker tells its replicas, none behind, with the sizes of their files."""
    topic = "sizes"
    create(tools, three, "1:2:3,2:3:1", topic)
    clients.load(three.brokers, "none", [(topic, number % 2, b"x" * 100, 0) for number in range(1000)])
    at = ("--bootstrap-server", three.brokers)

    def told() -> dict[tuple[int, str], dict]:
        said = tools.run("LogDirsCommand", *at, "--describe", "--topic-list", topic).ok()
        answer = json.loads(said.splitlines()[-1])
        return {
            (broker["broker"], row["partition"]): row
            for broker in answer["brokers"]
            for directory in broker["logDirs"]
            for row in directory["partitions"]
        }

    until(lambda: len({row["size"] for row in told().values()}) <= 2)
    rows = told()
    assert rows.keys() == {(node_id, f"{topic}-{number}") for node_id in (1, 2, 3) for number in (0, 1)}
    for (node_id, name), row in rows.items():
        held = sum(path.stat().st_size for path in (three.nodes[node_id].data / name).glob("*.log"))
        assert (row["size"], row["offsetLag"], row["isFuture"]) == (held, 0, False)


def test_replicas_are_verified(background, tools, clients, three, until) -> None:
    """kafka-replica-verification reads all three replicas and finds no lag; DumpLogSegments finds the same batches."""
    topic = "verified"
    create(tools, three, "1:2:3", topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        clients.load(three.brokers, codec, [(topic, 0, b"x%d" % number * 50, 0) for number in range(300)])
    until(lambda: len({(node.data / f"{topic}-0" / f"{0:020}.log").stat().st_size for node in three.controllers}) == 1)
    assert assert_equal_batches(tools, three.controllers, f"{topic}-0") >= 5
    verifying = background(
        "ReplicaVerificationTool", "--broker-list", three.brokers, "--topics-include", topic, "--time", "-2",
        "--report-interval-ms", "500",
    )  # fmt: skip
    until(lambda: verifying.alive() and f"max lag is 0 for partition {topic}-0 at offset 1500 " in verifying.said)
    verifying.kill()
    assert "doesn't match" not in verifying.said
    assert "unmatched" not in verifying.said
