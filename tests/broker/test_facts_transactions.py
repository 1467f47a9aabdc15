"""Facts of idempotence and transactions, word for word, against a running broker."""

import pytest

from stratalog.cli.dump.dump import dump
from stratalog.client.records import fetch, visible_records
from stratalog.metadata.coordination import Producer
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from stratalog.wire.messages.describe_transactions import DescribeTransactionsRequest
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from stratalog.wire.topic import TopicPartition


class Wire:
    """A topic ``t`` of two partitions and a producer's requests."""

    def __init__(self, broker):
        self.broker = broker
        broker.create("t", 2)
        self.link = broker.link()

    def find(self):
        """Where transactions are coordinated, and that they are loaded."""
        self.link.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 6)
        self.broker.wait_until(lambda: not self.broker.node.transactions.loading)

    def init(self, transactional_id=None):
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answer = self.link.call(request, 5)
        assert answer.error_code == 0
        return Producer(answer.producer_id, answer.producer_epoch)

    def send(self, producer, sequence, *values, partition=0, transactional_id=None):
        """The offset of the first record, or the name of the error."""
        batch = build_batch(
            [Record(n, self.broker.node.clock.wall_ms(), None, value) for n, value in enumerate(values)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=transactional_id is not None,
        )
        data = PartitionProduceData(index=partition, records=bytes(batch))
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=9_000, topic_data=[topic])
        answer = self.link.call(request, 11).responses[0].partition_responses[0]
        return ErrorCode(answer.error_code).name if answer.error_code else answer.base_offset

    def add(self, producer, *partitions):
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
        )
        results = self.link.call(request, 3).results_by_topic_v3_and_below
        return [one.partition_error_code for topic in results for one in topic.results_by_partition]

    def end(self, producer, *, commit):
        request = EndTxnRequest(
            transactional_id="x", producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        return ErrorCode(self.link.call(request, 4).error_code).name

    def described(self):
        """The state of the transactional id, and its partitions."""
        answer = self.link.call(DescribeTransactionsRequest(transactional_ids=["x"]), 0)
        (state,) = answer.transaction_states
        return state.transaction_state, [number for topic in state.topics for number in topic.partitions]

    def read(self, partition=0):
        """The records that a read_committed consumer sees."""
        client, position, values = self.broker.client(), 0, []
        name = TopicPartition("t", partition)
        while True:
            (found,) = fetch(client, {name: position}, max_wait_ms=0)
            if not found.data:
                return values
            for next_offset, records in visible_records(found, position):
                values += [record.value for record in records]
                position = next_offset

    def latest(self, *, committed):
        """ListOffsets: where the partition ends for such a reader."""
        topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=[topic])
        return self.link.call(request, 5).topics[0].partitions[0].offset


@pytest.fixture
def wire(start_node):
    return Wire(start_node(transaction_state_log_num_partitions=1))


def test_retries_after_a_lost_answer(wire):
    """m1, m2, m3 are there once each, in order; the retries are answered with the original offsets."""
    producer = wire.init()
    first = [wire.send(producer, n, b"m%d" % (n + 1)) for n in range(3)]
    assert first == [0, 1, 2]
    assert [wire.send(producer, n, b"m%d" % (n + 1)) for n in range(3)] == first
    assert wire.broker.values("t") == [b"m1", b"m2", b"m3"]


def test_the_last_five_batches_are_known(wire):
    """Older ones are an error, never a copy; also after a restart, as far as the log tells."""
    producer = wire.init()
    for n in range(7):
        assert wire.send(producer, 2 * n, b"a%d" % n, b"b%d" % n) == 2 * n
    assert [wire.send(producer, 2 * n, b"a%d" % n, b"b%d" % n) for n in range(2, 7)] == [4, 6, 8, 10, 12]
    for n in (0, 1):
        assert wire.send(producer, 2 * n, b"a%d" % n, b"b%d" % n) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert wire.send(producer, 20, b"gap") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    wire.broker.restart()
    wire.link = wire.broker.link()
    assert wire.send(producer, 12, b"a6", b"b6") == 12
    assert wire.broker.end("t") == 14


def test_the_same_transactional_id_again(wire):
    """Same producer id, epoch + 1; the older producer is fenced, its open transaction aborted."""
    wire.find()
    old = wire.init("x")
    assert wire.add(old, 0) == [0]
    assert wire.send(old, 0, b"left open", transactional_id="x") == 0
    new = wire.init("x")
    assert new.producer_id == old.producer_id
    assert new.producer_epoch == old.producer_epoch + 2  # one more for the abort, for no producer's use
    assert wire.init("x") == (new.producer_id, new.producer_epoch + 1)
    assert wire.send(old, 1, b"zombie", transactional_id="x") == "INVALID_PRODUCER_EPOCH"
    assert wire.end(old, commit=True) == "PRODUCER_FENCED"
    assert wire.read() == []
    assert wire.latest(committed=True) == wire.latest(committed=False) == 2


@pytest.mark.parametrize(("commit", "word"), [(True, "Commit"), (False, "Abort")])
def test_an_end_step_by_step(wire, commit, word):
    """PrepareCommit, then CompleteCommit with one marker a partition; abort likewise; DescribeTransactions tells."""
    wire.find()
    producer = wire.init("x")
    assert wire.described() == ("Empty", [])
    assert wire.add(producer, 0, 1) == [0, 0]
    for partition in (0, 1):
        wire.send(producer, 0, b"v", partition=partition, transactional_id="x")
    assert wire.described() == ("Ongoing", [0, 1])
    assert (wire.latest(committed=True), wire.latest(committed=False)) == (0, 1)
    held = wire.broker.partition("t", 1).partition
    held.held_back = "for the test"
    assert wire.end(producer, commit=commit) == "NONE"
    transactions = wire.broker.node.transactions.host.of("x").shard.transactions
    wire.broker.wait_until(lambda: transactions["x"].partitions == {TopicPartition("t", 1)})
    assert wire.described() == (f"Prepare{word}", [1])
    held.held_back = None
    wire.broker.wait_until(lambda: transactions["x"].status.title == f"Complete{word}")
    assert wire.described() == (f"Complete{word}", [])
    assert wire.end(producer, commit=commit) == "NONE"
    assert wire.read(0) == wire.read(1) == ([b"v"] if commit else [])
    directory = wire.broker.partition("t", 0).log.directory
    wire.broker.stop()
    rows = list(dump(f"{directory}/00000000000000000000.log", records=True))
    markers = [row for row in rows if "control" in row.get("flags", ())]
    assert [(row["base_offset"], row["records"], row["producer_id"]) for row in markers] == [
        (1, 1, producer.producer_id)
    ]
    assert [row["type"] for row in rows if "type" in row] == [word.lower()]
