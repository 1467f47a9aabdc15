"""A voter of Apache Kafka among two of ours: elections, one log."""

from __future__ import annotations

import re
from itertools import takewhile

import pytest

from tests.java.mixed_nodes import LOWERED, MixedCluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

QUORUM = "MetadataQuorumCommand"


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
