"""Replicas of one partition on brokers of both kinds: a broker of Kafka copies ours, ours copies Kafka's, each dies as leader."""

from __future__ import annotations

import re

import pytest
from confluent_kafka.admin import AdminClient

from tests.java.mixed_nodes import LOWERED, MixedCluster
from tests.java.replica_files import assert_equal_replicas
from tests.java.steady_clients import SteadyProducer, assert_read_once

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

CONTROLLER, KAFKA, OURS, MORE_OURS = 1, 11, 21, 22
TOPIC = "t"
# Lines of Kafka's log that would mean that it could not copy what our leader has, or would not believe its answers.
KAFKA_COMPLAINS = re.compile(
    r"IllegalStateException|NullPointerException|Unexpected error|UnexpectedAppendOffset|"
    r"InvalidRecordException|CorruptRecordException|Error processing data for partition|SchemaException|BufferUnderflow"
)


def in_sync(address: str, topic: str = TOPIC) -> dict[int, tuple[int, set[int], set[int]]]:
    """Leader, in-sync replicas and replicas of each partition, as a broker tells them."""
    told = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(topic, timeout=60)
    return {
        number: (one.leader, set(one.isrs), set(one.replicas)) for number, one in told.topics[topic].partitions.items()
    }


def all_in_sync(address: str, topic: str = TOPIC) -> bool:
    """Whether every replica of every partition is in sync."""
    return all(isr == replicas and leader >= 0 for leader, isr, replicas in in_sync(address, topic).values())


def create(tools, mixed: MixedCluster, assignment: str, topic: str = TOPIC, *configs: str) -> None:
    """A topic of small segments with its replicas on these brokers."""
    wanted = ["--topic", topic, "--replica-assignment", assignment]
    for config in ("segment.bytes=1048576", *configs):
        wanted += ["--config", config]
    tools.run("TopicCommand", "--bootstrap-server", mixed.brokers, "--create", *wanted).ok()


def lead(tools, mixed: MixedCluster, until, topic: str = TOPIC) -> None:
    """Have the preferred replica of each partition lead."""
    until(lambda: all_in_sync(mixed.brokers, topic))
    at = ("--bootstrap-server", mixed.brokers)
    tools.run("LeaderElectionCommand", *at, "--election-type", "preferred", "--all-topic-partitions").ok()


def kill_and_return(tools, mixed: MixedCluster, until, producer: SteadyProducer, node_id: int) -> None:
    """Kill a broker that leads; the producer goes on at others, and on when it is back and in sync."""
    assert node_id in {leader for leader, _, _ in in_sync(mixed.brokers).values()}
    producer.wrote(until)
    mixed.kill(node_id)
    producer.wrote(until)
    mixed.start(node_id)
    lead(tools, mixed, until)
    producer.wrote(until)


def assert_no_complaints(mixed: MixedCluster) -> None:
    """Neither side logged a mistake of its own or of the other."""
    for node in mixed.nodes.values():
        if node.kind == "kafka":
            assert not KAFKA_COMPLAINS.findall(node.said()), node.folder.name
        else:
            assert "Traceback" not in node.said(), node.folder.name


@pytest.mark.parametrize(
    ("assignment", "kind"),
    [("11:21,21:11", "ours"), ("11:21:22,21:11:22,22:21:11", "ours"), ("11:21,21:11", "kafka")],
    ids=["two-replicas", "three-replicas", "controller-of-kafka"],
)
def test_leaders_of_either_kind_die_and_replicas_are_equal(tools, clients, cluster, until, assignment, kind) -> None:
    """Each broker is killed twice as leader: every acknowledged record is read once, and the replicas' files tell the same."""
    mixed = cluster()
    mixed.add(kind, CONTROLLER, "controller")
    mixed.add("kafka", KAFKA, "broker")
    mixed.add("ours", OURS, "broker")
    if str(MORE_OURS) in assignment:
        mixed.add("ours", MORE_OURS, "broker")
    mixed.format(*LOWERED)
    mixed.start()
    minimum = 2 if str(MORE_OURS) in assignment else 1
    create(tools, mixed, assignment, TOPIC, f"min.insync.replicas={minimum}")
    partitions = range(assignment.count(",") + 1)
    producer = SteadyProducer(clients, mixed.brokers, TOPIC, len(partitions), codec="lz4", value_bytes=1500)
    try:
        for node_id in (KAFKA, OURS) * 2:
            kill_and_return(tools, mixed, until, producer, node_id)
    finally:
        producer.stop()
    assert not producer.failed
    until(lambda: all_in_sync(mixed.brokers))
    count = assert_read_once(clients, mixed.brokers, TOPIC, producer, partitions)
    mixed.stop(*(node_id for node_id in mixed.nodes if node_id != CONTROLLER))
    for number in partitions:
        nodes = [node for node_id, node in mixed.nodes.items() if node_id != CONTROLLER]
        assert_equal_replicas(tools, nodes, f"{TOPIC}-{number}")
    assert_no_complaints(mixed)
    print(f"{len(producer.acknowledged):,} acknowledged, {count:,} read")
