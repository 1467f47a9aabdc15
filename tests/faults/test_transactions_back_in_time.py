"""Transactions under way when the data directory goes back in time: none is committed in part, none stays open unseen."""

import asyncio
import shutil
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from stratalog.broker.archive import bucket_gate
from stratalog.broker.archive.bucket_gate import BucketGate
from stratalog.broker.runtime.slices import to_the_end
from stratalog.metadata.transactions import hanging
from stratalog.wire.topic import TopicPartition

TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": 2000,
    "local_retention_bytes": 1,
    "retention_ms": -1,
}
SECONDS = 30


class Broker:
    """A broker, and the copy of its data directory; librdkafka's producers work by transactions v1."""

    def __init__(self, node):
        self.node = node
        self.data, self.copy = Path(node.directory, "data"), Path(node.directory, "copy")

    def producer(self, name):
        """A transactional producer that has its id."""
        made = Producer(
            {
                "bootstrap.servers": self.node.address,
                "transactional.id": name,
                "linger.ms": 0,
                "message.timeout.ms": SECONDS * 1000,
                "transaction.timeout.ms": SECONDS * 1000,
            }
        )
        made.init_transactions(SECONDS)
        return made

    def send(self, producer, topic, word, count=3):
        """Batches of one record each, acknowledged."""
        for number in range(count):
            producer.produce(topic, b"%s-%d" % (word, number) + b"." * 90, partition=0)
            assert producer.flush(SECONDS) == 0

    def transact(self, producer, word, commit=True):
        """A whole transaction on both topics."""
        producer.begin_transaction()
        for topic in ("t", "u"):
            self.send(producer, topic, word)
        if commit:
            producer.commit_transaction(SECONDS)

    def commits(self, producer):
        """Whether a commit is answered with success."""
        try:
            producer.commit_transaction(SECONDS)
        except KafkaException:
            return False
        return True

    def archive_all(self, topic="t"):
        """Archive all that stands in a topic, behind records of no producer."""
        unified = self.node.partition(topic)
        end_offset = unified.log.log_end_offset
        while unified.remote.end_offset < end_offset:
            self.node.produce(topic, b"filler" * 100)
            self.node.wait_until(lambda: unified.remote.end_offset == unified.log.active_base_offset)

    def copied(self):
        """Copy the disk of the stopped broker."""
        self.node.stop()
        shutil.copytree(self.data, self.copy)
        self.node.start()

    def go_back(self):
        """End this time: put the copy in the place of the disk."""
        self.node.stop()
        shutil.rmtree(self.data)
        shutil.copytree(self.copy, self.data)

    def compared(self):
        """Wait until the archive has won and transactions are judged."""
        coordinators = self.node.node.coordinators
        for topic in ("t", "u"):
            self.node.wait_until(lambda topic=topic: self.node.partition(topic).partition.held_back is None)
        self.node.wait_until(lambda: not coordinators.hanging._due and not coordinators.hanging._owed)

    def words(self, topic):
        """Words that a reader of committed records finds up to the end, fillers left out."""
        partition = self.node.partition(topic)
        self.node.wait_until(lambda: partition.partition.last_stable_offset == partition.partition.high_watermark)
        return self.committed(topic)

    def committed(self, topic):
        """Words that it finds in front of the last stable offset."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.node.address,
                "group.id": "none",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([KafkaPartition(topic, 0, 0)])
        found = set()
        while (message := consumer.poll(SECONDS)) is not None and message.error() is None:
            found.add(message.value().split(b"-")[0])
        assert message is not None
        consumer.close()
        return {word for word in found if not word.startswith(b"filler")}


@pytest.fixture
def broker(start_node, monkeypatch):
    """Two tiered topics, and a transactional id with a history."""
    monkeypatch.setattr(bucket_gate, "START_SECONDS", 60.0)
    monkeypatch.setattr(hanging, "CLOCKS_DIFFER_MS", 0)  # there is one clock, and stories take seconds
    with socket.socket() as free:  # producers go on where they were
        free.bind(("127.0.0.1", 0))
        address = f"PLAINTEXT://127.0.0.1:{free.getsockname()[1]}"
    node = start_node(
        listeners=address,
        log_flush_offset_checkpoint_interval_ms="100",
        log_retention_check_interval_ms="100",
        transaction_state_log_num_partitions="1",
    )
    for topic in ("t", "u"):
        node.create(topic, **TIERED)
    made = Broker(node)
    made.transact(made.producer("old"), b"before")
    for topic in ("t", "u"):
        made.archive_all(topic)
    return made


@pytest.mark.story
@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
def test_a_transaction_whose_marker_was_lost_ends_as_its_archive_says(broker, commit):
    """Records are archived when their transaction has ended, and some reader has seen how."""
    broker.copied()
    producer = broker.producer("new")
    producer.begin_transaction()
    broker.send(producer, "t", b"ended", 30)
    (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
    unified = broker.node.partition("t")
    broker.node.wait_until(lambda: unified.remote.end_offset == unified.log.active_base_offset)
    assert unified.log.log_start_offset < unified.remote.end_offset < unified.log.log_end_offset
    assert broker.words("t") == ({b"before", b"ended"} if commit else {b"before"})
    broker.go_back()
    broker.node.start()
    broker.compared()
    assert broker.words("t") == ({b"before", b"ended"} if commit else {b"before"})
    producer.begin_transaction()
    producer.produce("t", b"fenced-", partition=0)
    assert not broker.commits(producer)
    broker.transact(broker.producer("new"), b"after")
    assert broker.words("u") == {b"before", b"after"}


@pytest.mark.story
@pytest.mark.parametrize("name", ["old", "new"])
def test_a_transaction_that_is_half_lost_is_not_committed_by_its_other_half(broker, name):
    """The first half is gone with the missing time; the producer goes on with the second, and would commit it."""
    producer = broker.producer("old")
    broker.transact(producer, b"early")
    broker.copied()
    broker.archive_all()
    if name == "new":
        producer = broker.producer("new")
    producer.begin_transaction()
    broker.send(producer, "t", b"half")
    broker.go_back()
    broker.node.start()
    broker.compared()
    producer.produce("u", b"half-", partition=0)
    assert not broker.commits(producer)
    assert broker.words("t") == broker.words("u") == {b"before", b"early"}


@pytest.mark.story
@pytest.mark.parametrize("name", ["old", "new"])
def test_a_late_notice_aborts_the_transaction_that_is_under_way(broker, monkeypatch, name):
    """Its first half lies at offsets that the archive has; with the second half it would be committed without it."""
    producer = broker.producer("old")
    broker.transact(producer, b"early")
    for topic in ("t", "u"):
        broker.archive_all(topic)
    broker.copied()
    for _ in range(10):
        broker.node.produce("t", b"missing-" + b"." * 900)
    broker.archive_all()
    broker.go_back()
    with monkeypatch.context() as silent:
        silent.setattr(BucketGate, "_look", lambda _: None)
        silent.setattr(BucketGate, "look_at_start", lambda _: asyncio.sleep(0))
        broker.node.start()
        if name == "new":
            producer = broker.producer("new")
        producer.begin_transaction()
        broker.send(producer, "t", b"half")
        broker.send(producer, "u", b"half")
    broker.node.run(broker.node.node.tiering.gate._look)
    broker.node.wait_until(lambda: list(broker.data.glob("t-0.*-stray")))
    broker.compared()
    producer.produce("t", b"half-", partition=0)
    assert not broker.commits(producer)
    assert broker.words("t") == {b"before", b"early", b"missing"}
    assert broker.words("u") == {b"before", b"early"}


@pytest.mark.story
def test_a_transaction_that_the_archive_has_ended_ends_though_it_knows_later_coordinators(broker):
    """Each start raises the coordinator's epoch, and more of them are missing than there were since: its marker is refused."""
    producer = broker.producer("old")
    producer.begin_transaction()
    for topic in ("t", "u"):
        broker.send(producer, topic, b"open")
    broker.copied()
    producer.commit_transaction(SECONDS)
    for _ in range(2):
        broker.node.stop()
        broker.node.start()
    broker.transact(producer, b"late")
    for topic in ("t", "u"):
        broker.archive_all(topic)
    broker.go_back()
    broker.node.start()
    broker.compared()
    broker.transact(broker.producer("old"), b"after")
    assert broker.words("t") == broker.words("u") == {b"before", b"open", b"late", b"after"}


