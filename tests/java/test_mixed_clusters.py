"""Clusters of both kinds: nodes of Apache Kafka and of ours as brokers, controllers and voters of one another."""

from __future__ import annotations

import re

import pytest

from tests.java.mixed_nodes import LOWERED

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CONFIGS = "kafka.admin.ConfigCommand"
RECORDS = 500


def use(kafka, clients, address: str, topic: str, replicas: int = 1) -> None:
    """Make a topic of two partitions through a broker, change its settings, write it and read it back."""
    at = ("--bootstrap-server", address)
    kafka.run("TopicCommand", *at, "--create", "--topic", topic, "--partitions", "2",
              "--replication-factor", str(replicas)).ok()  # fmt: skip
    named = ("--entity-type", "topics", "--entity-name", topic)
    kafka.run(CONFIGS, *at, "--alter", *named, "--add-config", "retention.ms=86400000").ok()
    records = [(topic, number % 2, b"value %d" % number, 1_700_000_000_000 + number) for number in range(RECORDS)]
    written = clients.load(address, "lz4", records)
    assert {partition: len(rows) for partition, rows in written.items()} == {(topic, 0): 250, (topic, 1): 250}
    for (_, number), rows in written.items():
        assert clients.read(address, topic, number) == rows
    assert "retention.ms=86400000" in kafka.run(CONFIGS, *at, "--describe", *named).ok()


def test_our_broker_serves_in_a_cluster_of_kafka(kafka, clients, cluster) -> None:
    """Kafka's controller registers it, gives it partitions, takes requests that it forwards, and lets it go."""
    mixed = cluster()
    theirs, ours = mixed.add("kafka", 1, "controller"), mixed.add("ours", 4, "broker")
    mixed.format(*LOWERED)
    mixed.start()
    use(kafka, clients, ours.address, "t")
    told = kafka.run("TopicCommand", "--bootstrap-server", ours.address, "--describe", "--topic", "t").ok()
    assert len(re.findall(r"Leader: 4\s+Replicas: 4\s+Isr: 4\s", told)) == 2
    mixed.stop(4)
    assert ours.process.returncode == 0
    said = theirs.said()
    assert "request from broker 4 to unfence has been granted" in said
    assert "The request from broker 4 to shut down has been granted" in said
    mixed.start(4)
    assert len(clients.read(ours.address, "t", 1)) == RECORDS // 2
