"""Producers and administrators while the active controller is killed, and a broker that leads nothing."""

from __future__ import annotations

import re
import threading
import time

import pytest

from tests.java.mixed_nodes import MixedCluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

TOPIC = "steady"
PAUSE_SECONDS = 0.005


class SteadyProducer:
    """librdkafka writes a record each few milliseconds, and keeps what was acknowledged: (partition, offset, value)."""

    def __init__(self, clients, address: str) -> None:
        self.acknowledged: list[tuple[int, int, str]] = []
        self.failed: list[object] = []
        self._producer = clients.producer(address)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(PAUSE_SECONDS):
            self._producer.produce(TOPIC, b"librdkafka %d" % number, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error, message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged.append((message.partition(), message.offset(), message.value().decode()))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


def of_java(program) -> list[tuple[int, int, str]]:
    """Return the records that the verifiable producer reports as acknowledged."""
    sent = [event for event in program.events if event["name"] == "producer_send_success"]
    return [(event["partition"], event["offset"], event["value"]) for event in sent]


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
    steady = SteadyProducer(clients, mixed.brokers)
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
        (partition, row[0]): row[2].decode()
        for partition in (0, 1)
        for row in clients.read(mixed.nodes[11].address, TOPIC, partition)
    }
    acknowledged = of_java(java) + steady.acknowledged
    assert {(partition, offset): value for partition, offset, value in acknowledged}.items() <= read.items()
    assert len(set(read.values())) == len(read)  # nothing twice
    at = ("--bootstrap-server", mixed.nodes[11].address)
    listed = tools.run("TopicCommand", *at, "--list", "--exclude-internal").ok().split()
    assert set(listed) == {TOPIC, "controller", "idle"}
