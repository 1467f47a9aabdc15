"""Appends that wait for their transaction."""

import pytest

from stratalog.broker.coordinators.enlistment import Enlistment
from stratalog.broker.coordinators.partition_markers import TransactionMarker
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.events import AddPartitions, VerifyPartitions
from stratalog.metadata.transactions.queries import outcomes
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse, AddPartitionsToTxnResult
from stratalog.wire.topic import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = Producer(7, 3)


class Append:
    """One that says what becomes of it."""

    def __init__(self, desk, name, partition=T0, leader=None):
        self.desk, self.name, self.partition, self.leader = desk, name, partition, leader

    def go_on(self):
        self.desk.ended.append(self.name)

    def refuse(self, error):
        self.desk.ended.append((self.name, error.code))


class Desk:
    """The coordinator's side: questions, and what has become of the appends."""

    def __init__(self):
        self.asked, self.ended = [], []
        self.enlistment = Enlistment(lambda transactional_id, event: self.asked.append(event))

    def enlist(self, *names, partition=T0, producer=PRODUCER, adds=True, leader=None):
        appends = [Append(self, name, partition, leader) for name in names]
        self.enlistment.enlist("x", producer, appends, adds=adds)

    def mark(self, epoch, version, partition=T0):
        self.enlistment.marked(partition, TransactionMarker(Producer(7, epoch), False, 0, version))


@pytest.fixture
def desk():
    return Desk()


def test_one_question_for_all_partitions_of_a_request(desk):
    """They are added under version 2, looked for under version 1."""
    for adds, kind in ((True, AddPartitions), (False, VerifyPartitions)):
        appends = [Append(desk, f"{adds} 0", T0), Append(desk, f"{adds} 1", T1)]
        desk.enlistment.enlist("x", PRODUCER, appends, adds=adds)
        event = desk.asked.pop()
        assert type(event) is kind
        assert (event.transactional_id, event.producer, event.partitions) == ("x", PRODUCER, {T0, T1})
        event.token.respond(AddPartitionsToTxnResponse())
        assert desk.ended == [f"{adds} 0", f"{adds} 1"]
        desk.ended.clear()


def test_a_place_asks_until_the_verdict(desk):
    """It asks for its producer, in its epoch and its partition."""
    desk.enlist("a")
    assert desk.enlistment.is_asking(T0, PRODUCER)
    assert not any([desk.enlistment.is_asking(T1, PRODUCER), desk.enlistment.is_asking(T0, Producer(7, 4))])
    desk.asked[0].token.respond(AddPartitionsToTxnResponse())
    assert not desk.enlistment.is_asking(T0, PRODUCER)


def test_later_appends_wait_behind_the_first_and_share_its_fate(desk):
    """In their order; an append after the verdict asks anew."""
    desk.enlist("a")
    desk.enlist("b", "c")
    assert (len(desk.asked), desk.ended) == (1, [])
    desk.asked[0].token.fail(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))
    assert desk.ended == [(name, ErrorCode.CONCURRENT_TRANSACTIONS) for name in "abc"]
    desk.enlist("d")
    desk.asked[1].token.respond(AddPartitionsToTxnResponse())
    assert desk.ended[3:] == ["d"]


def test_partitions_and_producers_do_not_wait_for_each_other(desk):
    """Each (partition, producer, epoch) has a question of its own."""
    desk.enlist("a")
    desk.enlist("b", partition=T1)
    desk.enlist("c", producer=Producer(7, 4))
    desk.enlist("d", producer=Producer(8, 3))
    for event in reversed(desk.asked):
        event.token.respond(AddPartitionsToTxnResponse())
    assert desk.ended == ["d", "c", "b", "a"]


def test_a_verdict_may_differ_by_partition(desk):
    """One was added, the other not."""
    appends = [Append(desk, "in", T0), Append(desk, "out", T1)]
    desk.enlistment.enlist("x", PRODUCER, appends, adds=False)
    codes = outcomes({T0: 0, T1: ErrorCode.TRANSACTION_ABORTABLE})
    result = AddPartitionsToTxnResult(transactional_id="x", topic_results=codes)
    desk.asked[0].token.respond(AddPartitionsToTxnResponse(results_by_transaction=[result]))
    assert desk.ended == ["in", ("out", ErrorCode.TRANSACTION_ABORTABLE)]


def test_a_yes_is_worth_nothing_behind_the_marker(desk):
    """Under version 1 the epoch is the same, so only this keeps a batch from opening the transaction again."""
    desk.enlist("late", adds=False)
    desk.mark(PRODUCER.producer_epoch, version=0)
    desk.asked[0].token.respond(AddPartitionsToTxnResponse())
    assert desk.ended == [("late", ErrorCode.INVALID_TXN_STATE)]


def test_the_marker_before_does_not_end_what_waits_for_the_next_transaction(desk):
    """Under version 2 its epoch is that of the next; other epochs and partitions are none of its business."""
    desk.enlist("next")
    desk.mark(PRODUCER.producer_epoch, version=2)
    desk.mark(PRODUCER.producer_epoch - 1, version=0)
    desk.mark(PRODUCER.producer_epoch, version=0, partition=T1)
    desk.asked[0].token.respond(AddPartitionsToTxnResponse())
    assert desk.ended == ["next"]


def test_a_yes_counts_for_the_leadership_in_which_it_was_asked_for(desk):
    """Another leader may have ended the transaction since: what comes in the next leadership asks anew."""
    before, after = object(), object()
    desk.enlist("before", adds=False, leader=before)
    desk.enlist("after", adds=False, leader=after)
    assert len(desk.asked) == 2
    desk.asked[0].token.respond(AddPartitionsToTxnResponse())
    assert desk.ended == ["before"]
    desk.enlist("behind", adds=False, leader=after)
    assert len(desk.asked) == 2
    desk.asked[1].token.fail(KafkaError(ErrorCode.TRANSACTION_ABORTABLE))
    assert desk.ended[1:] == [(name, ErrorCode.TRANSACTION_ABORTABLE) for name in ("after", "behind")]


def test_an_unexpected_failure_is_answered_as_one(desk):
    """No append waits for ever."""
    desk.enlist("a")
    desk.asked[0].token.fail(RuntimeError("what?"))
    assert desk.ended == [("a", ErrorCode.UNKNOWN_SERVER_ERROR)]
