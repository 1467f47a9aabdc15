"""Transactions of kafka-python."""

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

SETTINGS = {
    "group_initial_rebalance_delay_ms": 0,
    "transaction_state_log_num_partitions": 2,
    "offsets_topic_num_partitions": 2,
}
TP = TopicPartition("t", 0)


@pytest.fixture
def broker(start_node):
    """A broker with a topic ``t``."""
    node = start_node(**SETTINGS)
    node.create("t")
    return node


def started(broker, transactional_id="x"):
    producer = KafkaProducer(bootstrap_servers=broker.address, transactional_id=transactional_id)
    producer.init_transactions()
    return producer


def settled(broker):
    """Wait for the markers, which follow the answer to a commit."""

    def complete():
        drivers = broker.node.transactions.drivers()
        return not any(one.status.ending for driver in drivers for one in driver.shard.transactions.values())

    broker.wait_until(complete)


def read(broker, isolation="read_committed"):
    """Records that a consumer of this isolation sees, up to the end that it gets."""
    settled(broker)
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address,
        isolation_level=isolation,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consumer.assign([TP])
    end = consumer.end_offsets([TP])[TP]
    values = []
    while consumer.position(TP) < end:
        values += [message.value for message in consumer.poll(timeout_ms=1_000).get(TP, ())]
    consumer.close()
    return values


def test_commits_and_aborts(broker):
    """One after the other by one producer."""
    producer = started(broker)
    for number, commit in enumerate([True, False, True, False, True]):
        producer.begin_transaction()
        producer.send("t", b"%d" % number, partition=0).get(20)
        (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.close()
    assert read(broker) == [b"0", b"2", b"4"]
    assert read(broker, "read_uncommitted") == [b"0", b"1", b"2", b"3", b"4"]


def test_offsets_in_a_transaction(broker):
    """Seen when it has committed."""
    producer = started(broker)
    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id="g", enable_auto_commit=False)
    consumer.assign([TP])
    for offset, commit in ((5, False), (3, True)):
        producer.begin_transaction()
        producer.send("t", b"v", partition=0).get(20)
        producer.send_offsets_to_transaction({TP: OffsetAndMetadata(offset, "", -1)}, "g")
        (producer.commit_transaction if commit else producer.abort_transaction)()
        settled(broker)
        assert consumer.committed(TP) == (3 if commit else None)
    consumer.close()
    producer.close()


def test_a_second_producer_fences_the_first(broker):
    """The first of two producers with one id hears of the second."""
    first = started(broker)
    first.begin_transaction()
    first.send("t", b"zombie", partition=0).get(20)
    second = started(broker)
    with pytest.raises(KafkaError):
        first.commit_transaction()
    second.begin_transaction()
    second.send("t", b"heir", partition=0).get(20)
    second.commit_transaction()
    assert read(broker) == [b"heir"]
    first.close(timeout=1)
    second.close()
