"""The transaction coordinator of one partition, request by request."""

import pytest

from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.events import (
    AddPartitions,
    AllocateProducerId,
    MarkersWritten,
    ProducerIdAllocated,
    VerifyPartitions,
)
from stratalog.metadata.transactions.transaction import EPOCH_MAX
from stratalog.wire.errors import ErrorCode
from stratalog.wire.records.transaction import encode_key
from stratalog.wire.topic import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def opened(desk, **settings):
    """A desk, and a producer with a transaction on ``t-0``."""
    table = desk(**settings)
    producer = table.start()
    table.add(producer, "0", token="first")
    table.commit()
    return table, producer


def at_epoch(table, epoch, tid="x"):
    """A producer that has got this far."""
    producer = table.start(tid)
    table.shard.transactions[tid].producer_epoch = epoch
    return Producer(producer.producer_id, epoch)


# -- producers --------------------------------------------------------------------------------------------------------


def test_the_same_transactional_id_keeps_its_producer_id(desk):
    """Epoch 0, then epoch + 1 with every start."""
    table = desk()
    assert table.start() == Producer(100, 0)
    assert table.start() == Producer(100, 1)
    assert table.start("y") == Producer(101, 0)
    assert table.status() == "Empty"


def test_an_answer_waits_for_its_record(desk):
    """An answer outside the log was never given."""
    table = desk()
    producer = table.start()
    table.add(producer, "0")
    assert "add" not in table.answers
    table.add(producer, "0", token="again")  # already in the state, not yet in the log
    assert "again" not in table.answers
    table.commit()
    assert table.code("add") == table.code("again") == 0


@pytest.mark.parametrize("timeout_ms", [0, -1, 1_001])
def test_timeouts_have_a_limit(desk, timeout_ms):
    """``transaction.max.timeout.ms``."""
    table = desk(max_timeout_ms=1_000)
    table.init(timeout_ms=timeout_ms)
    assert table.code("init") is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert table.init("good", timeout_ms=1_000).error_code == 0


def test_a_new_producer_aborts_what_the_old_one_has_left_open(desk):
    """It has to come again, and then has an epoch beyond that of the markers."""
    table, producer = opened(desk)
    table.init()
    assert table.code("init") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert table.status() == "PrepareAbort"
    (marker,) = table.markers
    assert (marker.commit, marker.partitions, marker.transaction_version) == (False, {T0}, 2)
    assert marker.producer == Producer(producer.producer_id, producer.producer_epoch + 1)
    table.mark()
    assert table.status() == "CompleteAbort"
    assert table.start() == Producer(producer.producer_id, producer.producer_epoch + 2)


def test_a_new_producer_may_wait_for_the_abort(desk):
    """With patience it is answered once, when the markers stand."""
    table, producer = opened(desk, patience_ms=100)
    table.init()
    assert table.shard.parked() == ["init"]
    assert "init" not in table.answers
    table.mark()
    assert table.answers["init"].producer_epoch == producer.producer_epoch + 2


def test_a_request_that_waits_too_long_is_sent_away(desk):
    """A request that has waited long enough is sent away."""
    table, _ = opened(desk, patience_ms=100)
    table.init()
    table.wait(99)
    assert "init" not in table.answers
    table.wait(1)
    assert table.code("init") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert table.shard.parked() == []


def test_every_request_of_a_fenced_producer_is_refused(desk):
    """Add, verify, end: at every stage of its transaction."""
    table = desk()
    old = table.start()
    new = table.start()
    for token in ("empty", "ongoing", "ending", "complete"):
        table.add(old, "0", token=f"add {token}")
        table.do(VerifyPartitions(f"verify {token}", "x", old, frozenset([T0])))
        table.end(old, token=f"end {token}", version=0)
        for what in ("add", "verify", "end"):
            assert table.code(f"{what} {token}") is ErrorCode.PRODUCER_FENCED
        if token == "empty":
            table.add(new, "0")
        elif token == "ongoing":
            table.end(new, version=0)
        elif token == "ending":
            table.mark()
        table.commit()
    assert table.status() == "CompleteCommit"


