"""Partitions move from brokers of Kafka to brokers of ours, and back, while a producer and a group go on."""

from __future__ import annotations

import pytest

from tests.java.mixed_nodes import LOWERED
from tests.java.reassignments import Reassignment
from tests.java.steady_clients import SteadyGroup, SteadyProducer, assert_read_once
from tests.java.test_mixed_replicas import assert_no_complaints, create, in_sync

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

CONTROLLER, KAFKA, OURS, MORE_OURS = 1, 11, 21, 22
TOPIC, OFFSETS = "t", "__consumer_offsets"
THEIRS_ALONE = {(TOPIC, 0): (KAFKA,), (TOPIC, 1): (KAFKA, OURS), (OFFSETS, 0): (KAFKA,)}
OURS_ALONE = {(TOPIC, 0): (OURS,), (TOPIC, 1): (OURS, MORE_OURS), (OFFSETS, 0): (OURS,)}


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_partitions_move_between_kinds_and_back(tools, clients, cluster, until, tmp_path, kind) -> None:
    """Execute, verify, cancel, with the partition of the group's coordinator: no errors, nothing lost or read twice."""
    mixed = cluster()
    mixed.add(kind, CONTROLLER, "controller")
    mixed.add("kafka", KAFKA, "broker")
    for node_id in (OURS, MORE_OURS):
        mixed.add("ours", node_id, "broker")
    mixed.format(*LOWERED)
    mixed.start()
    create(tools, mixed, ",".join([f"{KAFKA}:{OURS}"] * 2))
    producer = SteadyProducer(clients, mixed.brokers, TOPIC, 2, codec="lz4", value_bytes=1500)
    group = SteadyGroup(mixed.brokers, TOPIC)

    def go(placed) -> None:
        plan = Reassignment(tools, mixed, tmp_path, placed)
        plan.execute()
        producer.wrote(until)
        until(plan.completed)
        producer.wrote(until)
        for (topic, number), brokers in placed.items():
            leader, isr, replicas = in_sync(mixed.brokers, topic)[number]
            assert (replicas, isr) == (set(brokers), set(brokers))
            assert leader in brokers
            for node in mixed.nodes.values():
                if node.node_id not in brokers:
                    until(lambda node=node, name=f"{topic}-{number}": not (node.data / name).exists())

    try:
        group.catch_up(100)
        go(THEIRS_ALONE)
        for _ in range(2):
            go(OURS_ALONE)
            go(THEIRS_ALONE)
        mixed.kill(MORE_OURS)
        stuck = Reassignment(tools, mixed, tmp_path, {(TOPIC, 0): (MORE_OURS,), (TOPIC, 1): (MORE_OURS, KAFKA)})
        stuck.execute()
        assert set(stuck.states().values()) == {"still in progress"}
        producer.wrote(until)
        stuck.cancel()
        assert {number: replicas for number, (_, _, replicas) in in_sync(mixed.brokers).items()} == {
            0: {KAFKA}, 1: {KAFKA, OURS},
        }  # fmt: skip
        mixed.start(MORE_OURS)
        producer.wrote(until)
        go(OURS_ALONE)
    finally:
        producer.stop()
        try:
            group.catch_up(len(producer.values))
        finally:
            group.stop()
    assert not producer.failed
    assert not group.failed
    assert assert_read_once(clients, mixed.brokers, TOPIC, producer, (0, 1)) == len(producer.values)
    assert set(group.values.values()) == producer.values
    for number, places in group.read.items():
        assert [offset for _, offset in places] == list(range(len(places))), f"{TOPIC}-{number} was not read in order"
    assert_no_complaints(mixed)
    print(f"{len(producer.values):,} records written and read once while their partitions moved")
