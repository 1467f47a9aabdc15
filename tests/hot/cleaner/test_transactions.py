"""Tests of hot/cleaner/transactions.py."""

import pytest

from stratalog.hot.cleaner.transactions import CleanedTransactions
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.wire.batch import Record, build_batch, build_control_batch, read_header
from stratalog.wire.errors import Corrupt

ABORTED = AbortedTxn(7, 10, 14, 15)


def data(offset: int, producer: int = 7, count: int = 1, *, transactional: bool = True):
    return read_header(
        build_batch(
            [Record(offset + number, 1, b"k", b"v") for number in range(count)],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
    )


def marker(offset: int, kind: int, producer: int = 7):
    batch = build_control_batch(
        kind, b"\0\0\0\0\0\1", offset=offset, timestamp_ms=1, leader_epoch=0, producer_id=producer, producer_epoch=0,
        transactional=True,
    )  # fmt: skip
    return read_header(batch), memoryview(batch)


@pytest.fixture
def walk() -> CleanedTransactions:
    return CleanedTransactions([ABORTED, ABORTED])


def test_batches_of_an_aborted_transaction_are_void_up_to_its_marker(walk):
    """Others between them are not, nor is what the producer writes afterwards."""
    assert not walk.is_void(data(8, count=2, transactional=False))
    assert walk.is_void(data(10))
    assert not walk.is_void(data(11, producer=8))
    assert walk.is_void(data(13))
    assert not walk.is_needless(*marker(14, 0))
    assert not walk.is_void(data(16))


def test_a_marker_with_records_before_it_is_needed_and_stays_in_the_index(walk):
    """Without them it is not, and the index forgets the transaction."""
    walk.is_void(data(10))
    assert not walk.is_needless(*marker(14, 0))
    assert walk.take_index() == [ABORTED]
    assert walk.take_index() == []
    assert CleanedTransactions([ABORTED]).is_needless(*marker(14, 0))
    assert CleanedTransactions([]).is_needless(*marker(14, 0))


def test_an_abort_that_no_index_has_stops_the_cleaning():
    """A `.txnindex` that is gone, or has another producer by one bit, would cost the committed values for good."""
    walk = CleanedTransactions([AbortedTxn(8, 10, 14, 15)])
    assert not walk.is_void(data(10))
    with pytest.raises(Corrupt, match=r"marker at offset 14 aborts a transaction of producer 7 that the \.txnindex"):
        walk.is_needless(*marker(14, 0))
    walk = CleanedTransactions([])
    walk.is_void(data(4))
    assert not walk.is_needless(*marker(5, 1))
    assert walk.is_needless(*marker(14, 0)), "its records are below the log start, or there were none"


def test_a_commit_is_needed_by_the_records_of_its_own_producer(walk):
    """And only once."""
    assert walk.is_needless(*marker(3, 1, producer=8))
    walk.is_void(data(4, producer=8))
    assert walk.is_needless(*marker(5, 1, producer=9))
    assert not walk.is_needless(*marker(6, 1, producer=8))
    assert walk.is_needless(*marker(7, 1, producer=8))


def test_an_emptied_control_batch_is_needless(walk):
    """It stands for a producer, not for a transaction."""
    header, batch = marker(3, 1)
    walk.is_void(data(2))
    assert walk.is_needless(header._replace(record_count=0), batch)


def test_unknown_control_records_are_kept(walk):
    """A change of leaders, for example."""
    assert not walk.is_needless(*marker(3, 2))


def test_batches_behind_the_end_of_an_aborted_transaction_stay(walk):
    """Also where its marker is not met: the walk may begin behind it."""
    assert walk.is_void(data(13))
    assert not walk.is_void(data(15))
    assert not walk.is_needless(*marker(16, 1))
