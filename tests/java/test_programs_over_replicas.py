"""Java's programs on three nodes of ours with three replicas, while leaders and coordinators are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.client.client import Client
from stratalog.client.coordinators import GROUP, TRANSACTION, find_coordinator, while_coordinators_move
from tests.java.mixed_nodes import MixedCluster
from tests.java.test_mixed_replicas import all_in_sync, in_sync

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

COPIER = "TransactionalMessageCopier"
PARTITIONS = 3
RECORDS = 1000
SETTINGS = """\
offsets.topic.replication.factor=3
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=3
default.replication.factor=3
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.cleaner.backoff.ms=500
"""


@pytest.fixture(scope="module")
def three(tools, tmp_path_factory) -> Iterator[MixedCluster]:
    """Three nodes that are broker and controller; topics have three replicas, and at least two in sync."""
    made = MixedCluster(tools, tmp_path_factory.mktemp("three"), SETTINGS)
    for node_id in (1, 2, 3):
        made.add("ours", node_id, "broker,controller")
    made.format()
    made.start()
    yield made
    made.kill()


@pytest.fixture
def create(three) -> Callable[..., None]:
    """Creates topics."""

    def make(*names: str) -> None:
        admin = AdminClient({"bootstrap.servers": three.brokers, "log_level": 0})
        wanted = [NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"}) for name in names]
        for made in admin.create_topics(wanted).values():
            made.result(60)

    return make


@pytest.fixture
def kill_in_turn(three, until) -> Callable[..., None]:
    """Kills each node that a function names, after some progress, and waits for progress without it and with it."""

    def run(victims: list[Callable[[], int]], progress: Callable[[], int], step: int, topics: list[str]) -> None:
        def go_on() -> None:
            before = progress()
            until(lambda: progress() >= before + step)

        for victim in victims:
            go_on()
            node_id = victim()
            three.kill(node_id)
            go_on()
            three.start(node_id)
            until(lambda: all(all_in_sync(three.brokers, topic) for topic in topics))

    return run


def coordinator(three, key: str, kind: int) -> int:
    """The node that coordinates a key."""
    with Client(three.brokers) as client:
        return while_coordinators_move(client, lambda: find_coordinator(client, key, kind))


def read(three, topic: str, isolation: str = "read_committed") -> list[list[tuple[bytes | None, bytes]]]:
    """Keys and values of each partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": three.brokers,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    rows: list[list[tuple[bytes | None, bytes]]] = [[] for _ in range(PARTITIONS)]
    ended = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(1000, 1):
            if message.error() is None:
                rows[message.partition()].append((message.key(), message.value()))
            elif message.error().name() == "_PARTITION_EOF":
                ended.add(message.partition())
    consumer.close()
    return rows


def count(three, topic: str) -> int:
    """How many committed records a topic has."""
    return sum(map(len, read(three, topic)))


def assert_no_mistakes(three) -> None:
    """No node logged an error of the code."""
    for node in three.nodes.values():
        assert "Traceback" not in node.said(), node.folder.name


def test_a_copy_over_killed_leaders_and_coordinators_is_exact(
    background, three, clients, create, until, kill_in_turn
) -> None:
    """Two copiers with aborts; the coordinator of transactions, that of the group and a leader are killed: each record once, in order."""
    create("source", "copy")
    values: list[list[str]] = [[] for _ in range(PARTITIONS)]

    def feed() -> None:
        """Write more into each partition of the source."""
        rows = []
        for number, written in enumerate(values):
            more = [f"{number}-{n}" for n in range(len(written), len(written) + RECORDS)]
            written += more
            rows += [("source", number, value.encode(), 0) for value in more]
        clients.load(three.brokers, "none", rows)

    def copier(number: int):
        return background(
            COPIER, "--broker-list", three.brokers, "--input-topic", "source", "--input-partition", "-1",
            "--output-topic", "copy", "--consumer-group", "copiers", "--transactional-id", f"copier-{number}",
            "--transaction-size", "20", "--enable-random-aborts", "--group-mode", "--use-group-metadata",
        )  # fmt: skip

    feed()
    copiers = [copier(0), copier(1)]

    def copied() -> int:
        for number, one in enumerate(copiers):  # one that finds nothing more to do ends
            if one.process.poll() is not None:
                one.end().ok()
                copiers[number] = copier(number)
        return count(three, "copy")

    def copied_while_fed() -> int:
        done = copied()
        if done > sum(map(len, values)) - RECORDS:
            feed()
        return done

    kill_in_turn(
        [
            lambda: coordinator(three, "copier-0", TRANSACTION),
            lambda: coordinator(three, "copiers", GROUP),
            lambda: in_sync(three.brokers, "copy")[0][0],
        ],
        copied_while_fed, 200, ["source", "copy", "__transaction_state", "__consumer_offsets"],
    )  # fmt: skip
    until(lambda: copied() >= sum(map(len, values)))
    assert [[value.decode() for _, value in partition] for partition in read(three, "copy")] == values
    print(f"{sum(map(len, values)):,} records copied once and in order")
    assert_no_mistakes(three)
