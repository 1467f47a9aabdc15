"""Replicas move between log directories while they are used: nothing is lost, and one directory has the log."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from stratalog.client.admin import create_topic
from stratalog.client.client import Client
from stratalog.client.records import NewRecord, fetch, visible_records
from stratalog.client.records import Producer as OneByOne
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from stratalog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes

NAME = TopicPartition("t", 0)
WAIT_SECONDS = 90


def two_directories(path):
    """Two log directories below ``path``, as the setting has them."""
    return [str(Path(path, name)) for name in ("one", "two")]


def ask(client, path, topic="t"):
    """Ask for the move of one replica."""
    wanted = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])
    assert client.call(AlterReplicaLogDirsRequest(dirs=[wanted])).results[0].partitions[0].error_code == 0


def places(client):
    """The directories of the log and of its copy, if there is one."""
    found = {}
    for result in client.call(DescribeLogDirsRequest(topics=None)).results:
        for topic in result.topics:
            if topic.name == "t" and not result.log_dir.startswith("remote:"):
                found[topic.partitions[0].is_future_key] = result.log_dir
    return found.get(False), found.get(True)


def moved(client, path):
    """Wait until the log lies in a directory."""
    end = time.monotonic() + WAIT_SECONDS
    while places(client) != (path, None):
        assert time.monotonic() < end, places(client)
        time.sleep(0.02)


class SteadyClients:
    """A producer with idempotence and a consumer, each in a thread."""

    def __init__(self, address):
        self.address = address
        self.sent, self.read, self.errors = 0, [], []
        self.slowest_seconds = 0.0
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._produce, self._consume)]
        for one in self._threads:
            one.start()

    def _produce(self):
        producer = Producer(
            {"bootstrap.servers": self.address, "enable.idempotence": True, "linger.ms": 1, "acks": "all"}
        )

        def delivered(error, message):
            if error is not None:
                self.errors.append(error)
            else:
                self.slowest_seconds = max(self.slowest_seconds, message.latency())

        while not self._ending.is_set():
            producer.produce("t", b"%d" % self.sent, b"k%d" % (self.sent % 50), callback=delivered)
            self.sent += 1
            if self.sent % 20 == 0:
                producer.poll(0.005)
        assert producer.flush(WAIT_SECONDS) == 0

    def _consume(self):
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        while not self._ending.is_set() or len(self.read) < self.sent:
            for message in consumer.consume(500, 0.2):
                assert message.error() is None
                self.read.append(int(message.value()))
        consumer.close()

    def end(self):
        """Stop producing, and wait until all is read."""
        self._ending.set()
        for one in self._threads:
            one.join(WAIT_SECONDS)
            assert not one.is_alive()


@pytest.mark.story
def test_a_replica_moves_to_and_fro_under_a_producer_and_a_consumer(start_node, tmp_path):
    """No send fails, each record is read once and in order; the next start finds the same records."""
    one, two = two_directories(tmp_path)
    node = start_node(log_dirs=f"{one},{two}", group_initial_rebalance_delay_ms="0")
    node.create("t", internal_segment_bytes=100_000)
    client = node.client()
    home, _ = places(client)
    clients = SteadyClients(node.address)
    node.wait_until(lambda: len(node.partition("t").log.segments()) > 3)
    for _ in range(3):
        for path in ({one, two} - {home}).pop(), home:
            ask(client, path)
            moved(client, path)
    clients.end()
    assert clients.errors == []
    assert clients.read == list(range(clients.sent))
    assert clients.slowest_seconds < 10
    before = node.values("t")
    node.restart()
    assert node.values("t") == before == [b"%d" % number for number in range(clients.sent)]
    assert [path for path in (one, two) if Path(path, "t-0").exists()] == [home]


@pytest.mark.story
def test_a_compacted_replica_moves_while_it_is_cleaned(start_node, tmp_path):
    """The copy follows the cleaner, and the log is cleaned on in the other directory."""
    one, two = two_directories(tmp_path)
    node = start_node(log_dirs=f"{one},{two}", log_cleaner_backoff_ms="50")
    node.create("t", internal_segment_bytes=20_000, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    client = node.client()
    home, _ = places(client)
    kept = {}
    for turn in range(6):
        for _ in range(60):
            key, value = b"k%d" % random.randrange(40), os.urandom(1000)
            node.produce("t", NewRecord(value, node.node.clock.wall_ms(), key=key))
            kept[key] = value
        path = ({one, two} - {home}).pop() if turn % 2 == 0 else home
        ask(client, path)
        moved(client, path)
    cleanings = node.node.compaction.cleanings
    for _ in range(60):
        node.produce("t", NewRecord(b"last" * 300, node.node.clock.wall_ms(), key=b"last"))
    kept[b"last"] = b"last" * 300
    node.wait_until(lambda: node.node.compaction.cleanings > cleanings)
    node.restart()
    found = {}
    for record in node.read("t"):
        found[record.key] = record.value
    assert found == kept


def test_a_tiered_replica_moves_with_its_archive(start_tiered, tmp_path):
    """Segments that are archived meanwhile are read from the bucket, the log start and the archive's end go with it."""
    one, two = two_directories(tmp_path)
    tiered = start_tiered(log_dirs=f"{one},{two}")
    tiered.topic("t")
    client = tiered.node.client()
    home, _ = places(client)
    (other,) = {one, two} - {home}
    tiered.write("t", 15)
    tiered.archived("t")
    tiered.delete_records("t", 7)
    ask(client, other)
    tiered.write("t", 15)
    moved(client, other)
    tiered.write("t", 5)
    tiered.archived("t")
    tiered.check_reads("t", offset=7)
    offsets = tiered.offsets("t")
    tiered.node.restart()
    assert tiered.offsets("t")[0] == offsets[0] == 7
    tiered.check_reads("t", offset=7)
    tiered.write("t", 10)
    tiered.archived("t")
    tiered.check_bucket("t")


