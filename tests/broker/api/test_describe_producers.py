"""DescribeProducers against a running broker."""

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest


def test_producers_of_a_partition(transactions):
    """Epoch, last sequence, and where the open transaction began; -1 when none is."""
    producer = transactions.producer()
    transactions.produce(producer, 0, values=[b"a", b"b"])
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1, 9])])

    def described():
        (topic,) = transactions.call(request, 0).topics
        return topic.partitions

    with_producer, without, unknown = described()
    (state,) = with_producer.active_producers
    assert (state.producer_id, state.producer_epoch) == producer
    assert (state.last_sequence, state.coordinator_epoch, state.current_txn_start_offset) == (1, -1, 0)
    assert (without.error_code, without.active_producers) == (0, [])
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    transactions.end(producer)
    transactions.settled()
    (state,) = described()[0].active_producers
    assert (state.producer_epoch, state.last_sequence, state.current_txn_start_offset) == (1, -1, -1)
    assert state.coordinator_epoch >= 0
