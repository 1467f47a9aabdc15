"""InitProducerId: a unique id."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest


def request(transactional_id=None, **options):
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000, **options)


@pytest.mark.parametrize("version", range(6))
def test_ids_are_new_in_every_version(broker, new_batch, version):
    """With epoch 0, and good for idempotent writing."""
    link = broker.link()
    answers = [link.call(request(), version) for _ in range(3)]
    ids = [one.producer_id for one in answers]
    assert [one.error_code for one in answers] == [0, 0, 0]
    assert [one.producer_epoch for one in answers] == [0, 0, 0]
    assert len(set(ids)) == 3
    assert min(ids) >= 0
    broker.create("t")
    batch = new_batch(b"v", producer_id=ids[0], producer_epoch=0, base_sequence=0)
    assert [broker.append("t", bytes(batch)).base_offset for _ in range(2)] == [0, 0]


def test_no_id_is_given_twice_over_restarts(broker):
    """A block is written to the metadata log before its first id is given out, so a new start begins behind it."""
    given = []
    for _ in range(3):
        link = broker.link()
        given += [link.call(request(), 5).producer_id for _ in range(2)]
        broker.restart()
    assert len(set(given)) == len(given)
    assert given == sorted(given)


def test_blocks_follow_each_other_without_a_gap_or_a_repeat(broker):
    """A thousand ids and one more: the next block begins where the first one ends."""
    first = broker.run(broker.node.producer_ids.next)
    last = first

    async def many():
        return [await broker.node.producer_ids.next() for _ in range(1000)]

    given = broker.run(many)
    assert given == list(range(first + 1, first + 1001))
    assert broker.link().call(request(), 5).producer_id == last + 1001


def test_a_producer_that_brings_its_old_id_gets_a_new_one(broker):
    """As in Kafka for producers without a transactional id."""
    link = broker.link()
    old = link.call(request(), 5).producer_id
    again = link.call(request(producer_id=old, producer_epoch=0), 5)
    assert (again.error_code, again.producer_epoch) == (0, 0)
    assert again.producer_id != old


def test_half_an_identity_is_refused(broker):
    """Producer id and epoch belong together, with a transactional id or without."""
    for transactional_id in (None, "tx"):
        for half in ({"producer_id": 5}, {"producer_epoch": 5}):
            answer = broker.link().call(request(transactional_id, **half), 5)
            assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_an_empty_transactional_id_is_refused(broker):
    """It is none."""
    answer = broker.link().call(request(""), 5)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_wrong_coordinator_answers_not_coordinator(broker):
    """Before FindCoordinator there is no topic to keep transactions in."""
    answer = broker.link().call(request("tx"), 5)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.NOT_COORDINATOR, -1)


def test_a_transactional_id_keeps_its_producer_id_until_a_restart(transactions):
    """With the next epoch. A start of a broker that archives begins another era of producer ids (decision 0046)."""
    first = transactions.producer()
    assert transactions.producer() == (first.producer_id, first.producer_epoch + 1)
    transactions.broker.restart()
    transactions.link = transactions.broker.link()
    transactions.wait_for(lambda: not transactions.broker.node.transactions.loading)
    again = transactions.producer()
    assert again.producer_id > first.producer_id
    assert transactions.producer() == (again.producer_id, again.producer_epoch + 1)


def test_a_new_producer_takes_over(transactions):
    """Open transactions of the old one are aborted, before the answer; the
    old one is fenced in the words of its version.
    """
    old = transactions.producer()
    assert transactions.produce(old, 0, values=[b"left"]) == [0]
    new = transactions.producer()
    assert new.producer_epoch > old.producer_epoch + 1
    assert transactions.state() == "Empty"
    assert transactions.committed() == []
    assert transactions.end(old).error_code == ErrorCode.PRODUCER_FENCED
    assert transactions.end(old, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    fields = {"producer_id": old.producer_id, "producer_epoch": old.producer_epoch}
    assert transactions.init(**fields).error_code == ErrorCode.PRODUCER_FENCED
    assert transactions.init(**fields, version=3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transactions.produce(old, 0) == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_a_timeout_beyond_the_limit_is_refused(transactions):
    """``transaction.max.timeout.ms`` is 15 minutes."""
    assert transactions.init(timeout_ms=900_001).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert transactions.init(timeout_ms=900_000).error_code == 0


def test_a_transactional_id_that_no_record_can_hold_is_refused(transactions):
    """Before the coordinator knows of it: its state would be in memory alone."""
    assert transactions.init("x" * 32_767).error_code == 0
    assert transactions.init("x" * 32_768).error_code == ErrorCode.INVALID_REQUEST
    assert transactions.init("é" * 16_384).error_code == ErrorCode.INVALID_REQUEST
