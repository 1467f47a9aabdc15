"""Consumer groups of KIP-848 as Kafka's own programs see them, and Kafka's own consumer in one."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.client.link import BrokerLink
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

GROUPS = "consumer.group.ConsumerGroupCommand"
START_MS = 1_700_000_000_000
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def broker(serve, clients):
    """A broker with a topic of four partitions, of ten records each, and quick heartbeats."""
    broker = serve(
        "group.consumer.min.heartbeat.interval.ms=50",
        "group.consumer.heartbeat.interval.ms=200",
        "group.consumer.assignment.interval.ms=0",
    )
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.create_topics([NewTopic("events", 4)])["events"].result(60)
    clients.load(broker.address, "none", [("events", n % 4, b"v%d" % n, START_MS + n) for n in range(40)])
    return broker


@pytest.fixture
def groups(kafka, broker):
    """Runs kafka-consumer-groups; it must end well, and what it printed is returned."""

    def run(*arguments: str) -> str:
        return kafka.run(GROUPS, "--bootstrap-server", broker.address, *arguments).ok()

    return run


@contextlib.contextmanager
def member(broker, group, *topics, count=1):
    """Members of librdkafka that have all partitions of ``events``."""
    consumers = [
        Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": group,
                "group.protocol": "consumer",
                "client.id": f"member-{number}",
                "log_level": 0,
            }
        )
        for number in range(count)
    ]
    for one in consumers:
        one.subscribe(list(topics))
    end = time.monotonic() + WAIT_SECONDS
    while sorted(len(one.assignment()) for one in consumers) != [4 // count] * count:
        assert time.monotonic() < end
        for one in consumers:
            one.poll(0.05)
    yield consumers
    for one in consumers:
        one.close()


def test_kafka_consumer_groups_describes_state_and_members(groups, broker):
    """State, assignor, and members with the partitions they have; it cannot be deleted while it has some."""
    with member(broker, "described", "events", count=2):
        state = groups("--describe", "--group", "described", "--state", "--verbose")
        assert re.search(r"described\s.*uniform\s+Stable", state), state
        said = groups("--describe", "--group", "described", "--members", "--verbose")
        shares = re.findall(r"events:([\d,]+)", said)
        assert {"member-0", "member-1"} <= set(said.split())
        # each member's share is printed as its partitions, and as its target partitions
        assert sorted(",".join(shares).split(",")) == sorted(["0", "1", "2", "3"] * 2), said
        assert "described" in groups("--list", "--type", "consumer").split()
        assert "GroupNotEmptyException" in groups("--delete", "--group", "described")
    groups("--delete", "--group", "described")
    assert "described" not in groups("--list").split()


def test_kafka_groups_lists_the_group(kafka, broker):
    """kafka-groups lists it as a group of the consumer protocol."""
    with member(broker, "listed", "events"):
        said = kafka.run("GroupsCommand", "--bootstrap-server", broker.address, "--list").ok()
        assert re.search(r"^listed\s+Consumer\s+consumer", said, re.MULTILINE), said


def test_javas_own_consumer(kafka, broker):
    """Kafka's verifiable consumer reads a topic in this protocol, commits, and is let go of."""
    command = kafka.command(
        "org.apache.kafka.tools.VerifiableConsumer",
        "--bootstrap-server",
        broker.address,
        "--topic",
        "events",
        "--group-id",
        "java",
        "--group-protocol",
        "consumer",
        "--group-remote-assignor",
        "range",
        "--max-messages",
        "40",
        "--reset-policy",
        "earliest",
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr[-3000:]
    names = [event["name"] for event in events]
    assert {"startup_complete", "partitions_assigned", "offsets_committed", "shutdown_complete"} <= set(names)
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 40
    said = kafka.run(GROUPS, "--bootstrap-server", broker.address, "--describe", "--group", "java").ok()
    lags = [line.split()[5] for line in said.splitlines() if line.startswith("java")]
    assert lags == ["0"] * 4, said


def test_kafka_configs_sets_the_heartbeat_interval_of_a_group(kafka, broker):
    """kafka-configs sets a group's own heartbeat interval, and its members get it."""
    group = ["--bootstrap-server", broker.address, "--entity-type", "groups", "--entity-name", "set"]
    setting = "consumer.heartbeat.interval.ms=300"
    kafka.run("kafka.admin.ConfigCommand", *group, "--alter", "--add-config", setting).ok()
    assert setting in kafka.run("kafka.admin.ConfigCommand", *group, "--describe").ok()
    request = ConsumerGroupHeartbeatRequest(
        group_id="set",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["events"],
        topic_partitions=[],
    )
    host, port = broker.address.rsplit(":", 1)
    with BrokerLink(host, int(port)) as link:
        assert link.call(request, 1).heartbeat_interval_ms == 300


def test_kafka_dump_log_reads_every_group_record(kafka, broker):
    """kafka-dump-log reads every record of a consumer group in the coordinator's log."""
    with member(broker, "dumped", "^even.*"):
        pass
    files = broker.files(".log", partition="__consumer_offsets-*")
    said = kafka.dump([path for path in files if path.stat().st_size], "--offsets-decoder").clean().text
    keys = {key["type"] for key in map(json.loads, re.findall(r"key: (\{.*?\}\})(?= payload:)", said))}
    assert {"3", "5", "6", "7", "8", "16"} <= {str(key) for key in keys}, said[-3000:]
