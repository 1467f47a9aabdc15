"""Transactions over brokers of both kinds: coordinators, partitions and groups of Kafka's and of ours, in every pairing."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.client.client import Client
from stratalog.client.coordinators import GROUP, TRANSACTION, find_coordinator, while_coordinators_move
from tests.java.mixed_nodes import LOWERED, MixedCluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

COPIER = "TransactionalMessageCopier"
PARTITIONS = 6
RECORDS = 200
SPREAD = """\
transaction.state.log.num.partitions=6
offsets.topic.num.partitions=6
request.timeout.ms=10000
"""
KAFKA, OURS, MORE_OURS = 1, 4, 5


@pytest.fixture
def mixed(kafka, tmp_path):
    """One broker of Kafka, with the controller, and two of ours."""
    made = MixedCluster(kafka, tmp_path, SPREAD)
    made.add("kafka", KAFKA, "broker,controller")
    made.add("ours", OURS, "broker")
    made.add("ours", MORE_OURS, "broker")
    made.format(*LOWERED)
    made.start()
    yield made
    made.kill()


def coordinator(mixed, key, kind):
    """The node that coordinates a key."""
    with Client(mixed.brokers) as client:
        return while_coordinators_move(client, lambda: find_coordinator(client, key, kind))


def key_at(mixed, node_id, kind=TRANSACTION):
    """A key that this node coordinates."""
    return next(f"key-{n}" for n in range(200) if coordinator(mixed, f"key-{n}", kind) == node_id)


def committed(mixed, topic):
    """The committed values of a topic, and how often each stands."""
    consumer = Consumer(
        {
            "bootstrap.servers": mixed.brokers,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    values, ended = Counter(), set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None, "neither a record nor the end of a partition came"
        if message.error():
            ended.add(message.partition())
        else:
            values[message.value().decode()] += 1
    consumer.close()
    return values


def create(mixed, *names):
    admin = AdminClient({"bootstrap.servers": mixed.brokers, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result(60)
    with Client(mixed.brokers) as client:
        for name in names:
            assert {one.leader for one in client.topic(name).partitions} == {KAFKA, OURS, MORE_OURS}


def test_copies_with_aborts_are_exact_with_any_coordinator(background, kafka, mixed, clients, until) -> None:
    """Transactions v2 of Kafka's client: its coordinator marks our partitions, ours marks Kafka's; nothing hangs."""
    create(mixed, "source", "copy")
    values = {f"{number}-{n}" for number in range(PARTITIONS) for n in range(RECORDS)}
    rows = [("source", int(value.partition("-")[0]), value.encode(), 0) for value in sorted(values)]
    clients.load(mixed.brokers, "none", rows)
    names = [key_at(mixed, node_id) for node_id in (KAFKA, OURS)]
    group = key_at(mixed, MORE_OURS, GROUP)
    copiers = [
        background(
            COPIER, "--broker-list", mixed.brokers, "--input-topic", "source", "--input-partition", "-1",
            "--output-topic", "copy", "--consumer-group", group, "--transactional-id", name,
            "--transaction-size", "20", "--enable-random-aborts", "--group-mode", "--use-group-metadata",
        )
        for name in names
    ]  # fmt: skip
    until(lambda: committed(mixed, "copy").total() >= len(values))
    for one in copiers:
        one.stop()
    assert committed(mixed, "copy") == dict.fromkeys(values, 1)
    for node_id in (KAFKA, OURS, MORE_OURS):
        command = ("--bootstrap-server", mixed.brokers, "find-hanging", "--broker-id", str(node_id))
        said = kafka.run("TransactionsCommand", *command, "--max-transaction-timeout", "1").ok()
        assert len(said.splitlines()) <= 1, said
    for node_id in (OURS, MORE_OURS):
        assert "Traceback" not in mixed.nodes[node_id].said()
    assert "IllegalStateException" not in mixed.nodes[KAFKA].said()


def test_clients_of_before_commit_and_abort_over_both_kinds(mixed) -> None:
    """librdkafka's transactions (v1), one coordinator of each kind, offsets at a group of the other; a broker is killed."""
    create(mixed, "t")
    expected = Counter()
    for node_id, group_at in ((KAFKA, OURS), (OURS, KAFKA)):
        group = key_at(mixed, group_at, GROUP)
        settings = {"bootstrap.servers": mixed.brokers, "transactional.id": key_at(mixed, node_id), "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(60)
        for number in range(4):
            producer.begin_transaction()
            for place in range(PARTITIONS):
                producer.produce("t", f"{node_id}-{number}-{place}".encode(), partition=place)
            producer.flush(60)
            consumer = Consumer({"bootstrap.servers": mixed.brokers, "group.id": group, "log_level": 0})
            where = [TopicPartition("t", 0, number)]
            producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), 60)
            consumer.close()
            if number == 2:
                mixed.kill(MORE_OURS)
                mixed.start(MORE_OURS)
            if number % 2:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
                expected.update(f"{node_id}-{number}-{place}" for place in range(PARTITIONS))
        consumer = Consumer({"bootstrap.servers": mixed.brokers, "group.id": group, "log_level": 0})
        assert consumer.committed([TopicPartition("t", 0)], timeout=60)[0].offset == 2
        consumer.close()
    assert committed(mixed, "t") == expected