def test_going_on_after_an_error(desk):
    """KIP-360: the producer itself gets the next epoch, a repeated call the same answer, a stranger none."""
    table = desk()
    producer = table.start()
    assert table.init("bump", expected=producer).producer_epoch == 1
    assert table.init("lost answer", expected=producer).producer_epoch == 1
    table.init("stranger", expected=Producer(5, 0))
    assert table.code("stranger") is ErrorCode.PRODUCER_FENCED
    table.start()
    table.init("too late", expected=Producer(producer.producer_id, 1))
    assert table.code("too late") is ErrorCode.PRODUCER_FENCED


def test_going_on_with_another_id_after_an_error(desk):
    """A new era of producer ids has begun: the call that gave the new id is repeated with the same answer, but only as long
    as the new id has not begun a transaction.
    """
    table = desk()
    old = table.start()
    new = table.init("bump", expected=old, ids_from=old.producer_id + 1)
    assert new.producer_id > old.producer_id
    again = table.init("lost answer", expected=old, ids_from=old.producer_id + 1)
    assert (again.producer_id, again.producer_epoch) == (new.producer_id, new.producer_epoch)
    table.add(Producer(new.producer_id, new.producer_epoch), "0")
    table.commit()
    table.init("too late", expected=old)
    assert table.code("too late") is ErrorCode.PRODUCER_FENCED
    assert table.status() == "Ongoing"


def test_a_zombie_that_goes_on_does_not_touch_the_open_transaction(desk):
    """Only the present producer, or one that starts anew, may end it."""
    table = desk()
    old = table.start()
    new = table.start()
    table.add(new, "0")
    table.commit()
    table.init(expected=old)
    assert table.code("init") is ErrorCode.PRODUCER_FENCED
    assert table.status() == "Ongoing"
    table.init("itself", expected=new)
    assert table.status() == "PrepareAbort"


def test_an_expired_transactional_id_starts_over(desk):
    """A producer that hands in an id which is forgotten gets a new one (KIP-360)."""
    table = desk()
    answer = table.init(expected=Producer(77, 5))
    assert (answer.producer_id, answer.producer_epoch) == (100, 0)


def test_no_epoch_is_used_twice_when_they_run_out(desk):
    """32766 is followed by another producer id, by a start as by an end (KAFKA-20090)."""
    table = desk()
    last = at_epoch(table, EPOCH_MAX - 1)
    answer = table.init()
    assert (answer.producer_id, answer.producer_epoch) == (101, 0)
    last = at_epoch(table, EPOCH_MAX - 1, "y")
    table.add(last, "0", tid="y")
    answer = table.end(last, tid="y")
    table.commit()
    answer = table.answers["end"]
    assert (answer.producer_id, answer.producer_epoch) == (103, 0)
    (marker,) = table.markers
    assert marker.producer == Producer(last.producer_id, EPOCH_MAX)
    table.add(Producer(103, 0), "1", tid="y", token="early")
    assert table.code("early") is ErrorCode.CONCURRENT_TRANSACTIONS
    table.add(Producer(last.producer_id, EPOCH_MAX), "1", tid="y", token="not-mine")
    assert table.code("not-mine") is ErrorCode.CONCURRENT_TRANSACTIONS
    table.mark()
    table.end(last, tid="y", token="repeated")
    assert (table.answers["repeated"].producer_id, table.answers["repeated"].producer_epoch) == (103, 0)
    table.add(Producer(103, 0), "1", tid="y", token="next")
    table.commit()
    assert table.code("next") == 0


def test_an_open_transaction_whose_epochs_have_run_out_is_aborted_all_the_same(desk):
    """By its time-out and by a new producer."""
    for how in ("timeout", "start"):
        table = desk()
        last = at_epoch(table, EPOCH_MAX - 1)
        table.add(last, "0")
        table.commit()
        if how == "start":
            table.init()
        else:
            table.wait(60_000)
            table.wait(10_000)
        table.mark()
        assert table.status() == "CompleteAbort"
        assert table.shard.transactions["x"].producer == Producer(101, 0)


