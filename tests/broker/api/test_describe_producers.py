"""DescribeProducers against a running broker."""

from types import SimpleNamespace

from stratalog.broker.api import describe_producers
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.broker.api.at_once import pauses


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


def test_very_many_producers_are_described_in_slices():
    """A client makes up a producer id for each batch: 120,000 of them took 200 ms at once."""
    entry = SimpleNamespace(
        producer_id=1,
        producer_epoch=0,
        last_sequence=2,
        last_timestamp_ms=3,
        coordinator_epoch=-1,
        transaction_first_offset=-1,
    )
    state = SimpleNamespace(entries=dict.fromkeys(range(100), entry))
    unified = SimpleNamespace(
        partition=SimpleNamespace(check_online=lambda: None), log=SimpleNamespace(producer_state=state)
    )
    broker = SimpleNamespace(partitions=SimpleNamespace(by_name=lambda _topic, _number: unified))
    context = SimpleNamespace(allows=lambda _topic: True, broker=broker)
    steps = describe_producers._partition(context, "t", 0)
    next(steps)
    state.entries[100] = entry  # while it pauses
    count, answer = pauses(steps)
    assert (count, len(answer.active_producers)) == (99, 100)
