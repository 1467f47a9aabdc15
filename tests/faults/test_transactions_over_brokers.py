"""Transactions over three brokers: coordinator, partitions and group on different ones, and any of them killed."""

import time

import pytest
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as Place

from stratalog.client.admin import delete_topics
from stratalog.client.coordinators import GROUP, find_coordinator
from stratalog.client.transactions import abort_transaction, describe_producers, describe_transaction, list_transactions
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from stratalog.wire.messages.describe_transactions import DescribeTransactionsRequest
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.list_transactions import ListTransactionsRequest
from stratalog.wire.topic import TopicPartition
from tests.faults.over_brokers import SETTINGS, Brokers, WireProducer, until

pytestmark = pytest.mark.story


@pytest.fixture
def brokers(stratalog_cluster):
    """Three of them, with topic ``t``."""
    return Brokers(stratalog_cluster(nodes=3, settings=SETTINGS))


class V1:
    """librdkafka: it adds partitions itself (AddPartitionsToTxn, AddOffsetsToTxn), and brokers verify."""

    def __init__(self, brokers, transactional_id, timeout_ms=60_000):
        self.brokers = brokers
        settings = {
            "bootstrap.servers": brokers.cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
        self.producer = ConfluentProducer(settings)
        self.open = False

    def init(self):
        self.producer.init_transactions(60)
        return self

    def _begin(self):
        if not self.open:
            self.producer.begin_transaction()
            self.open = True

    def write(self, number, *values):
        self._begin()
        for value in values:
            self.producer.produce("t", value.encode(), partition=number)
        assert self.producer.flush(60) == 0

    def offsets(self, group, offset):
        self._begin()
        consumer = self.brokers.consumer(group)
        self.producer.send_offsets_to_transaction([Place("t", 0, offset)], consumer.consumer_group_metadata(), 60)
        consumer.close()

    def end(self, *, commit=True):
        self._begin()
        self.open = False
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)(60)

    def end_empty(self):
        self.end()


@pytest.fixture(params=[V1, WireProducer], ids=["v1", "v2"])
def new_producer(request, brokers):
    """Makes a producer of each protocol."""
    return lambda name, **options: request.param(brokers, name, **options).init()


def everywhere(producer, word, partitions=range(6)):
    """A record in each partition; the values."""
    for number in partitions:
        producer.write(number, f"{word}-{number}")
    return [f"{word}-{number}" for number in partitions]


def test_partitions_and_a_group_of_all_brokers(brokers, new_producer):
    """Commits and aborts in turn, from a coordinator on each broker; an empty one, too."""
    assert set(brokers.leaders().values()) == {1, 2, 3}
    expected = []
    for node_id in (1, 2, 3):
        producer = new_producer(brokers.key_at(node_id))
        group = brokers.key_at(node_id % 3 + 1, GROUP)
        expected += everywhere(producer, f"first-{node_id}")
        producer.offsets(group, node_id)
        producer.end()
        everywhere(producer, f"never-{node_id}")
        producer.offsets(group, 1000)
        producer.end(commit=False)
        producer.end_empty()
        expected += everywhere(producer, f"last-{node_id}")
        producer.offsets(group, 100 + node_id)
        producer.end()
        until(lambda group=group, node_id=node_id: brokers.offset_of(group) == 100 + node_id)
    assert brokers.committed(len(expected)) == sorted(expected)
    until(brokers.stable)


@pytest.mark.parametrize("role", ["coordinator", "leader", "group"])
def test_a_broker_is_killed_in_the_middle_of_a_transaction(brokers, new_producer, role):
    """It comes back with all that it had, and the transaction is committed on all brokers; so is the next one."""
    producer = new_producer(brokers.key_at(1))
    group = brokers.key_at(3, GROUP)
    expected = everywhere(producer, "open")
    producer.offsets(group, 7)
    killed = {"coordinator": 1, "leader": 2, "group": 3}[role]
    brokers.cluster.kill(killed)
    brokers.back(killed)
    producer.end()
    expected += everywhere(producer, "next")
    producer.offsets(group, 8)
    producer.end()
    assert brokers.committed(len(expected)) == sorted(expected)
    until(lambda: brokers.offset_of(group) == 8)


def test_a_dead_broker_holds_up_its_own_partitions_and_no_others(brokers, new_producer):
    """The end is decided without it; its marker comes when it is back."""
    producer = new_producer(brokers.key_at(1))
    expected = everywhere(producer, "w")
    brokers.cluster.kill(2)
    began = time.monotonic()
    producer.end()
    assert time.monotonic() - began < 10
    alive = [number for number, leader in brokers.leaders().items() if leader in (1, 3)]
    assert brokers.committed(len(alive), *alive) == [f"w-{number}" for number in alive]
    until(lambda: brokers.stable(*alive))
    other = new_producer(brokers.key_at(3))
    expected += everywhere(other, "other", alive)
    other.end()
    brokers.back(2)
    assert brokers.committed(len(expected)) == sorted(expected)
    expected += everywhere(producer, "after")
    producer.end()
    assert brokers.committed(len(expected)) == sorted(expected)