def test_requests_that_wait_for_a_producer_id(desk):
    """It is parked meanwhile, and forgotten if there is none; a late id changes nothing."""
    table = desk()
    table.gives_ids = False
    table.init("refused")
    assert table.shard.parked() == ["refused"]
    (asked,) = table.asked_ids
    table.shard.allocation_failed(asked)
    assert table.shard.parked() == []
    table.do(ProducerIdAllocated(asked, 5))
    assert table.shard.transactions == {}
    table.do(ProducerIdAllocated(AllocateProducerId(asked.event), 5))
    assert table.shard.transactions == {}


# -- transactions -----------------------------------------------------------------------------------------------------


def test_commit_step_by_step(desk):
    """PrepareCommit, the answer, one marker a partition, CompleteCommit; abort likewise."""
    for commit, word in ((True, "Commit"), (False, "Abort")):
        table = desk()
        producer = table.start()
        table.add(producer, "0", "1")
        table.commit()
        table.end(producer, commit=commit)
        assert "end" not in table.answers
        assert table.markers == []
        table.commit(1)
        assert table.answers["end"].producer_epoch == 1
        assert table.status() == f"Prepare{word}"
        (marker,) = table.markers
        assert (marker.commit, marker.partitions) == (commit, {T0, T1})
        table.do(MarkersWritten("x", marker.producer, frozenset([T0])))
        assert table.shard.transactions["x"].partitions == {T1}
        table.do(MarkersWritten("x", marker.producer, frozenset([T1])))
        assert table.status() == f"Complete{word}"
        table.commit()


def test_reports_about_other_ends_change_nothing(desk):
    """A marker of an epoch before, or for an id that is not known."""
    table, producer = opened(desk)
    table.end(producer)
    table.commit()
    table.do(MarkersWritten("x", producer, frozenset([T0])))
    table.do(MarkersWritten("y", producer, frozenset([T0])))
    assert table.status() == "PrepareCommit"


def test_an_end_that_is_repeated_is_answered_the_same(desk):
    """Before the markers stand it has to wait, afterwards it gets the first answer again."""
    table, producer = opened(desk)
    table.end(producer)
    table.commit()
    assert table.end(producer, token="early").code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert table.end(producer, token="other", commit=False).code is ErrorCode.INVALID_TXN_STATE
    table.mark()
    table.end(producer, token="late")
    assert table.answers["late"] == table.answers["end"]
    table.end(producer, token="changed mind", commit=False)
    assert table.code("changed mind") is ErrorCode.INVALID_TXN_STATE


def test_a_late_end_does_not_touch_the_next_transaction(desk):
    """With an epoch for every transaction it is known for what it is."""
    table, producer = opened(desk)
    table.end(producer)
    table.mark()
    after = Producer(producer.producer_id, producer.producer_epoch + 1)
    table.add(after, "1")
    table.commit()
    assert table.end(producer, token="late", commit=False).code is ErrorCode.PRODUCER_FENCED
    assert table.status() == "Ongoing"


def test_an_abort_of_nothing_raises_the_epoch(desk):
    """Under version 2 a producer that does not know what the broker has seen may always abort."""
    table = desk()
    producer = table.start()
    table.end(producer, commit=False)
    table.commit()
    assert table.answers["end"].producer_epoch == 1
    assert (table.status(), table.markers) == ("CompleteAbort", [])


def test_version_1_keeps_the_epoch_from_transaction_to_transaction(desk):
    """Its producers learn of a new one only from InitProducerId."""
    table = desk()
    producer = table.start()
    for number in range(3):
        table.add(producer, "0", token=f"add {number}", version=0)
        table.end(producer, token=f"end {number}", version=0)
        table.mark()
        assert table.code(f"end {number}") == 0
    assert table.shard.transactions["x"].producer == producer


