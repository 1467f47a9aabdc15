"""Transactions through the client."""

import pytest
from confluent_kafka import Producer

from stratalog.client.transactions import (
    abort_transaction,
    describe_producers,
    describe_transaction,
    list_transactions,
)
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

T0 = TopicPartition("t", 0)


@pytest.fixture
def broker(start_node):
    """A broker with a topic, and ``x`` with an open transaction on it."""
    node = start_node(transaction_state_log_num_partitions=2)
    node.create("t")
    producer = Producer({"bootstrap.servers": node.address, "transactional.id": "x", "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("t", b"v", partition=0)
    assert producer.flush(20) == 0
    node.producer = producer
    return node


def test_before_anybody_has_used_one_there_are_none(start_node):
    """The coordinators' topic need not exist."""
    assert list_transactions(start_node().client()) == []


def test_lists_and_descriptions(broker):
    """Filters are the broker's; a state that does not exist is refused."""
    client = broker.client()
    (listed,) = list_transactions(client)
    assert (listed.transactional_id, listed.state) == ("x", "Ongoing")
    assert list_transactions(client, states=["Empty"]) == []
    assert list_transactions(client, pattern="y.*") == []
    with pytest.raises(KafkaError, match="Nonsense"):
        list_transactions(client, states=["Nonsense"])
    described = describe_transaction(client, "x")
    assert (described.state, described.partitions, described.producer_id) == ("Ongoing", (T0,), listed.producer_id)
    assert described.start_ms is not None
    with pytest.raises(KafkaError) as unknown:
        describe_transaction(client, "absent")
    assert unknown.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_abort_of_one_partition(broker):
    """Found by its first offset; an unknown transaction is not aborted."""
    client = broker.client()
    (producer,) = describe_producers(client, T0)
    assert producer.start_offset == 0
    with pytest.raises(KafkaError) as nothing:
        abort_transaction(client, T0, 1)
    assert nothing.value.code is ErrorCode.RESOURCE_NOT_FOUND
    assert abort_transaction(client, T0, 0) == producer
    (producer,) = describe_producers(client, T0)
    assert producer.start_offset is None
