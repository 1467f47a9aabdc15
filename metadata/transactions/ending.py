"""Which ends of a transaction are taken from a producer, which repeat an earlier one, and which are refused.

Under transactions v2 (KIP-890) a request with the present epoch is a new end, one with the epoch before repeats the
end that raised it::

    state           abort, before   abort, present   commit, before   commit, present
    Empty           fenced          an end           fenced           refused
    CompleteAbort   the same        an end           refused          refused
    CompleteCommit  refused         an end           the same         refused

Under v1 the epoch stays, so a complete transaction answers the same end with the same answer, however often.
"""

from __future__ import annotations

from stratalog.metadata.transactions.events import EndTransaction
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.metadata.transactions.transaction import EPOCH_BUMP_SINCE, EPOCH_MAX, Transaction
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["check_end", "repeated_end"]


def repeated_end(transaction: Transaction, event: EndTransaction) -> bool:
    """Whether ``event`` asks for the end that the transaction has had already."""
    if transaction.status not in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT):
        return False
    if transaction.committing != event.commit:
        return False
    if event.client_version < EPOCH_BUMP_SINCE:
        return event.producer == transaction.producer
    return _repeats(transaction, event)


def check_end(transaction: Transaction, event: EndTransaction) -> None:
    """Whether the transaction may be ended so now.

    Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS while it is being ended so,
    INVALID_TXN_STATE if it is decided otherwise or there is nothing to end.
    """
    raises_epoch = event.client_version >= EPOCH_BUMP_SINCE
    repeats = raises_epoch and _repeats(transaction, event)
    _check_producer(transaction, event, repeats=repeats)
    status = transaction.status
    if status.ending:
        if transaction.committing == event.commit or event.producer == transaction.promised:
            raise _refusal(transaction, ErrorCode.CONCURRENT_TRANSACTIONS, "it is being ended")
        raise _refusal(transaction, ErrorCode.INVALID_TXN_STATE, f"it is decided: {status.title}")
    if status is TransactionStatus.ONGOING:
        return
    if repeats or event.commit or not raises_epoch:
        end = "commit" if event.commit else "abort"
        raise _refusal(transaction, ErrorCode.INVALID_TXN_STATE, f"there is nothing to {end} in state {status.title}")


def _check_producer(transaction: Transaction, event: EndTransaction, *, repeats: bool) -> None:
    status = transaction.status
    if event.producer == transaction.promised and status.ending:
        return
    if event.producer.producer_id != transaction.producer_id and not repeats:
        raise _refusal(
            transaction, ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"it has producer id {transaction.producer_id}"
        )
    if event.producer == transaction.producer or (repeats and (status.ending or _complete(status))):
        return
    raise _refusal(transaction, ErrorCode.PRODUCER_FENCED, f"its producer has epoch {transaction.producer_epoch}")


def _complete(status: TransactionStatus) -> bool:
    return status in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)


def _repeats(transaction: Transaction, event: EndTransaction) -> bool:
    """Whether the event comes from the producer as it was before the last end."""
    producer_id, epoch = event.producer
    if producer_id == transaction.producer_id:
        return transaction.producer_epoch == epoch + 1
    return producer_id == transaction.previous_producer_id and epoch == EPOCH_MAX - 1 and not transaction.producer_epoch


def _refusal(transaction: Transaction, code: ErrorCode, reason: str) -> KafkaError:
    return KafkaError(code, f"transactional id {transaction.transactional_id!r}: {reason}")
