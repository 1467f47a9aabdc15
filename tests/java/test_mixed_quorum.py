"""A voter of Apache Kafka among two of ours: elections, one log, snapshots of either side loaded by the other."""

from __future__ import annotations

import re
from itertools import takewhile

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.client.admin import ConfigSource, describe_topic_configs
from stratalog.client.client import Client
from tests.java.mixed_nodes import LOWERED, MixedCluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

QUORUM = "MetadataQuorumCommand"
TOPICS = 40


def status(tools, mixed: MixedCluster, until) -> dict[str, int]:
    """The numbers of ``kafka-metadata-quorum describe --status``.

    A program that Kafka's voter tells of no controller, in the middle of an election, asks no more and ends when its time is
    over; then it is run again. Voters of ours name the last leader.
    """
    command = (
        QUORUM,
        "--bootstrap-controller",
        mixed.servers,
        "--command-config",
        str(mixed.hasty),
        "describe",
        "--status",
    )
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


def elect(tools, mixed: MixedCluster, until, heir: int | None = None) -> int:
    """Kill the leader; return the one that is elected then.

    For a heir to be elected, the third voter goes down first and comes back last: it lacks records that are committed.
    """
    before = status(tools, mixed, until)
    leader = before["LeaderId"]
    behind = [] if heir is None else [node for node in mixed.controllers if node.node_id not in {leader, heir}]
    for node in behind:
        mixed.kill(node.node_id)
        until(lambda node=node: status(tools, mixed, until)["HighWatermark"] > node.end_offset)
    mixed.kill(leader)
    for node in behind:
        mixed.start(node.node_id)
    after = status(tools, mixed, until)
    assert after["LeaderId"] in ({1, 2, 3} - {leader} if heir is None else {heir})
    assert after["LeaderEpoch"] > before["LeaderEpoch"]
    mixed.start(leader)
    assert_same_log(tools, mixed, until)
    return after["LeaderId"]


def test_a_voter_of_kafka_and_two_of_ours_lead_in_turn(tools, cluster, until) -> None:
    """The leader is killed until each has been elected, and comes back as a follower; all of them keep one log."""
    mixed = cluster()
    mixed.add("kafka", 1, "controller")
    mixed.add("ours", 2, "controller")
    mixed.add("ours", 3, "controller")
    mixed.format(*LOWERED)
    mixed.start()
    anybody = elect(tools, mixed, until)
    for heir in sorted({1, 2, 3} - {anybody}):
        elect(tools, mixed, until, heir)


def snapshots(node) -> dict[str, bytes]:
    """The snapshots of its metadata log by name, without the one that names the first voters."""
    return {path.name: path.read_bytes() for path in node.metadata.glob("*.checkpoint") if int(path.name[:20])}


def assert_loaded(until, giver, taker) -> str:
    """The taker has a snapshot of the giver's, byte for byte, and its log begins where that ends; returns the name."""
    (name, *_) = until(lambda: sorted(snapshots(taker)))
    assert snapshots(taker)[name] == snapshots(giver)[name]
    base, _ = until(taker.batches)[0]
    assert base == int(name[:20])
    return name


def make_topics(address: str, kind: str) -> None:
    """So many that each node writes a snapshot."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    wanted = [
        NewTopic(f"{kind}{number}", 2, 1, config={"retention.ms": str(1000 + number)}) for number in range(TOPICS)
    ]
    for outcome in admin.create_topics(wanted, request_timeout=60).values():
        outcome.result()


def assert_knows(node, kind: str) -> None:
    """The controller itself tells the settings of topics. `kafka-configs` would list the topics first, which none does."""
    names = [f"{kind}{number}" for number in (0, TOPICS - 1)]
    with Client(node.controller) as client:
        found = describe_topic_configs(client, names)
    for number, name in zip((0, TOPICS - 1), names, strict=True):
        told = {one.name: one for one in found[name]}["retention.ms"]
        assert (told.value, told.source) == (str(1000 + number), ConfigSource.TOPIC)


def replicas(tools, mixed: MixedCluster, node, role: str) -> set[int]:
    """The ids of the replicas that this controller's leader describes in a role, with all of the log."""
    at = ("--bootstrap-controller", node.controller, "--command-config", str(mixed.hasty))
    said = tools.run(QUORUM, *at, "describe", "--replication").out
    return {int(row[0]) for row in map(str.split, said.splitlines()[1:]) if row and row[-1] == role}


def hand_over(tools, mixed: MixedCluster, until, giver, taker) -> None:
    """The taker's voter joins by Kafka's program, and the giver's leaves: the taker leads then.

    A busy newcomer may answer too late what it can run (2 s, as in Kafka): it is added again then.
    """
    at = ("--bootstrap-controller", giver.controller)
    until(lambda: taker.node_id in replicas(tools, mixed, giver, "Observer"))

    def joined() -> bool:
        tools.run(QUORUM, *at, "--command-config", str(taker.config), "add-controller")
        return taker.node_id in replicas(tools, mixed, giver, "Follower")

    until(joined)
    leaving = ("--controller-id", str(giver.node_id), "--controller-directory-id", giver.directory)
    tools.run(QUORUM, *at, "remove-controller", *leaving).ok()
    until(lambda: taker.node_id in replicas(tools, mixed, taker, "Leader"))


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
    name = assert_loaded(until, first, theirs)
    hand_over(tools, mixed, until, first, theirs)
    assert_knows(theirs, "of-ours-")

    make_topics(broker.address, "of-kafka-")
    until(lambda: max(snapshots(theirs)) > name)
    mixed.start(3)
    assert_loaded(until, theirs, last)
    hand_over(tools, mixed, until, theirs, last)
    for kind in ("of-ours-", "of-kafka-"):
        assert_knows(last, kind)
    listed = tools.run("TopicCommand", "--bootstrap-server", broker.address, "--list").ok().split()
    assert len(listed) == 2 * TOPICS
    for node in mixed.nodes.values():
        tools.dump(node.metadata_files(), "--cluster-metadata-decoder", "--deep-iteration").clean()
