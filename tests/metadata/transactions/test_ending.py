"""Kafka's table of ends, cell by cell."""

import pytest

from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.ending import check_end, repeated_end
from stratalog.metadata.transactions.events import EndTransaction
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.metadata.transactions.transaction import EPOCH_MAX, Transaction
from stratalog.wire.errors import KafkaError

PRESENT, BEFORE = Producer(7, 4), Producer(7, 3)


def verdict(status, producer, *, commit, version=2, **fields):
    """``an end``, ``the same``, or the name of the error."""
    known = {"producer_id": 7, "producer_epoch": 4, "timeout_ms": 1, "last_update_ms": 0, "client_version": version}
    one = Transaction(transactional_id="x", status=status, **known | fields)
    event = EndTransaction("token", "x", producer, commit, version)
    if repeated_end(one, event):
        return "the same"
    try:
        check_end(one, event)
    except KafkaError as error:
        return error.code.name
    return "an end"


FENCED, STATE, BUSY = "PRODUCER_FENCED", "INVALID_TXN_STATE", "CONCURRENT_TRANSACTIONS"


@pytest.mark.parametrize(
    ("status", "abort_before", "abort_present", "commit_before", "commit_present"),
    [
        (TransactionStatus.EMPTY, FENCED, "an end", FENCED, STATE),
        (TransactionStatus.COMPLETE_ABORT, "the same", "an end", STATE, STATE),
        (TransactionStatus.COMPLETE_COMMIT, STATE, "an end", "the same", STATE),
        (TransactionStatus.ONGOING, FENCED, "an end", FENCED, "an end"),
        (TransactionStatus.PREPARE_ABORT, BUSY, BUSY, STATE, BUSY),
        (TransactionStatus.PREPARE_COMMIT, STATE, BUSY, BUSY, BUSY),
    ],
)
def test_the_epoch_shows_a_repeated_end_of_version_2(
    status, abort_before, abort_present, commit_before, commit_present
):
    """The epoch before repeats the last end, the present one asks for a new one (KIP-890)."""
    assert verdict(status, BEFORE, commit=False) == abort_before
    assert verdict(status, PRESENT, commit=False) == abort_present
    assert verdict(status, BEFORE, commit=True) == commit_before
    assert verdict(status, PRESENT, commit=True) == commit_present


@pytest.mark.parametrize(
    ("status", "abort", "commit"),
    [
        (TransactionStatus.EMPTY, STATE, STATE),
        (TransactionStatus.ONGOING, "an end", "an end"),
        (TransactionStatus.PREPARE_ABORT, BUSY, BUSY),
        (TransactionStatus.COMPLETE_ABORT, "the same", STATE),
        (TransactionStatus.COMPLETE_COMMIT, STATE, "the same"),
    ],
)
def test_an_end_of_version_1_keeps_the_epoch(status, abort, commit):
    """The epoch stays; any other one is fenced."""
    assert verdict(status, PRESENT, commit=False, version=0) == abort
    assert verdict(status, PRESENT, commit=True, version=0) == commit
    assert verdict(status, BEFORE, commit=True, version=0) == FENCED
    assert verdict(status, Producer(7, 5), commit=True, version=0) == FENCED


def test_an_end_of_the_last_epoch_may_be_repeated_too():
    """The transaction has another producer id by then."""
    last = Producer(6, EPOCH_MAX - 1)
    fields = {"producer_epoch": 0, "previous_producer_id": 6}
    assert verdict(TransactionStatus.COMPLETE_COMMIT, last, commit=True, **fields) == "the same"
    assert verdict(TransactionStatus.COMPLETE_COMMIT, last, commit=False, **fields) == STATE
    assert (
        verdict(TransactionStatus.COMPLETE_COMMIT, Producer(6, 9), commit=True, **fields)
        == "INVALID_PRODUCER_ID_MAPPING"
    )


def test_other_producer_ids_and_future_epochs_are_refused():
    """Another producer id is refused, an epoch from the future is fenced."""
    for status in TransactionStatus:
        assert verdict(status, Producer(8, 4), commit=False) == "INVALID_PRODUCER_ID_MAPPING"
        assert verdict(status, Producer(7, 9), commit=False) == FENCED
