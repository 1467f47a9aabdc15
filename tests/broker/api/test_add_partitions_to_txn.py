"""AddPartitionsToTxn against a running broker."""

from stratalog.metadata.coordination import Producer
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)


def test_partitions_are_added_together_or_not_at_all(transactions):
    """One that does not exist keeps the others out."""
    producer = transactions.producer()
    assert transactions.add(producer, 0, 7, 1) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert transactions.state() == "Empty"
    for version in range(4):
        assert transactions.add(producer, 0, 1, version=version) == [0, 0]
    assert transactions.state() == "Ongoing"
    assert len(transactions.transaction().partitions) == 2


def test_a_client_that_is_none_is_refused_in_the_words_of_its_version(transactions):
    """PRODUCER_FENCED is known from version 2 on."""
    producer = transactions.producer()
    transactions.producer()
    assert transactions.add(producer, 0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert transactions.add(producer, 0, version=2) == [ErrorCode.PRODUCER_FENCED]
    unknown = transactions.add(producer, 0, transactional_id="who")
    assert unknown == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert transactions.add(producer, 0, transactional_id="") == [ErrorCode.INVALID_REQUEST]


def test_internal_topics_are_in_no_transaction_of_a_client(transactions):
    """Offsets go by way of AddOffsetsToTxn; a marker in the coordinator's own log could not be read again."""
    producer = transactions.producer()
    for topic in ("__transaction_state", "__consumer_offsets"):
        assert transactions.add(producer, 0, topic=topic) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert transactions.state() == "Empty"


def batch(transactions, *asked, version=5, topic="t"):
    """The form of brokers: (transactional id, producer, verify only, partitions) each."""
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name=topic, partitions=partitions)],
            )
            for transactional_id, producer, verify_only, partitions in asked
        ]
    )
    answer = transactions.call(request, version)
    assert answer.error_code == 0
    return {
        result.transactional_id: [
            one.partition_error_code for topic in result.topic_results for one in topic.results_by_partition
        ]
        for result in answer.results_by_transaction
    }


def test_brokers_ask_for_many_transactions_at_once(transactions):
    """Some add, some only look, each with its own outcome (KIP-890)."""
    one, two = transactions.producer("one"), transactions.producer("two")
    transactions.add(one, 0, transactional_id="one")
    asked = [("one", one, True, [0, 1]), ("two", two, False, [2]), ("who", one, True, [0])]
    assert batch(transactions, *asked) == {
        "one": [0, ErrorCode.TRANSACTION_ABORTABLE],
        "two": [0],
        "who": [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
    }
    assert transactions.state("two") == "Ongoing"
    assert batch(transactions, asked[0], version=4) == {"one": [0, ErrorCode.TRANSACTION_ABORTABLE]}


def test_brokers_add_what_exists(transactions):
    """Otherwise a transaction could hold topics without end, or the log in which it is kept itself."""
    producer = transactions.producer()
    assert batch(transactions, ("x", producer, False, [0, 7])) == {
        "x": [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    }
    asked = ("x", producer, False, [0])
    assert batch(transactions, asked, topic="__transaction_state") == {"x": [ErrorCode.INVALID_TOPIC_EXCEPTION]}
    assert transactions.state() == "Empty"


def test_brokers_hear_at_once_of_a_transaction_that_is_being_ended(transactions):
    """The answer to all of them would wait for it; whose turn it is asks again by itself."""
    producer = transactions.producer()
    transactions.add(producer, 0)
    writer = transactions.broker.node.transactions._writer
    send, writer.send = writer.send, lambda *_: None
    try:
        after = transactions.end(producer, version=5)
        asked = ("x", Producer(after.producer_id, after.producer_epoch), False, [0])
        assert batch(transactions, asked) == {"x": [ErrorCode.CONCURRENT_TRANSACTIONS]}
    finally:
        writer.send = send