def test_the_next_transaction_waits_for_the_end_of_the_last(desk):
    """A moment, instead of being sent away."""
    table, producer = opened(desk, patience_ms=100)
    table.end(producer)
    table.commit()
    after = Producer(producer.producer_id, producer.producer_epoch + 1)
    table.add(after, "1", token="next")
    table.add(producer, "1", token="zombie")
    assert table.code("zombie") is ErrorCode.PRODUCER_FENCED
    assert "next" not in table.answers
    table.mark()
    assert table.code("next") == 0
    assert table.shard.transactions["x"].partitions == {T1}


def test_a_broker_that_asks_for_others_does_not_wait(desk):
    """Its request holds questions about other transactions, too; it asks again itself."""
    table, producer = opened(desk, patience_ms=100)
    table.end(producer)
    table.commit()
    after = Producer(producer.producer_id, producer.producer_epoch + 1)
    table.do(AddPartitions("next", "x", after, frozenset([T1]), 2, object(), waits=False))
    assert table.code("next") is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_does_not_add(desk):
    """KIP-890, part 1: a partition is in the transaction or it is not."""
    table, producer = opened(desk)
    table.do(VerifyPartitions("both", "x", producer, frozenset([T0, T1])))
    (result,) = table.answers["both"].results_by_transaction
    (topic,) = result.topic_results
    assert [one.partition_error_code for one in topic.results_by_partition] == [0, ErrorCode.TRANSACTION_ABORTABLE]
    assert table.shard.transactions["x"].partitions == {T0}
    table.end(producer, version=0)
    table.do(VerifyPartitions("ending", "x", producer, frozenset([T0])))
    assert table.code("ending") is ErrorCode.CONCURRENT_TRANSACTIONS


def test_unknown_and_foreign_transactional_ids_are_refused(desk):
    """A transactional id that is not known, and one that belongs to another producer id."""
    table = desk()
    table.start()
    for number, (tid, producer_id) in enumerate([("x", 5), ("unknown", 100)]):
        stranger = Producer(producer_id, 0)
        table.add(stranger, "0", token=f"add {number}", tid=tid)
        table.end(stranger, token=f"end {number}", tid=tid)
        table.do(VerifyPartitions(f"verify {number}", tid, stranger, frozenset([T0])))
        for what in ("add", "end", "verify"):
            assert table.code(f"{what} {number}") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted(desk):
    """Its producer is fenced, and may go on with an abort of its own."""
    table, producer = opened(desk, abort_timed_out_interval_ms=10)
    assert table.shard.deadline() is not None
    table.wait(59_999)
    assert table.status() == "Ongoing"
    table.wait(20)
    table.mark()
    assert table.status() == "CompleteAbort"
    table.add(producer, "0", token="late")
    assert table.code("late") is ErrorCode.PRODUCER_FENCED
    assert table.end(producer, commit=True).code is ErrorCode.INVALID_TXN_STATE
    assert table.end(producer, commit=False, token="abort").producer_epoch == 1


def test_clocks_that_jump_abort_nothing(desk):
    """Only time that passes counts, while the process lives; across a reload the wall clock, within the time-out."""
    table, _ = opened(desk, abort_timed_out_interval_ms=10)
    table.now = table.now._replace(wall_ms=table.now.wall_ms + 86_400_000)
    table.wait(1_000)
    assert table.status() == "Ongoing"
    table.now = table.now._replace(wall_ms=0)
    table.reload()
    table.wait(59_999)
    assert table.status() == "Ongoing"
    table.wait(20)
    assert table.status() == "PrepareAbort"


def test_transactional_ids_expire(desk):
    """Those at rest are forgotten with a tombstone; an open transaction keeps its id."""
    table = desk(id_expiration_ms=1_000, remove_expired_interval_ms=100)
    table.start("rests")
    table.add(table.start("works"), "0", tid="works")
    table.commit()
    table.wait(1_000)
    table.commit()
    assert list(table.shard.transactions) == ["works"]
    assert table.log[-1] == (encode_key("rests"), None)
    table.reload()
    assert list(table.shard.transactions) == ["works"]
