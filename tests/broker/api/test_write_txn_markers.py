"""WriteTxnMarkers against a running broker."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api.write_txn_markers import API
from stratalog.metadata.coordination import Producer
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from stratalog.wire.topic import TopicPartition


def write(transactions, producer, *partitions, **marker):
    """The codes of each partition; ``marker`` as in `results`."""
    return [code for code, _ in results(transactions, producer, *partitions, **marker)]


def results(
    transactions,
    producer,
    *partitions,
    commit=False,
    version=2,
    transaction_version=0,
    coordinator_epoch=-1,
    topic="t",
):
    """The code of each partition, and whether it says that nothing is open."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    answer = transactions.call(WriteTxnMarkersRequest(markers=[marker]), version)
    return [
        (one.error_code, one.nothing_open)
        for marker in answer.markers
        for topic in marker.topics
        for one in topic.partitions
    ]


def hanging(transactions, sequence=0):
    """A transaction that no coordinator knows."""
    producer = Producer(4_000, 0)
    enlistment = transactions.broker.node.transactions.enlistment

    def let_in(_transactional_id, event):
        event.token.respond(event.done)

    ask, enlistment._ask = enlistment._ask, let_in
    assert transactions.produce(producer, 0, values=[b"hanging"], sequence=sequence) == [0]
    enlistment._ask = ask
    return producer


def test_a_hanging_transaction_is_ended_from_outside(transactions):
    """In the partitions that are led here; the last stable offset moves on."""
    producer = hanging(transactions)
    good = transactions.producer()
    transactions.produce(good, 0, values=[b"behind"])
    transactions.end(good)
    transactions.settled()
    assert transactions.committed() == []
    assert write(transactions, producer, 0, 9) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert transactions.committed() == [b"behind"]


def test_a_marker_may_be_repeated(transactions):
    """A coordinator that starts again does so; an old epoch is refused, and an old coordinator."""
    producer = hanging(transactions)
    after = Producer(producer.producer_id, 1)
    for _ in range(2):
        assert write(transactions, after, 0, transaction_version=2, coordinator_epoch=5) == [0]
    assert write(transactions, producer, 0, coordinator_epoch=5) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    fenced = write(transactions, after, 0, version=1, coordinator_epoch=4)
    assert fenced == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]


def test_a_fenced_coordinator_hears_where_nothing_is_open(transactions):
    """Its disk may have gone back in time: it would offer its marker for ever to a partition that needs none."""
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    producer = hanging(transactions)
    assert results(transactions, producer, 0, coordinator_epoch=5) == [(0, False)]
    assert results(transactions, producer, 0, coordinator_epoch=4) == [(fenced, True)]
    hanging(transactions, sequence=1)
    assert results(transactions, producer, 0, coordinator_epoch=4) == [(fenced, False)]
    unknown = results(transactions, producer, 9, coordinator_epoch=4)
    assert unknown == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)]


def test_no_marker_stands_in_the_log_of_transactions(transactions):
    """No record there belongs to one: the coordinator could not be loaded again."""
    producer = transactions.producer()
    assert write(transactions, producer, 0, topic="__transaction_state") == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def answer_of(code, *, is_hosted, topic="__consumer_offsets"):
    """The code for a marker that could not be written for this reason."""
    answers = []
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=[0])]
    marker = WritableTxnMarker(
        producer_id=7, producer_epoch=0, topics=topics, transaction_result=True, coordinator_epoch=1
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    markers = SimpleNamespace(write=lambda _where, _marker, done: done(KafkaError(code)))
    context = SimpleNamespace(
        allows=lambda *_: True,
        respond=answers.append,
        sliced=list,
        broker=SimpleNamespace(
            transactions=SimpleNamespace(markers=markers),
            partitions={TopicPartition(topic, 0): object()} if is_hosted else {},
        ),
    )
    API.handle(context, request)
    return answers[0].markers[0].topics[0].partitions[0].error_code


@pytest.mark.parametrize(
    "code",
    [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR],
)
def test_a_group_coordinator_that_is_not_there_yet_is_an_error_that_kafkas_coordinators_know(code):
    """Another one would end their thread."""
    assert answer_of(code, is_hosted=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_of_another_broker_is_unknown():
    """Kafka asks whether the replica is here, before it asks who leads; coordinators ask again upon both."""
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer_of(code, is_hosted=False, topic="t") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer_of(code, is_hosted=True, topic="t") == code
