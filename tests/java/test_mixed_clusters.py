"""Clusters of both kinds: nodes of Apache Kafka and of ours as brokers, controllers and voters of one another."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import Consumer

from tests.java.mixed_nodes import LOWERED

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

CONFIGS = "kafka.admin.ConfigCommand"
RECORDS = 500


def use(tools, clients, address: str, topic: str, replicas: int = 1) -> None:
    """Make a topic of two partitions through a broker, change its settings, write it and read it back."""
    at = ("--bootstrap-server", address)
    tools.run("TopicCommand", *at, "--create", "--topic", topic, "--partitions", "2",
              "--replication-factor", str(replicas)).ok()  # fmt: skip
    named = ("--entity-type", "topics", "--entity-name", topic)
    tools.run(CONFIGS, *at, "--alter", *named, "--add-config", "retention.ms=86400000").ok()
    records = [(topic, number % 2, b"value %d" % number, 1_700_000_000_000 + number) for number in range(RECORDS)]
    written = clients.load(address, "lz4", records)
    assert {partition: len(rows) for partition, rows in written.items()} == {(topic, 0): 250, (topic, 1): 250}
    for (_, number), rows in written.items():
        assert clients.read(address, topic, number) == rows
    assert "retention.ms=86400000" in tools.run(CONFIGS, *at, "--describe", *named).ok()
    assert joined(address, topic) == RECORDS
    told = tools.run(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *at, "--describe", "--group", topic
    ).ok()
    assert len(re.findall(rf"^{topic}\s+{topic}\s+[01]\s+250\s+250\s+0\s", told, re.MULTILINE)) == 2


def joined(address: str, topic: str) -> int:
    """How many records a group of one member, named like the topic, gets; it commits what it has read."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([topic])
    read = 0
    while read < RECORDS and (message := consumer.poll(60)) is not None:
        read += message.error() is None
    consumer.close()
    return read


def test_our_broker_serves_in_a_cluster_of_kafka(tools, clients, cluster) -> None:
    """Kafka's controller registers it, gives it partitions, takes requests that it forwards, and lets it go."""
    mixed = cluster()
    theirs, ours = mixed.add("kafka", 1, "controller"), mixed.add("ours", 4, "broker")
    mixed.format(*LOWERED)
    mixed.start()
    use(tools, clients, ours.address, "t")
    told = tools.run("TopicCommand", "--bootstrap-server", ours.address, "--describe", "--topic", "t").ok()
    assert len(re.findall(r"Leader: 4\s+Replicas: 4\s+Isr: 4\s", told)) == 2
    mixed.stop(4)
    assert ours.process.returncode == 0
    said = theirs.said()
    assert "request from broker 4 to unfence has been granted" in said
    assert "The request from broker 4 to shut down has been granted" in said
    mixed.start(4)
    assert len(clients.read(ours.address, "t", 1)) == RECORDS // 2


@pytest.mark.parametrize("controllers", [1, 3])
def test_brokers_of_kafka_serve_in_a_cluster_of_ours(tools, clients, cluster, until, controllers) -> None:
    """Our controller registers them, spreads partitions over them, takes their requests and lets them go, also after a kill."""
    mixed = cluster()
    ours = [mixed.add("ours", node_id, "controller") for node_id in range(1, 1 + controllers)]
    theirs = [mixed.add("kafka", node_id, "broker") for node_id in (11, 12)]
    mixed.format()
    mixed.start()
    use(tools, clients, theirs[0].address, "t")
    told = tools.run("TopicCommand", "--bootstrap-server", theirs[1].address, "--describe", "--topic", "t").ok()
    assert sorted(re.findall(r"Leader: (\d+)", told)) == ["11", "12"]
    if controllers > 1:
        said = tools.run("MetadataQuorumCommand", "--bootstrap-server", theirs[0].address, "describe", "--status").ok()
        active = int(re.search(r"LeaderId: +(\d+)", said)[1])
        mixed.kill(active)
        use(tools, clients, theirs[1].address, "u")
        mixed.start(active)
    mixed.stop(11)
    at = ("--bootstrap-server", theirs[1].address)
    until(lambda: re.search(r"Leader: none", tools.run("TopicCommand", *at, "--describe", "--topic", "t").ok()))
    mixed.start(11)
    assert sum(len(clients.read(theirs[0].address, "t", number)) for number in (0, 1)) == RECORDS
    tools.run("TopicCommand", *at, "--delete", "--topic", "t").ok()
    assert "t" not in tools.run("TopicCommand", *at, "--list").ok().split()
    until(lambda: not [path for node in theirs for path in node.data.glob("t-[01]")])
    for node in mixed.nodes.values():
        tools.dump(node.metadata_files(), "--cluster-metadata-decoder", "--deep-iteration").clean()
    mixed.stop(*(node.node_id for node in theirs), *(node.node_id for node in ours))
    assert [node.process.returncode for node in ours] == [0] * controllers
