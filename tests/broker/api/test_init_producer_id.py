"""InitProducerId: an id that nobody else has."""

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


@pytest.mark.parametrize(
    ("transactional_id", "code"), [("tx", ErrorCode.COORDINATOR_NOT_AVAILABLE), ("", ErrorCode.INVALID_REQUEST)]
)
def test_transactions_are_not_served_yet(broker, transactional_id, code):
    """A code that clients retry, and INVALID_REQUEST for an empty id."""
    answer = broker.link().call(request(transactional_id), 5)
    assert (answer.error_code, answer.producer_id) == (code, -1)