def forget_transactions(broker):
    """The coordinator's log is lost; those of the topics are not."""
    for path in [*broker.data.glob("__transaction_state-*"), *broker.copy.glob("__transaction_state-*")]:
        shutil.rmtree(path)


@pytest.mark.story
def test_a_transaction_that_its_coordinator_has_forgotten_is_aborted_after_a_comparison(broker):
    """It is above the end of the archive, which says nothing of it."""
    producer = broker.producer("new")
    broker.transact(producer, b"open", commit=False)
    broker.copied()
    broker.go_back()
    forget_transactions(broker)
    broker.node.start()
    broker.node.run(broker.node.node.tiering._comparisons.second_timeline, "the bucket knows another start")
    broker.compared()
    assert broker.words("t") == broker.words("u") == {b"before"}
    assert broker.node.node.coordinators.hanging.ended == {"aborted": 2}


@pytest.mark.story
def test_a_transaction_that_its_coordinator_has_forgotten_is_reported(broker):
    """The disk did not go back, as far as the bucket knows: it stays open, and the report has the command that ends it."""
    producer = broker.producer("new")
    broker.transact(producer, b"open", commit=False)
    broker.node.stop()
    forget_transactions(broker)
    broker.node.start()
    one, other = to_the_end(broker.node.node.coordinators.hanging.hanging())
    assert (one.partition, other.partition) == (TopicPartition("t", 0), TopicPartition("u", 0))
    host, port = broker.node.node.http_address
    with urlopen(f"http://{host}:{port}/readyz?verbose") as answer:
        assert (
            f"stratalog transaction abort t --partition 0 --start-offset {one.first_offset}" in answer.read().decode()
        )
    with urlopen(f"http://{host}:{port}/metrics") as answer:
        assert "stratalog_transactions_hanging 2" in answer.read().decode()
