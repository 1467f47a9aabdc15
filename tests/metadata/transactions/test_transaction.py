"""Changes of one transaction, and the records of what becomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.metadata.transactions.transaction import EPOCH_MAX, Transaction, epoch_exhausted
from stratalog.wire.errors import Corrupt, KafkaError
from stratalog.wire.records.transaction import decode_key, decode_value
from stratalog.wire.topic import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def transaction(**fields):
    """Producer 7 in epoch 3."""
    known = {"transactional_id": "x", "producer_id": 7, "producer_epoch": 3, "timeout_ms": 60_000, "last_update_ms": 0}
    return Transaction(**known | fields)


def restored(one):
    """The state after a reload."""
    key, value = one.record()
    return Transaction.from_value(decode_key(key), decode_value(value))


def test_an_id_of_a_missing_time_is_given_up():
    """Archives may know epochs of it that were given out in a time that the disk has lost."""
    one = transaction()
    assert not one.begin_producer(None, 60_000, None, 1, ids_from=8)
    assert one.producer == Producer(7, 3)
    assert one.begin_producer(None, 60_000, 9, 1, ids_from=8)
    assert one.producer == Producer(9, 0)
    assert one.begin_producer(None, 60_000, None, 2, ids_from=8)
    assert one.producer == Producer(9, 1)


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_going_on_with_another_id_after_an_error(epoch):
    """KIP-360: the answer that gave the new id was lost, and the same call gets it again; the call of a stranger does not."""
    one = transaction(producer_epoch=epoch)
    for _ in range(2):
        assert one.begin_producer(Producer(7, epoch), 60_000, 9, 1, ids_from=8)
        assert one.producer == Producer(9, 0)
    with pytest.raises(KafkaError, match="was taken over"):
        one.begin_producer(Producer(7, epoch + 1), 60_000, 10, 1, ids_from=8)


def test_the_last_two_epochs_are_not_given_out():
    """32766 is the last epoch of a producer, 32767 belongs to the marker that takes its transaction away."""
    assert not epoch_exhausted(EPOCH_MAX - 2)
    assert epoch_exhausted(EPOCH_MAX - 1)


def test_an_end_of_version_2_raises_the_epoch():
    """The marker has the new epoch, and the producer goes on with it."""
    one = transaction()
    one.add([T0], 2, now_ms=5)
    assert one.decide(commit=True, client_version=2, fence=False, fresh_id=None, now_ms=6)
    assert one.producer == one.promised == Producer(7, 4)
    assert (one.last_producer_epoch, one.start_ms, one.partitions) == (3, 5, {T0})
    one.complete(now_ms=7)
    assert (one.status, one.partitions, one.last_update_ms) == (TransactionStatus.COMPLETE_COMMIT, set(), 7)


def test_an_end_of_version_1_leaves_the_epoch():
    """Until another producer starts."""
    one = transaction()
    one.add([T0], 0, now_ms=5)
    one.decide(commit=False, client_version=0, fence=False, fresh_id=None, now_ms=6)
    assert one.producer == Producer(7, 3)


def test_the_last_epoch_is_followed_by_another_producer_id():
    """The marker takes 32767 of the old id, the producer goes on with epoch 0 of the new one."""
    one = transaction(producer_epoch=EPOCH_MAX - 1)
    one.add([T0], 2, now_ms=5)
    assert not one.decide(commit=True, client_version=2, fence=False, fresh_id=None, now_ms=6)
    assert one.status is TransactionStatus.ONGOING
    assert one.decide(commit=True, client_version=2, fence=False, fresh_id=9, now_ms=6)
    assert (one.producer, one.promised) == (Producer(7, EPOCH_MAX), Producer(9, 0))
    one.complete(now_ms=7)
    assert (one.producer, one.previous_producer_id, one.next_producer_id) == (Producer(9, 0), 7, -1)


def test_going_on_after_an_error():
    """KIP-360: the present producer gets the next epoch, the same call again the same epoch, any other none."""
    one = transaction()
    one.begin_producer(Producer(7, 3), 60_000, None, now_ms=1)
    assert one.producer == Producer(7, 4)
    one.begin_producer(Producer(7, 3), 60_000, None, now_ms=2)
    assert one.producer == Producer(7, 4)
    with pytest.raises(KafkaError, match="taken over"):
        one.begin_producer(Producer(7, 2), 60_000, None, now_ms=3)
    one.begin_producer(None, 60_000, None, now_ms=4)
    with pytest.raises(KafkaError, match="taken over"):
        one.begin_producer(Producer(7, 4), 60_000, None, now_ms=5)


def test_a_producer_whose_epochs_are_used_up_gets_another_id():
    """And may repeat the call if the answer was lost."""
    one = transaction(producer_epoch=EPOCH_MAX - 1)
    assert not one.begin_producer(Producer(7, EPOCH_MAX - 1), 60_000, None, now_ms=1)
    for moment in (2, 3):
        assert one.begin_producer(Producer(7, EPOCH_MAX - 1), 60_000, 9, now_ms=moment)
        assert (one.producer, one.previous_producer_id) == (Producer(9, 0), 7)


def test_a_status_from_the_future_is_refused():
    """A record that cannot be understood is not guessed at."""
    one = transaction()
    value = decode_value(one.record().value)
    value.transaction_status = 8
    with pytest.raises(Corrupt, match="unknown status 8"):
        Transaction.from_value("x", value)


@given(
    st.integers(0, 2**62),
    st.integers(0, EPOCH_MAX),
    st.sampled_from(TransactionStatus),
    st.sets(st.builds(TopicPartition, st.sampled_from(["a", "b.c"]), st.integers(0, 9))),
    st.integers(0, 2),
)
def test_written_records_are_read_back(producer_id, epoch, status, partitions, version):
    """Everything but the last epoch, which Kafka does not write either."""
    partitions = set() if status is TransactionStatus.EMPTY else partitions
    one = transaction(
        producer_id=producer_id, producer_epoch=epoch, status=status, partitions=partitions, client_version=version
    )
    assert restored(one) == one