@pytest.mark.story
def test_a_broker_that_is_killed_goes_on_with_its_moves(serve_process, tmp_path):
    """After each kill -9 one directory has the log with all that was acknowledged; the move begins again and ends."""
    one, two = two_directories(tmp_path)
    broker = serve_process(log_dirs=f"{one},{two}")
    create_topic(Client(broker.address), "t", configs={"internal.segment.bytes": "200000"})
    acknowledged = []
    dice = random.Random(5)
    for turn in range(5):
        client = Client(broker.address)
        producer = OneByOne(client, "t", idempotent=True)
        for _ in range(60):
            values = [b"%d:%d" % (turn, len(acknowledged) + number) + bytes(9_000) for number in range(3)]
            producer.send([NewRecord(value, 1) for value in values])
            acknowledged += values
        home, _ = places(client)
        wanted = ({one, two} - {home}).pop()
        ask(client, wanted)
        time.sleep(dice.random() * 0.08)
        broker.end(signal.SIGKILL)
        broker.start()
        client = Client(broker.address)
        moved(client, wanted)
        assert [path for path in (one, two) if Path(path, "t-0").exists()] == [wanted]
        assert read_all(client) == acknowledged
    left = [entry.name for path in (one, two) for entry in Path(path).iterdir()]
    assert not [name for name in left if name.endswith(("-future", "-stray"))]


def read_all(client):
    """The values of the whole partition."""
    values, offset = [], 0
    while True:
        (found,) = fetch(client, {NAME: offset}, max_wait_ms=0)
        for next_offset, records in visible_records(found, offset):
            values += [record.value for record in records]
            offset = next_offset
        if offset >= found.high_watermark:
            return values


class TwoDisksEach:
    """A controller, and two brokers with two directories each; both have a replica of the topic's two partitions."""

    def __init__(self, directory):
        self.nodes = RunningNodes(directory, {1: "controller", 2: "broker", 3: "broker"})
        for one in (2, 3):
            member = self.nodes[one]
            member.settings["log.dirs"] = ",".join(two_directories(member.directory))
            self.nodes.format(one, ignore_formatted=True)

    def start(self):
        self.nodes.start()
        node = self.nodes[2]
        create_topic(node.client(), "t", partition_count=2, replication_factor=2)
        node.wait_until(lambda: "t" in node.node.image.topics.by_name)
        node.wait_until(lambda: all(len(one.in_sync_replicas) == 2 for one in self.states().values()))

    def states(self):
        return self.nodes[2].node.image.topics.by_name["t"].partitions

    def produce(self, number, *values):
        """To the leader, once it is known to the client."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self.nodes[2].produce("t", *values, partition=number)
                return
            except KafkaError:
                assert time.monotonic() < end

    def replica(self, node_id, number):
        return self.nodes[node_id].node.partitions.get(TopicPartition("t", number)).partition

    def move(self, node_id, number):
        """To the other directory of its broker; returns when the image has it."""
        node, replica = self.nodes[node_id], self.replica(node_id, number)
        before = replica.directory
        target = next(one for one in node.node.directories.all if one.writer is not before)
        code = node.run(node.node.moves.ask, TopicPartition("t", number), target.path)
        assert code is ErrorCode.NONE
        node.wait_until(lambda: self.replica(node_id, number).directory is target.writer)
        self.nodes[2].wait_until(lambda: self.states()[number].directory_of(node_id) == target.directory_id)


@pytest.mark.story
def test_leaders_and_followers_move_and_the_controller_hears_of_it(tmp_path):
    """Roles and in-sync sets stay; after a restart each replica is found where the image has it."""
    disks = TwoDisksEach(tmp_path)
    try:
        disks.start()
        for number in range(2):
            disks.produce(number, b"before")
        epochs = {number: one.leader_epoch for number, one in disks.states().items()}
        for node_id in (2, 3):
            for number in range(2):
                disks.move(node_id, number)
                disks.produce(number, b"after %d" % node_id)
        assert {number: one.leader_epoch for number, one in disks.states().items()} == epochs
        assert all(len(one.in_sync_replicas) == 2 for one in disks.states().values())
        for node_id in (2, 3):
            disks.nodes[node_id].wait_until(
                lambda node_id=node_id: all(
                    disks.replica(node_id, number).log.written_offset == 3 for number in range(2)
                )
            )
        disks.nodes[3].stop()
        disks.nodes[3].start()
        for number in range(2):
            directory = disks.nodes[3].node.directories.of(disks.replica(3, number).directory)
            assert disks.states()[number].directory_of(3) == directory.directory_id
    finally:
        disks.nodes.stop()
