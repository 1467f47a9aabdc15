"""Transactions of a real client on a tiered topic: what a read_committed consumer sees does not depend on the place."""

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition


def read(address, offset, isolation):
    """``(offset, value)`` of records that librdkafka shows from an offset to the end that it gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition("t", 0, offset)])
    found = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        found.append((message.offset(), message.value()))


@pytest.mark.story
def test_aborted_transactions_of_a_client_are_hidden_in_both_places(tiered):
    """Interleaved transactions of two producers, archived and evicted up to the middle of some of them."""
    tiered.topic("t", local_retention_bytes=6000, internal_segment_bytes=4000)
    producers = []
    for number in (0, 1):
        producer = Producer(
            {"bootstrap.servers": tiered.node.address, "transactional.id": f"x{number}", "linger.ms": 0}
        )
        producer.init_transactions(20)
        producers.append(producer)
    committed = set()
    for number in range(24):
        values = [[b"%d of %d: %d" % (which, number, n) + b"." * 150 for n in range(4)] for which in (0, 1)]
        for producer in producers:
            producer.begin_transaction()
        for pair in zip(*values, strict=True):
            for producer, value in zip(producers, pair, strict=True):
                producer.produce("t", value, partition=0)
                producer.flush(20)
        for which, producer in enumerate(producers):
            if (number + which) % 3 == 0:
                producer.commit_transaction(20)
                committed |= set(values[which])
            else:
                producer.abort_transaction(20)
    tiered.archived("t", evicted=False)
    tiered.node.wait_until(lambda: tiered.node.partition("t").log.local_log_start_offset > 100)
    _, local_start, _, end = tiered.offsets("t")
    assert local_start < end - 10
    partition = tiered.node.partition("t").partition
    tiered.node.wait_until(lambda: partition.last_stable_offset == end)
    everything = read(tiered.node.address, 0, "read_uncommitted")
    assert len(everything) == 2 * 24 * 4
    visible = [(offset, value) for offset, value in everything if value in committed]
    assert len(visible) == len(committed) == 64
    for offset in (0, 1, local_start // 2, local_start - 1, local_start, local_start + 1):
        expected = [one for one in visible if one[0] >= offset]
        assert read(tiered.node.address, offset, "read_committed") == expected
