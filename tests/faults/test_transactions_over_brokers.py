"""Transactions over three brokers: coordinator, partitions and group on different ones."""

import re

import pytest

from stratalog.client.coordinators import GROUP, find_coordinator
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from stratalog.wire.messages.describe_transactions import DescribeTransactionsRequest
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.list_transactions import ListTransactionsRequest
from tests.faults.over_brokers import PRODUCERS, Brokers, InProcess, WireProducer, everywhere, until

pytestmark = pytest.mark.story


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Three nodes in this process."""
    made = InProcess(str(tmp_path_factory.mktemp("nodes")))
    yield made
    made.stop()


@pytest.fixture
def brokers(nodes, request):
    """Their brokers, with a topic for this test."""
    return Brokers(nodes, topic=re.sub(r"\W+", "-", request.node.name)[:200])


@pytest.fixture(params=PRODUCERS.values(), ids=PRODUCERS)
def new_producer(request, brokers):
    """Makes a producer of each protocol."""
    return lambda name, **options: request.param(brokers, name, **options).init()


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


def test_a_producer_that_goes_silent_is_aborted_on_all_brokers(brokers, new_producer):
    """By the time-out of its transaction, and fenced."""
    producer = new_producer(brokers.key_at(2), timeout_ms=10_000)
    everywhere(producer, "never")
    assert not brokers.stable()
    until(brokers.stable, what="the abort")
    assert brokers.committed(0) == []
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|timed out|invalid_txn_state"):
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
        client.refresh([brokers.topic])
        assert find_coordinator(client, group, GROUP) == 2
        for node_id in (2, 3):
            link = client.link(node_id)
            codes = {link.call(request, version).error_code for request, version in requests}
            assert codes == {ErrorCode.NOT_COORDINATOR}
            (state,) = link.call(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
            assert state.error_code == ErrorCode.NOT_COORDINATOR
            listed = link.call(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 1)
            assert listed.error_code == 0
            assert name not in [one.transactional_id for one in listed.transaction_states]


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
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=brokers.topic, partitions=numbers[:2])],
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
