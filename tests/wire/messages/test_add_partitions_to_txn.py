"""AddPartitionsToTxn: what each version of the messages carries."""

from stratalog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from stratalog.wire.schema import decode, encode_bytes

TOPIC = AddPartitionsToTxnTopic(name="t", partitions=[3])


def test_a_client_names_its_one_transaction():
    """Up to version 3 the transaction stands in the request itself; version 3 is flexible."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=1,
        v3_and_below_topics=[TOPIC],
    )
    who = "0000000000000007" + "0001"
    assert encode_bytes(request, 0).hex() == "0001 78".replace(
        " ", ""
    ) + who + "00000001 0001 74 00000001 00000003".replace(" ", "")
    assert encode_bytes(request, 3).hex() == "0278" + who + "02" + "0274" + "0200000003" + "00" + "00"
    assert decode(AddPartitionsToTxnRequest, 3, encode_bytes(request, 3)) == request


def test_a_broker_names_many():
    """From version 4 on the request is a list, and may ask instead of adding."""
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=7, producer_epoch=1, verify_only=True, topics=[TOPIC]
    )
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    expected = "02" + "0278" + "0000000000000007" + "0001" + "01" + "02" + "0274" + "0200000003" + "00" + "00" + "00"
    assert encode_bytes(request, 4).hex() == expected
    assert decode(AddPartitionsToTxnRequest, 5, encode_bytes(request, 5)) == request


def test_outcomes_by_topic_or_by_transaction():
    """The answer has the form of its request."""
    topic = AddPartitionsToTxnTopicResult(
        name="t",
        results_by_partition=[AddPartitionsToTxnPartitionResult(partition_index=3, partition_error_code=51)],
    )
    old = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    new = AddPartitionsToTxnResponse(
        results_by_transaction=[AddPartitionsToTxnResult(transactional_id="x", topic_results=[topic])]
    )
    assert encode_bytes(old, 0).hex() == "00000000" + "00000001" + "000174" + "00000001" + "00000003" + "0033"
    partition = "02" + "00000003" + "0033" + "00"
    assert encode_bytes(new, 4).hex() == "00000000" + "0000" + "02" + "0278" + "02" + "0274" + partition + "00" * 3
