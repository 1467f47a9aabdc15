"""DescribeTransactions: what the messages carry."""

from stratalog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from stratalog.wire.schema import encode_bytes


def test_request():
    """Transactional ids."""
    assert encode_bytes(DescribeTransactionsRequest(transactional_ids=["x"]), 0).hex() == "02" + "0278" + "00"


def test_response():
    """State, time-out, start, producer and partitions of each."""
    state = TransactionState(
        transactional_id="x",
        transaction_state="Ongoing",
        transaction_timeout_ms=60000,
        transaction_start_time_ms=5,
        producer_id=7,
        producer_epoch=1,
        topics=[TopicData(topic="t", partitions=[3])],
    )
    expected = (
        ("00000000" + "02" + "0000" + "0278" + "08" + b"Ongoing".hex() + "0000ea60" + "0000000000000005")
        + ("0000000000000007" + "0001" + "02" + "0274" + "0200000003" + "00")
        + "0000"
    )
    assert encode_bytes(DescribeTransactionsResponse(transaction_states=[state]), 0).hex() == expected
