"""Committed offsets as Kafka's own programs see them: kafka-consumer-groups, and kafka-dump-log on the coordinator's log."""

from __future__ import annotations

import json
import re

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.client.link import BrokerLink
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

START_MS = 1_700_000_000_000
GROUPS = "consumer.group.ConsumerGroupCommand"
COUNT = 20
"""Records in each of the two partitions of ``events``, a second apart."""


@pytest.fixture(scope="module")
def broker(kafka, serve, clients):
    """A broker with a topic of two partitions; its group coordinator is ready."""
    broker = serve("group.initial.rebalance.delay.ms=0")
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.create_topics([NewTopic("events", 2)])["events"].result(60)
    clients.load(broker.address, "none", [("events", n % 2, b"v", START_MS + 1000 * n) for n in range(2 * COUNT)])
    return broker


@pytest.fixture
def groups(kafka, broker):
    """Runs kafka-consumer-groups; it must end well, and what it printed is returned."""

    def run(*arguments: str) -> str:
        return kafka.run(GROUPS, "--bootstrap-server", broker.address, *arguments).ok()

    return run


@pytest.fixture
def commit(broker):
    """Commits offsets of partitions 0 and 1 of ``events`` for a group that is offsets alone."""

    def commit(group: str, *offsets: int) -> None:
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group, "log_level": 0})
        wanted = [TopicPartition("events", number, offset) for number, offset in enumerate(offsets)]
        assert [one.error for one in consumer.commit(offsets=wanted, asynchronous=False)] == [None] * len(offsets)
        consumer.close()

    return commit


def rows(text: str, group: str) -> dict[int, list[str]]:
    """The columns behind the partition, for each partition of ``events``."""
    lines = [line.split() for line in text.splitlines() if line.startswith(group)]
    return {int(line[2]): line[3:] for line in lines if line[1] == "events"}


def test_offsets_and_lag_are_described(groups, commit):
    """Committed offset, end of the log and lag of each partition, of a group without members."""
    commit("described", 5, 20)
    said = groups("--describe", "--group", "described")
    assert {number: row[:3] for number, row in rows(said, "described").items()} == {
        0: ["5", "20", "15"],
        1: ["20", "20", "0"],
    }
    assert re.search(r"described\s.*Empty", groups("--describe", "--group", "described", "--state"))
    assert "described" in groups("--list").split()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to-earliest"], (0, 0)),
        (["--to-latest"], (20, 20)),
        (["--to-offset", "7"], (7, 7)),
        (["--shift-by", "-3"], (5, 12)),
        (["--shift-by", "9"], (17, 20)),
        (["--to-datetime", "2023-11-14T22:13:30.000"], (5, 5)),
        (["--to-current"], (8, 15)),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_offsets_are_reset(groups, commit, options, expected):
    """To the ends, to an offset, to a time, by so many: shown first, done when told to."""
    commit("reset", 8, 15)
    arguments = ["--reset-offsets", "--group", "reset", "--topic", "events", *options]
    shown = rows(groups(*arguments, "--dry-run"), "reset")
    assert {number: int(row[0]) for number, row in shown.items()} == dict(enumerate(expected))
    assert [int(row[0]) for _, row in sorted(rows(groups("--describe", "--group", "reset"), "reset").items())] == [
        8,
        15,
    ]
    groups(*arguments, "--execute")
    described = rows(groups("--describe", "--group", "reset"), "reset")
    assert {number: int(row[0]) for number, row in described.items()} == dict(enumerate(expected))


def test_offsets_and_groups_are_deleted(groups, commit):
    """Offsets of a topic by --delete-offsets, the group by --delete; then it is not there."""
    commit("gone", 3, 4)
    said = groups("--delete-offsets", "--group", "gone", "--topic", "events:0")
    assert re.search(r"events\s+0\s+Successful", said)
    assert list(rows(groups("--describe", "--group", "gone"), "gone")) == [1]
    assert "successful" in groups("--delete", "--group", "gone")
    assert "gone" not in groups("--list").split()
    said = groups("--delete-offsets", "--group", "gone", "--topic", "events")
    assert "GroupIdNotFoundException" in said


def commit_with_retention(address: str, group: str) -> None:
    """As clients before Kafka 2.1: the offset expires when the client says so."""
    host, port = address.rsplit(":", 1)
    partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=6, committed_metadata="old client")
    topics = [OffsetCommitRequestTopic(name="events", partitions=[partition])]
    request = OffsetCommitRequest(group_id=group, member_id="", retention_time_ms=86_400_000, topics=topics)
    with BrokerLink(host, int(port)) as link:
        answer = link.call(request, 3)
    assert answer.topics[0].partitions[0].error_code == 0


def payloads(text: str) -> list[tuple[dict, object]]:
    """Key and value of each record that DumpLogSegments printed."""
    found = re.findall(r"key: (\{.*\}) payload: (\{.*\}|<DELETE>|null)", text)
    return [(json.loads(key), json.loads(value) if value.startswith("{") else None) for key, value in found]


def test_fact_the_coordinators_log_is_printed(kafka, broker, commit, groups):
    """kafka-dump-log --offsets-decoder prints committed offsets of both value versions, and tombstones."""
    commit("my-group", 9, 10)
    commit_with_retention(broker.address, "my-group")
    groups("--delete-offsets", "--group", "my-group", "--topic", "events:0")
    files = broker.files(".log", partition="__consumer_offsets-12")
    dump = kafka.dump(files, "--offsets-decoder", "--deep-iteration", "--print-data-log").clean()
    printed = payloads(dump.text)
    ours = [(key["data"], value) for key, value in printed if key["data"].get("group") == "my-group"]
    assert [(key["topic"], key["partition"]) for key, _ in ours] == [("events", n) for n in (0, 1, 1, 0)]
    first, second, third, last = [value for _, value in ours]
    assert (first["version"], first["data"]["offset"], second["data"]["offset"]) == ("4", 9, 10)
    assert len(first["data"]["topicId"]) == 22
    assert first["data"]["topicId"] == second["data"]["topicId"]
    assert third["version"] == "1"
    assert third["data"]["metadata"] == "old client"
    assert third["data"]["expireTimestamp"] - third["data"]["commitTimestamp"] == 86_400_000
    assert last is None
