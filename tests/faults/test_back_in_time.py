"""A data directory that goes back in time, twice to the same copy, while producers with ids and transactions go on.

The missing time, and each time that follows a copy, are archived. Records whose offsets are below the archive's end when the
disk goes back stay; those above are gone with the disk. Records acknowledged afterwards are readable, once, in their order.
"""

import asyncio
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from stratalog.broker.archive import bucket_gate
from stratalog.broker.archive.bucket_gate import BucketGate

TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": 2000,
    "local_retention_bytes": 1,
    "retention_ms": -1,
}
SECONDS = 30


class Times:
    """A broker, the copy of its data directory, and what has to be readable."""

    def __init__(self, node):
        self.node = node
        self.archived_to = 0
        self.expected: list[tuple[int, bytes]] = []
        """Offset and value of each record that was acknowledged (and committed) and is not gone with a disk."""
        self.data, self.copy = Path(node.directory, "data"), Path(node.directory, "copy")

    # -- clients ----------------------------------------------------------------------------------------------------

    def producer(self, **settings):
        return Producer(
            {"bootstrap.servers": self.node.address, "enable.idempotence": True, "linger.ms": 0, **settings}
        )

    def send(self, producer, *values):
        """One batch; it is expected from now on. Fails if it is answered as a repetition."""
        sent: list[tuple[int, bytes]] = []

        def told(error, message):
            assert error is None, error
            sent.append((message.offset(), message.value()))

        for value in values:
            producer.produce("t", value + b"." * 90, partition=0, on_delivery=told)
        assert producer.flush(SECONDS) == 0
        assert len(sent) == len(values)
        last = max([-1, *(offset for offset, _ in self.expected)])
        assert [offset for offset, _ in sent] == sorted({offset for offset, _ in sent}), "an offset was given out twice"
        assert sent[0][0] > last, f"taken for a repetition: {sent[0]} after offset {last}"
        self.expected += sent

    def live(self, word):
        """Producers of this time: idempotent ones with a batch and with several, and a transactional id that starts again."""
        for number, batches in enumerate((1, 2, 7)):
            producer = self.producer()
            for batch in range(batches):
                self.send(producer, *(b"%s-%d-%d-%d" % (word, number, batch, one) for one in range(3)))
        transactional = self.producer(**{"transactional.id": "x"})
        transactional.init_transactions(SECONDS)
        for batch in range(6):
            transactional.begin_transaction()
            before = len(self.expected)
            self.send(transactional, *(b"%s-x-%d-%d" % (word, batch, one) for one in range(3)))
            if batch % 3 == 1:
                transactional.abort_transaction(SECONDS)
                del self.expected[before:]
            else:
                transactional.commit_transaction(SECONDS)

    def read(self):
        """Records of the partition that librdkafka shows to a read_committed consumer."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.node.address,
                "group.id": "none",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "check.crcs": True,
            }
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        found = []
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                consumer.close()
                return found
            if not message.value().startswith(b"filler"):
                found.append((message.offset(), message.value()))

    def judge(self):
        """Warm, then cold, then from the cache."""
        assert self.read() == self.expected
        self.settle()
        for _ in range(2):
            assert self.read() == self.expected

    # -- the disk -----------------------------------------------------------------------------------------------------

    def settle(self):
        """Wait until all frozen segments are archived and gone from the disk."""
        partition = self.node.partition("t")
        self.node.wait_until(
            lambda: (
                partition.remote.end_offset
                == partition.log.local_log_start_offset
                == partition.log.active_base_offset
                > 0
            )
        )

    def compared(self, *, running=False):
        """Wait until the archive has won. A copy of a running broker meets it with its first claim, and loses what it took
        until then. The archive's end is known from that claim on: the log's own end may pass it before.
        """
        unified = self.node.partition("t")
        while running and unified.remote.end_offset < self.archived_to:
            self.node.produce("t", b"filler" * 100)
            self.node.wait_until(lambda: unified.partition.held_back is None)
        self.node.wait_until(lambda: unified.partition.held_back is None)
        assert unified.log.log_end_offset >= self.archived_to

    def go_back(self):
        """End this time: put the copy in the place of the disk.

        All transactions are archived with their markers: one whose marker is lost stays open until it is aborted by hand.
        """
        unified = self.node.partition("t")
        end_offset = unified.log.log_end_offset
        while unified.remote.end_offset < end_offset:
            self.node.produce("t", b"filler" * 100)
            self.settle()
        self.send(self.producer(), b"lost-0", b"lost-1")
        self.archived_to = unified.remote.end_offset
        self.node.stop()
        self.expected = [one for one in self.expected if one[0] < self.archived_to]
        shutil.rmtree(self.data)
        shutil.copytree(self.copy, self.data)


@pytest.fixture
def times(start_node, monkeypatch):
    """One tiered topic with an archive."""
    monkeypatch.setattr(bucket_gate, "START_SECONDS", 60.0)  # a machine that does much else starts workers late
    node = start_node(
        log_flush_offset_checkpoint_interval_ms="100",
        log_retention_check_interval_ms="100",
        transaction_state_log_num_partitions="1",
    )
    node.create("t", **TIERED)
    made = Times(node)
    made.live(b"before")
    made.settle()
    return made


def copied(times, *, running):
    """Copy the disk of a broker that is stopped, or that serves but is quiet, and go on."""
    if not running:
        times.node.stop()
    shutil.copytree(times.data, times.copy)
    if not running:
        times.node.start()


@pytest.mark.story
@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
def test_a_copy_that_comes_back_twice_costs_no_acknowledged_record(times, running):
    """Each time gives out producer ids of its own, whether or not anything tells that the disk went back."""
    copied(times, running=running)
    times.live(b"missing")
    times.settle()
    for word in (b"once", b"twice"):
        times.go_back()
        times.node.start()
        times.compared(running=running)
        times.live(word)
        times.judge()


@pytest.mark.story
def test_a_producer_from_before_the_notice_goes_on_behind_it(times, monkeypatch):
    """The bucket is silent at the start; its notice comes when a producer has an id that was not used so far."""
    copied(times, running=False)
    times.live(b"missing")
    times.settle()
    for word in (b"once", b"twice"):
        times.go_back()
        with monkeypatch.context() as silent:
            silent.setattr(BucketGate, "_look", lambda _: None)
            silent.setattr(BucketGate, "look_at_start", lambda _: asyncio.sleep(0))
            times.node.start()
            early = [times.producer() for _ in range(4)]
            kept = list(times.expected)
            for number, producer in enumerate(early):
                times.expected = []
                for batch in range(number):
                    times.send(producer, b"gone-%s-%d-%d" % (word, number, batch))
            times.expected = kept
        times.node.run(times.node.node.tiering.gate._look)
        times.node.wait_until(lambda: times.node.partition("t").log.log_end_offset >= times.archived_to)
        times.compared()
        for number, producer in enumerate(early):
            times.send(producer, *(b"late-%s-%d-%d" % (word, number, one) for one in range(3)))
        times.live(word)
        times.judge()
