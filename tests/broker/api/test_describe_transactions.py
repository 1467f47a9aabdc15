"""DescribeTransactions against a running broker."""

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_transactions import DescribeTransactionsRequest


def test_each_id_has_its_own_answer(transactions):
    """Known ones their state, unknown ones TRANSACTIONAL_ID_NOT_FOUND, empty ones INVALID_REQUEST."""
    producer = transactions.producer()
    transactions.produce(producer, 0, 2)
    request = DescribeTransactionsRequest(transactional_ids=["x", "who", ""])
    known, unknown, empty = transactions.call(request, 0).transaction_states
    assert (known.error_code, known.transaction_state, known.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (known.producer_id, known.producer_epoch) == producer
    assert [(topic.topic, topic.partitions) for topic in known.topics] == [("t", [0, 2])]
    assert known.transaction_start_time_ms > 0
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST
