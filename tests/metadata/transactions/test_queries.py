"""Answers about transactions."""

from stratalog.metadata.transactions.events import ListIds
from stratalog.metadata.transactions.queries import described, listed, outcomes, verified
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.metadata.transactions.transaction import Transaction
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition

T0, T1, A0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("a", 0)


def transaction(tid="x", **fields):
    """An open transaction of producer 7 on ``t``."""
    known = {
        "producer_id": 7,
        "producer_epoch": 1,
        "timeout_ms": 500,
        "status": TransactionStatus.ONGOING,
        "partitions": {T1, T0, A0},
        "start_ms": 1_000,
        "last_update_ms": 1_200,
    }
    return Transaction(transactional_id=tid, **known | fields)


def test_a_description_has_state_times_producer_and_partitions():
    """State, time-out, start, producer, partitions by topic; an unknown id has its own error."""
    (state,) = described("x", transaction()).transaction_states
    assert (state.error_code, state.transaction_state, state.transaction_timeout_ms) == (0, "Ongoing", 500)
    assert (state.transaction_start_time_ms, state.producer_id, state.producer_epoch) == (1_000, 7, 1)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("a", [0]), ("t", [0, 1])]
    (state,) = described("y", None).transaction_states
    assert (state.transactional_id, state.error_code) == ("y", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


def names(*, states=(), producer_ids=(), duration_ms=-1):
    """Which of three transactions pass."""
    three = [
        transaction("open"),
        transaction("done", status=TransactionStatus.COMPLETE_COMMIT, producer_id=8),
        transaction("new", status=TransactionStatus.EMPTY, producer_id=9, start_ms=-1),
    ]
    event = ListIds("token", frozenset(states), frozenset(producer_ids), duration_ms)
    return [state.transactional_id for state in listed(three, event, now_ms=1_500).transaction_states]


def test_filters_choose_by_state_producer_and_duration():
    """By state, producer id and duration; nothing filters nothing."""
    assert names() == ["open", "done", "new"]
    assert names(states=["Ongoing", "Empty"]) == ["open", "new"]
    assert names(producer_ids=[8, 9]) == ["done", "new"]
    assert names(duration_ms=499) == ["open", "done", "new"]
    assert names(duration_ms=500) == ["new"]  # Kafka takes one that never began for one of 1970
    assert names(states=["Ongoing"], producer_ids=[8]) == []


def test_verification_and_outcomes():
    """A partition that was never added gets an error; outcomes are grouped by topic."""
    (result,) = verified(transaction(partitions={T0}), [T0, T1]).results_by_transaction
    (topic,) = result.topic_results
    codes = [(one.partition_index, one.partition_error_code) for one in topic.results_by_partition]
    assert codes == [(0, 0), (1, ErrorCode.TRANSACTION_ABORTABLE)]
    assert [topic.name for topic in outcomes({T0: 0, A0: 1})] == ["a", "t"]
