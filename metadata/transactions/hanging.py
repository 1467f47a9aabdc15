"""Judges open transactions of a log that went on from its archive: their coordinator may never end them (KIP-664). Pure.

A marker that was lost with a disk leaves its transaction open, and readers of committed records wait in front of it. The
coordinator's log may have gone back as well. `judge` says how such a transaction ended, as far as anything tells:

================================================  ===========================  ========================================
the coordinator's latest transaction              told apart by                verdict
================================================  ===========================  ========================================
open, or being ended, partition listed            --                           wait: its marker comes from there
being ended, partition not listed                 --                           wait until that end is complete
complete, v2                                      the epoch after the end      as that one ended
complete, v1                                      the same epoch, no later     undecided: it may be an earlier one
open without this partition, v1                   the same epoch               undecided, likewise
any                                               a later epoch                undecided: it has ended, but how?
none, the coordinator's log covers the time       --                           undecided: it is forgotten
anything else                                     an end in another partition  undecided
anything else                                     no end in any partition      abort
================================================  ===========================  ========================================

The last row contradicts nothing that any log here shows. A guess in a row above could split a commit, so the transaction
stays open there and is reported.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.metadata.transactions.transaction import EPOCH_BUMP_SINCE, Transaction
from stratalog.wire.topic import TopicPartition

__all__ = ["CLOCKS_DIFFER_MS", "OpenTransaction", "Seen", "Verdict", "ended_in", "judge", "left_open"]

CLOCKS_DIFFER_MS: Final = 300_000
"""Times of records are of producers' clocks, those of ends of the coordinator's."""


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition. ``last_ms`` is the time of its producer's last batch there."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_ms: int


class Seen(NamedTuple):
    """The trace of the producer in another partition: the epoch of its last batch or marker, and whether there was a marker."""

    producer_epoch: int
    had_marker: bool


class Verdict(Enum):
    """The end that a transaction gets."""

    WAIT = "wait"
    COMMIT = "commit"
    ABORT = "abort"
    UNDECIDED = "undecided"


def judge(found: OpenTransaction, known: Transaction | None, *, ended_elsewhere: bool, covered_ms: int = -1) -> Verdict:
    """The verdict about an open transaction.

    ``known`` is the coordinator's transaction with this producer id; None if it has none, with all of its log read.
    ``ended_elsewhere``: see `ended_in`. ``covered_ms``: the latest time of the coordinator's log as it was found.
    """
    if known is None:
        if (
            found.last_ms <= covered_ms + CLOCKS_DIFFER_MS
        ):  # the transactional id has got another producer id since, or is gone
            return Verdict.UNDECIDED
    else:
        if known.status.ending or not left_open(found, known):
            return Verdict.WAIT
        verdict = _as_known(found, known)
        if verdict is not None:
            return verdict
    return Verdict.UNDECIDED if ended_elsewhere else Verdict.ABORT


def left_open(found: OpenTransaction, known: Transaction | None) -> bool:
    """Whether the coordinator, as it is now, will not end the transaction in this partition."""
    if known is None:
        return True
    under_way = known.status is TransactionStatus.ONGOING or known.status.ending
    return not (under_way and found.partition in known.partitions)


def _as_known(found: OpenTransaction, known: Transaction) -> Verdict | None:
    """The verdict by the coordinator's own state; None if that knows no end of this transaction."""
    end = known.latest_end
    by_epoch = end.client_version >= EPOCH_BUMP_SINCE
    same = end.producer_epoch == found.producer_epoch
    if end.status is TransactionStatus.ONGOING and same and not by_epoch:
        return Verdict.UNDECIDED
    if end.status in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT):
        if by_epoch and end.producer_epoch == found.producer_epoch + 1:
            return Verdict.COMMIT if end.status is TransactionStatus.COMPLETE_COMMIT else Verdict.ABORT
        if not by_epoch and same and found.last_ms <= end.last_update_ms + CLOCKS_DIFFER_MS:
            return Verdict.UNDECIDED
    return Verdict.UNDECIDED if end.producer_epoch > found.producer_epoch else None


def ended_in(found: OpenTransaction, known: Transaction | None, seen: Seen) -> bool:
    """Whether another partition may have seen the end of the transaction.

    A later epoch of the producer follows each end under v2. Under v1 the epoch may stay, so that a marker with the same
    epoch, of this transaction or of one before, is enough for doubt.
    """
    if seen.producer_epoch > found.producer_epoch:
        return True
    by_epoch = known is not None and known.latest_end.client_version >= EPOCH_BUMP_SINCE
    return not by_epoch and seen.had_marker and seen.producer_epoch == found.producer_epoch
