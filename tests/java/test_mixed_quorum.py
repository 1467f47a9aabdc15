"""A voter of Apache Kafka among two of ours: elections, one log, snapshots of either side loaded by the other."""

from __future__ import annotations

import re
from itertools import takewhile

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.java.mixed_nodes import LOWERED, MixedCluster, directory_id

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

QUORUM = "MetadataQuorumCommand"
TOPICS = 40


def status(tools, mixed: MixedCluster, until) -> dict[str, int]:
    """The numbers of ``kafka-metadata-quorum describe --status``.

    A program that Kafka's voter tells of no controller, in the middle of an election, asks no more and ends after 60 s; then
    it is run again. Voters of ours name the last leader.
    """
    command = (QUORUM, "--bootstrap-controller", mixed.servers, "describe", "--status")
    said = until(lambda: (done := tools.run(*command)).code == 0 and done.out)
    return {name: int(number) for name, number in re.findall(r"^(\w+): +(-?\d+)$", said, re.MULTILINE)}


def assert_same_log(tools, mixed: MixedCluster, until) -> int:
    """Below the high watermark every controller has the same bytes; returns that offset."""
    committed = status(tools, mixed, until)["HighWatermark"]
    logs = []
    for node in mixed.controllers:
        until(lambda node=node: node.end_offset >= committed)
        logs.append(b"".join(data for base, data in takewhile(lambda each: each[0] < committed, node.batches())))
    assert logs[0] == logs[1] == logs[2]
    assert len(logs[0]) > 72 * 10  # ten no-op records at least
    return committed


def test_a_voter_of_kafka_and_two_of_ours_lead_in_turn(tools, cluster, until) -> None:
    """The leader is killed until each has led, and comes back as a follower; all of them keep one log."""
    mixed = cluster()
    mixed.add("kafka", 1, "controller")
    mixed.add("ours", 2, "controller")
    mixed.add("ours", 3, "controller")
    mixed.format(*LOWERED)
    mixed.start()
    led: list[int] = []
    while set(led) != {1, 2, 3}:
        assert len(led) < 12, led
        before = status(tools, mixed, until)
        led.append(before["LeaderId"])
        mixed.kill(led[-1])
        after = status(tools, mixed, until)
        assert after["LeaderId"] != led[-1]
        assert after["LeaderEpoch"] > before["LeaderEpoch"]
        mixed.start(led[-1])
        assert_same_log(tools, mixed, until)


def snapshots(node) -> dict[str, bytes]:
    """The snapshots of its metadata log by name, without the one that names the first voters."""
    return {path.name: path.read_bytes() for path in node.metadata.glob("*.checkpoint") if int(path.name[:20])}


def make_topics(address: str, kind: str) -> None:
    """So many that each node writes a snapshot."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    wanted = [
        NewTopic(f"{kind}{number}", 2, 1, config={"retention.ms": str(1000 + number)}) for number in range(TOPICS)
    ]
    for outcome in admin.create_topics(wanted, request_timeout=60).values():
        outcome.result()


def assert_knows(tools, node, kind: str) -> None:
    """The controller itself tells the settings of topics."""
    for number in (0, TOPICS - 1):
        said = tools.run(
            "kafka.admin.ConfigCommand", "--bootstrap-controller", node.controller, "--describe", "--entity-type",
            "topics", "--entity-name", f"{kind}{number}",
        ).ok()  # fmt: skip
        assert f"retention.ms={1000 + number} " in said


def replicas(tools, node, role: str) -> set[int]:
    """The ids of the replicas that this controller's leader describes in a role, with all of the log."""
    said = tools.run(QUORUM, "--bootstrap-controller", node.controller, "describe", "--replication").out
    return {int(row[0]) for row in map(str.split, said.splitlines()[1:]) if row and row[-1] == role}


def hand_over(tools, until, giver, taker) -> None:
    """The taker's voter joins by Kafka's program, and the giver's leaves: the taker leads then.

    A busy newcomer may answer too late what it can run (2 s, as in Kafka): it is added again then.
    """
    at = ("--bootstrap-controller", giver.controller)
    until(lambda: taker.node_id in replicas(tools, giver, "Observer"))

    def joined() -> bool:
        tools.run(QUORUM, *at, "--command-config", str(taker.config), "add-controller")
        return taker.node_id in replicas(tools, giver, "Follower")

    until(joined)
    leaving = ("--controller-id", str(giver.node_id), "--controller-directory-id", directory_id(giver.node_id))
    tools.run(QUORUM, *at, "remove-controller", *leaving).ok()
    until(lambda: taker.node_id in replicas(tools, taker, "Leader"))


def test_snapshots_of_one_side_are_loaded_by_the_other(tools, cluster, until) -> None:
    """Ours by a new controller of Kafka, which then leads alone; Kafka's by a new controller of ours, which leads after it."""
    mixed = cluster("metadata.log.max.record.bytes.between.snapshots=2500")
    broker = mixed.add("ours", 9, "broker")
    first, theirs, last = mixed.add("ours", 1, "controller"), mixed.add("kafka", 2, "controller"), mixed.add("ours", 3, "controller")  # fmt: skip
    mixed.format(*LOWERED, voters=(1,))
    mixed.start(1, 9)
    make_topics(broker.address, "of-ours-")
    until(lambda: snapshots(first))

    mixed.start(2)
    (name, *_) = until(lambda: sorted(snapshots(theirs)))
    assert snapshots(theirs)[name] == snapshots(first)[name]
    hand_over(tools, until, first, theirs)
    assert_knows(tools, theirs, "of-ours-")

    make_topics(broker.address, "of-kafka-")
    until(lambda: max(snapshots(theirs)) > name)
    mixed.start(3)
    (name, *_) = until(lambda: sorted(snapshots(last)))
    assert snapshots(last)[name] == snapshots(theirs)[name]
    hand_over(tools, until, theirs, last)
    for kind in ("of-ours-", "of-kafka-"):
        assert_knows(tools, last, kind)
    listed = tools.run("TopicCommand", "--bootstrap-server", broker.address, "--list").ok().split()
    assert len(listed) == 2 * TOPICS
    for node in mixed.nodes.values():
        tools.dump(node.metadata_files(), "--cluster-metadata-decoder", "--deep-iteration").clean()