@pytest.mark.parametrize("commit", [True, False])
def test_a_coordinator_that_dies_between_decision_and_markers_sends_them_when_it_is_back(brokers, new_producer, commit):
    """Its log says what is not finished; the leader comes back later still."""
    producer = new_producer(brokers.key_at(1))
    group = brokers.key_at(2, GROUP)
    values = everywhere(producer, "w")
    producer.offsets(group, 7)
    brokers.cluster.kill(2)
    producer.end(commit=commit)
    brokers.cluster.kill(1)
    brokers.back(1)
    brokers.back(2)
    expected = sorted(values) if commit else []
    assert brokers.committed(len(expected)) == expected
    until(brokers.stable)
    until(lambda: brokers.offset_of(group) == (7 if commit else -1001))


def test_a_producer_that_goes_silent_is_aborted_on_all_brokers(brokers, new_producer):
    """By the time-out of its transaction, and fenced."""
    producer = new_producer(brokers.key_at(2), timeout_ms=1500)
    everywhere(producer, "never")
    assert not brokers.stable()
    until(brokers.stable, what="the abort")
    assert brokers.committed(0) == []
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|timed out|mapping"):
        producer.end()


def test_a_new_producer_fences_the_old_one_whose_partitions_are_elsewhere(brokers, new_producer):
    """Its open transaction is aborted on all brokers, and late batches of it are refused there."""
    name = brokers.key_at(3)
    old = new_producer(name)
    everywhere(old, "never")
    new = new_producer(name)
    expected = everywhere(new, "new")
    new.end()
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|fatal|invalid|not valid"):
        zombie(old)
    assert brokers.committed(len(expected)) == sorted(expected)


def zombie(producer):
    producer.write(0, "zombie")
    producer.end()


def test_a_topic_that_is_deleted_needs_no_marker(brokers, new_producer):
    """Not even where its broker is dead when the transaction ends."""
    producer = new_producer(brokers.key_at(1))
    everywhere(producer, "w")
    brokers.cluster.kill(3)
    producer.end()
    with brokers.client() as client:
        delete_topics(client, ["t"])

    def complete():
        with brokers.client() as client:
            return describe_transaction(client, brokers.key_at(1)).state == "CompleteCommit"

    until(complete)


def test_transactions_are_looked_at_and_ended_by_hand_on_the_broker_that_has_them(brokers):
    """``list`` asks all brokers, ``describe`` the coordinator, ``abort`` the partition's leader, whoever coordinates it."""
    name = brokers.key_at(1)
    producer = WireProducer(brokers, name).init()
    number = brokers.partition_at(2)
    producer.write(number, "never")
    where = TopicPartition("t", number)
    with brokers.client() as client:
        assert [one.transactional_id for one in list_transactions(client)] == [name]
        described = describe_transaction(client, name)
        assert (described.state, list(described.partitions)) == ("Ongoing", [where])
        (open_there,) = describe_producers(client, where)
        brokers.cluster.kill(1)
        abort_transaction(client, where, open_there.transaction_start_offset)
    assert brokers.stable(number)
    brokers.back(1)
    with pytest.raises(KafkaError):
        producer.write(number, "zombie")
    assert brokers.committed(0, number) == []


def test_each_broker_answers_for_what_it_coordinates(brokers):
    """NOT_COORDINATOR from the others, to every request of a transaction; their lists leave it out."""
    name, group = brokers.key_at(1), brokers.key_at(2, GROUP)
    WireProducer(brokers, name).init()
    requests = [
        (InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), 5),
        (AddOffsetsToTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, group_id=group), 4),
        (EndTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, committed=True), 5),
    ]
    with brokers.client() as client:
        client.refresh(["t"])
        assert find_coordinator(client, group, GROUP) == 2
        for node_id in (2, 3):
            link = client.link(node_id)
            codes = {link.call(request, version).error_code for request, version in requests}
            assert codes == {ErrorCode.NOT_COORDINATOR}
            (state,) = link.call(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
            assert state.error_code == ErrorCode.NOT_COORDINATOR
            listed = link.call(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 1)
            assert (listed.error_code, listed.transaction_states) == (0, [])


@pytest.mark.parametrize("version", range(4))
def test_clients_of_every_age_add_partitions_that_others_lead(brokers, version):
    """AddPartitionsToTxn 0 to 3 at the coordinator, Produce 9 at the leaders, which verify, EndTxn 3."""
    name = brokers.key_at(1)
    numbers = [brokers.partition_at(node_id) for node_id in (1, 2, 3)]
    producer = WireProducer(brokers, name).init()
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer.producer_id,
        v3_and_below_producer_epoch=producer.producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=numbers[:2])],
    )
    with brokers.client() as client:
        answer = client.link(find_coordinator(client, name, 1)).call(request, version)
    codes = [
        one.partition_error_code for topic in answer.results_by_topic_v3_and_below for one in topic.results_by_partition
    ]
    assert codes == [0, 0]
    for number in numbers[:2]:
        producer.write(number, f"w-{number}", version=9)
    with pytest.raises(KafkaError) as refused:
        producer.write(numbers[2], "not added", version=9)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    producer.end(version=3)
    assert brokers.committed(2, *numbers) == sorted(f"w-{number}" for number in numbers[:2])
