"""AddOffsetsToTxn against a running broker."""

from stratalog.broker.coordinators.internal_topics import GROUP_TOPIC
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest


def add_offsets(transactions, producer, version=4, transactional_id="x"):
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id="g",
    )
    return transactions.call(request, version).error_code


def test_the_groups_partition_becomes_part_of_the_transaction(transactions):
    """In every version; the topic is made if it does not exist yet."""
    producer = transactions.producer()
    assert GROUP_TOPIC not in transactions.broker.node.image.topics.by_name
    for version in range(5):
        assert add_offsets(transactions, producer, version) == 0
    (partition,) = transactions.transaction().partitions
    assert partition.topic == GROUP_TOPIC
    assert transactions.end(producer).error_code == 0
    transactions.settled()


def test_refusals_in_the_words_of_the_version(transactions):
    """PRODUCER_FENCED is known from version 2 on."""
    producer = transactions.producer()
    transactions.producer()
    assert add_offsets(transactions, producer, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert add_offsets(transactions, producer, 2) == ErrorCode.PRODUCER_FENCED
    assert add_offsets(transactions, producer, transactional_id="who") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
