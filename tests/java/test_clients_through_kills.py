"""Producers and administrators while the active controller is killed, and a broker that leads nothing."""

from __future__ import annotations

import re
import time

import pytest

from tests.java.mixed_nodes import MixedCluster
from tests.java.steady_clients import SteadyProducer

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

TOPIC = "steady"


def of_java(program) -> dict[tuple[int, int], bytes]:
    """The records that the verifiable producer reports as acknowledged, by partition and offset."""
    sent = [event for event in program.events if event["name"] == "producer_send_success"]
    return {(event["partition"], event["offset"]): event["value"].encode() for event in sent}


def active(tools, mixed: MixedCluster) -> int:
    said = tools.run("MetadataQuorumCommand", "--bootstrap-server", mixed.brokers, "describe", "--status").ok()
    return int(re.search(r"LeaderId: +(\d+)", said)[1])


def make_topic(tools, mixed: MixedCluster, name: str) -> float:
    """Have broker 11 hold a new topic; how long the answer took, in seconds."""
    begun = time.monotonic()
    wanted = ("--topic", name, "--replica-assignment", "11,11")
    tools.run("TopicCommand", "--bootstrap-server", mixed.brokers, "--create", *wanted).ok()
    return time.monotonic() - begun


def test_acknowledged_records_are_read_and_topics_are_created(tools, clients, cluster, background, until) -> None:
    """The Java client and librdkafka write on; each command that comes right after a kill is answered."""
    mixed = cluster()
    for node_id in (1, 2, 3):
        mixed.add("ours", node_id, "controller")
    for node_id in (11, 12):
        mixed.add("ours", node_id, "broker")
    mixed.format()
    mixed.start()
    make_topic(tools, mixed, TOPIC)
    java = background(
        "VerifiableProducer",
        "--bootstrap-server",
        mixed.brokers,
        "--topic",
        TOPIC,
        "--throughput",
        "200",
        "--acks",
        "-1",
    )
    steady = SteadyProducer(clients, mixed.brokers, TOPIC, 2)
    try:
        for name, victim in (("controller", active(tools, mixed)), ("idle", 12)):
            before = len(of_java(java)), len(steady.acknowledged)
            until(lambda before=before: len(of_java(java)) > before[0] + 200)
            until(lambda before=before: len(steady.acknowledged) > before[1] + 200)
            mixed.kill(victim)
            print(f"{name} killed: a topic was created after {make_topic(tools, mixed, name):.2f} s")
            before = len(of_java(java)), len(steady.acknowledged)
            until(lambda before=before: len(of_java(java)) > before[0] + 200)
            until(lambda before=before: len(steady.acknowledged) > before[1] + 200)
            mixed.start(victim)
        java.stop()
    finally:
        steady.stop()
    assert not steady.failed
    read = {
        (partition, row[0]): row[2]
        for partition in (0, 1)
        for row in clients.read(mixed.nodes[11].address, TOPIC, partition)
    }
    assert (of_java(java) | steady.acknowledged).items() <= read.items()
    assert len(set(read.values())) == len(read)  # nothing twice
    at = ("--bootstrap-server", mixed.nodes[11].address)
    listed = tools.run("TopicCommand", *at, "--list", "--exclude-internal").ok().split()
    assert set(listed) == {TOPIC, "controller", "idle"}
