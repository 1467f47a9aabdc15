"""Transactions of aiokafka."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

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


async def started(broker, transactional_id="x"):
    producer = AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id=transactional_id)
    await producer.start()
    return producer


def settled(broker):
    """Wait for the markers, which follow the answer to a commit."""

    def complete():
        drivers = broker.node.transactions.drivers()
        return not any(one.status.ending for driver in drivers for one in driver.shard.transactions.values())

    broker.wait_until(complete)


async def read(broker, isolation="read_committed"):
    """Records that a consumer of this isolation sees, up to the end that it gets."""
    settled(broker)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.address,
        isolation_level=isolation,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    consumer.assign([TP])
    await consumer.seek_to_beginning(TP)
    end = (await consumer.end_offsets([TP]))[TP]
    values = []
    while await consumer.position(TP) < end:
        records = await consumer.getmany(TP, timeout_ms=1_000)
        values += [message.value for message in records.get(TP, ())]
    await consumer.stop()
    return values


async def test_commits_and_aborts(broker):
    """One after the other by one producer."""
    producer = await started(broker)
    for number, commit in enumerate([True, False, True, False, True]):
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"%d" % number, partition=0)
        await (producer.commit_transaction() if commit else producer.abort_transaction())
    await producer.stop()
    assert await read(broker) == [b"0", b"2", b"4"]
    assert await read(broker, "read_uncommitted") == [b"0", b"1", b"2", b"3", b"4"]


async def test_offsets_in_a_transaction(broker):
    """Seen when it has committed."""
    producer = await started(broker)
    consumer = AIOKafkaConsumer("t", bootstrap_servers=broker.address, group_id="g", enable_auto_commit=False)
    await consumer.start()
    for offset, commit in ((5, False), (3, True)):
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"v", partition=0)
        await producer.send_offsets_to_transaction({TP: offset}, "g")
        await (producer.commit_transaction() if commit else producer.abort_transaction())
        settled(broker)
        assert await consumer.committed(TP) == (3 if commit else None)
    await consumer.stop()
    await producer.stop()


async def test_a_second_producer_fences_the_first(broker):
    """The first of two producers with one id hears of the second."""
    first = await started(broker)
    await first.begin_transaction()
    await first.send_and_wait("t", b"zombie", partition=0)
    second = await started(broker)
    with pytest.raises(ProducerFenced):
        await first.commit_transaction()
    await second.begin_transaction()
    await second.send_and_wait("t", b"heir", partition=0)
    await second.commit_transaction()
    assert await read(broker) == [b"heir"]
    await first.stop()
    await second.stop()
