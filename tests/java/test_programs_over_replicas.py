"""Java's transactions, groups, Streams and Connect on three nodes of ours with three replicas, while leaders and coordinators are killed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.client.client import Client
from stratalog.client.coordinators import GROUP, TRANSACTION, find_coordinator, while_coordinators_move
from tests.java.connect_workers import Lines, Worker, begin_copying
from tests.java.mixed_nodes import MixedCluster
from tests.java.test_mixed_replicas import all_in_sync, in_sync

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]

COPIER = "TransactionalMessageCopier"
WORD_COUNT = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
STREAMS_GROUP = "streams-wordcount"
PARTITIONS = 3
RECORDS = 1000
WORDS = [f"word{n}" for n in range(100)]
LINES = 500
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


def owned(program) -> set[int]:
    """The partitions that a consumer has now, by what it has printed."""
    partitions: set[int] = set()
    for event in program.events:
        numbers = {one["partition"] for one in event.get("partitions", ())}
        if event["name"] == "partitions_assigned":
            partitions |= numbers
        elif event["name"] == "partitions_revoked":
            partitions -= numbers
    return partitions


def divided(members) -> bool:
    """Whether each member has partitions, and together they have all."""
    shares = [owned(one) for one in members if one.alive()]
    return all(shares) and sorted(number for share in shares for number in share) == list(range(PARTITIONS))


def read_in_order(places: list[tuple[int, int]]) -> bool:
    """Whether the offsets of each partition begin with 0 and have no gap."""
    offsets = [[offset for number, offset in places if number == partition] for partition in range(PARTITIONS)]
    return all(found == list(range(len(found))) for found in offsets)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_keeps_its_members_over_kills(background, three, create, until, kill_in_turn, protocol) -> None:
    """The producer and both members are Java's: no rebalance, each record is read once, in order, by the member that has its partition."""
    topic = f"group-{protocol}"
    create(topic)
    members = [
        background(
            "VerifiableConsumer", "--bootstrap-server", three.brokers, "--topic", topic, "--group-id", topic,
            "--reset-policy", "earliest", "--verbose", "--group-protocol", protocol,
        )
        for _ in range(2)
    ]  # fmt: skip
    until(lambda: divided(members))
    writer = background(
        "VerifiableProducer",
        "--bootstrap-server",
        three.brokers,
        "--topic",
        topic,
        "--throughput",
        "100",
        "--acks",
        "-1",
    )

    def events(name: str, *programs) -> list[dict]:
        return [event for program in programs for event in program.events if event["name"] == name]

    def consumed() -> int:
        return len(events("record_data", *members))

    until(consumed)
    settled = [len(events("partitions_assigned", one)) for one in members]
    kill_in_turn(
        [
            lambda: coordinator(three, topic, GROUP),
            lambda: in_sync(three.brokers, topic)[0][0],
            lambda: coordinator(three, topic, GROUP),
        ],
        consumed, 200, [topic, "__consumer_offsets"],
    )  # fmt: skip
    writer.stop()  # it never tries again: what is on its way to a leader that dies fails, and may be in the log
    written = {(e["partition"], e["offset"]): e["value"] for e in events("producer_send_success", writer)}
    until(lambda: len({(e["partition"], e["offset"]) for e in events("record_data", *members)}) >= len(written))
    read_by = [[(e["partition"], e["offset"]) for e in events("record_data", one)] for one in members]
    assert all(map(read_in_order, read_by)), "a member did not read each record of its partitions once and in order"
    seen = {(e["partition"], e["offset"]): e["value"] for e in events("record_data", *members)}
    assert written.items() <= seen.items()
    assert len(seen) == sum(map(len, read_by))
    assert [len(events("partitions_assigned", one)) for one in members] == settled, "the group was rebalanced"
    assert [event for event in events("offsets_committed", *members) if not event["success"]] == []
    for one in members:
        one.stop()
    assert_no_mistakes(three)


def test_a_word_count_over_kills_counts_every_word_once(
    background, three, clients, create, until, kill_in_turn, tmp_path
) -> None:
    """exactly_once_v2 with changelog and repartition topics of three replicas; each node is killed while it counts."""
    dice = random.Random(4)
    expected: Counter[str] = Counter()
    create(INPUT, OUTPUT)
    config = tmp_path / "streams.properties"
    config.write_text(
        f"bootstrap.servers={three.brokers}\nprocessing.guarantee=exactly_once_v2\nstate.dir={tmp_path}/state\n"
        "replication.factor=3\ncommit.interval.ms=100\nnum.stream.threads=2\nproducer.transaction.timeout.ms=30000\n"
    )
    application = background(WORD_COUNT, str(config))

    def counted() -> int:
        assert application.alive()
        return count(three, OUTPUT)

    def counted_while_fed() -> int:
        done = counted()
        if done > expected.total() - 8 * LINES // 2:  # it always has something to do
            lines = [dice.choices(WORDS, k=8) for _ in range(LINES)]
            for line in lines:
                expected.update(line)
            rows = [(INPUT, number % PARTITIONS, " ".join(line).encode(), 0) for number, line in enumerate(lines)]
            clients.load(three.brokers, "lz4", rows)
        return done

    kill_in_turn(
        [
            lambda: coordinator(three, STREAMS_GROUP, GROUP),
            lambda: in_sync(three.brokers, "__transaction_state")[0][0],
            lambda: in_sync(three.brokers, OUTPUT)[0][0],
        ],
        counted_while_fed, 200, [INPUT, OUTPUT, "__transaction_state", "__consumer_offsets"],
    )  # fmt: skip
    until(lambda: counted() >= expected.total())
    application.stop()
    written: dict[str, list[int]] = {}
    for partition in read(three, OUTPUT):
        for word, number in partition:
            written.setdefault(word.decode(), []).append(int.from_bytes(number, "big"))
    assert written == {word: list(range(1, total + 1)) for word, total in expected.items()}
    print(f"{expected.total():,} words counted once")
    assert_no_mistakes(three)


def test_workers_of_connect_copy_each_line_once_over_kills(
    background, three, create, until, kill_in_turn, tmp_path
) -> None:
    """An exactly-once source in two workers; their coordinator, the leaders of their settings and of the topic are killed."""
    create("once")
    three_replicas = {f"{name}_storage_replication_factor": 3 for name in ("config", "offset", "status")}
    workers = [Worker(background, three.brokers, tmp_path, number, **three_replicas) for number in range(2)]
    lines = Lines(tmp_path / "in")
    lines.write(LINES)
    begin_copying(workers, lines, until)

    def copied_while_fed() -> int:
        done = count(three, "once")
        if done > len(lines.written) - LINES // 2:
            lines.write(LINES)
        return done

    kill_in_turn(
        [
            lambda: coordinator(three, "connect", GROUP),
            lambda: in_sync(three.brokers, "connect-configs")[0][0],
            lambda: in_sync(three.brokers, "once")[0][0],
        ],
        copied_while_fed, 200, ["once", "connect-configs", "connect-offsets", "__consumer_offsets"],
    )  # fmt: skip
    until(lambda: count(three, "once") >= len(lines.written))
    copied = [value.decode() for partition in read(three, "once") for _, value in partition]
    assert sorted(copied) == sorted(lines.written)
    print(f"{len(copied):,} lines copied once")
    assert_no_mistakes(three)
