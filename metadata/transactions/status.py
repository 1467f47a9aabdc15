"""The life of a transaction: one table of states, and which state may follow which.

.. code-block:: text

    (new) -> Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing ...
                              -> PrepareAbort  -> CompleteAbort  -> Ongoing ...
    Empty, CompleteCommit, CompleteAbort -> Empty (a new producer), PrepareAbort (an abort of nothing), Dead (expired)

``PrepareEpochFence`` is where Kafka stands for a moment while it takes a transaction from its producer. Here that is
one step, from Ongoing to PrepareAbort, so the state is known by its number but never entered. Numbers and names are
Kafka's, they are in records and answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

__all__ = ["PRECEDING", "TransactionStatus"]


class TransactionStatus(IntEnum):
    """Where a transaction stands; the value is what records hold."""

    EMPTY = 0
    """The producer is known, no transaction has begun."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """Committed, for good; markers are being written."""
    PREPARE_ABORT = 3
    """Aborted, for good; markers are being written."""
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The transactional id has expired and is being forgotten."""
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name that answers carry: ``PrepareCommit``."""
        return _TITLES[self]

    @property
    def ending(self) -> bool:
        """Whether it is decided and markers are being written."""
        return self in _ENDING

    @property
    def resting(self) -> bool:
        """Whether nothing is going on: a transaction may begin, the transactional id may expire."""
        return self in _RESTING


_TITLES: Final = {status: "".join(word.title() for word in status.name.split("_")) for status in TransactionStatus}

_EMPTY, _ONGOING = TransactionStatus.EMPTY, TransactionStatus.ONGOING
_ENDING: Final = frozenset({TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT})
_RESTING: Final = frozenset({_EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT})

PRECEDING: Final[Mapping[TransactionStatus, frozenset[TransactionStatus]]] = {
    TransactionStatus.EMPTY: _RESTING,
    TransactionStatus.ONGOING: _RESTING | {_ONGOING},
    TransactionStatus.PREPARE_COMMIT: frozenset({_ONGOING}),
    TransactionStatus.PREPARE_ABORT: _RESTING | {_ONGOING},
    TransactionStatus.COMPLETE_COMMIT: frozenset({TransactionStatus.PREPARE_COMMIT}),
    TransactionStatus.COMPLETE_ABORT: frozenset({TransactionStatus.PREPARE_ABORT}),
    TransactionStatus.DEAD: _RESTING,
    TransactionStatus.PREPARE_EPOCH_FENCE: frozenset(),
}
"""From which states each one may be entered."""
