"""The transactions that a walk over a log meets: which batches are void, and which markers no reader needs any more.

A marker is needed as long as records of its transaction stand before it. The walk begins at the log's first segment,
and every transaction it meets is decided. Source: Kafka's ``CleanedTransactionMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterable

from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.hot.state.validation import read_end_marker
from stratalog.wire.batch import BatchHeader
from stratalog.wire.errors import Corrupt

__all__ = ["CleanedTransactions"]


class CleanedTransactions:
    """Fed every batch in order."""

    __slots__ = ("_aborted", "_coming", "_committed", "_seen", "index")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """``aborted``: every aborted transaction with a record or its marker where the walk goes."""
        self._coming = sorted(set(aborted), key=_first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}  # by producer: the one that the walk is inside of
        self._seen: set[int] = set()  # the producers of those that had a batch here
        self._committed: set[int] = set()
        self.index: list[AbortedTxn] = []
        """Those whose markers were met since the list was last taken and are still needed: the new index."""

    def is_void(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        transaction = self._aborted.get(header.producer_id)
        aborted = transaction is not None and header.base_offset <= transaction.last_offset
        (self._seen if aborted else self._committed).add(header.producer_id)
        return aborted

    def is_needless(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether a control batch is a marker without any record before it. Raises `Corrupt`."""
        self._advance(header.last_offset)
        if header.record_count == 0:
            return True
        marker = read_end_marker(batch, header)
        if marker is None:
            return False  # not a marker: not the cleaner's business
        if marker.commit:
            needed = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not needed
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None and header.producer_id in self._committed:
            raise Corrupt(
                f"the marker at offset {header.base_offset} aborts a transaction of producer {header.producer_id} that the "
                ".txnindex of its segment lacks: its records would be taken for committed. Where other replicas have the log, "
                "stop this broker and remove the log's directory: it is copied again"
            )
        if aborted is None or header.producer_id not in self._seen:
            return True
        self._seen.discard(header.producer_id)
        self.index.append(aborted)
        return False

    def take_index(self) -> list[AbortedTxn]:
        """The entries of the transaction index of what was walked since the last call."""
        index, self.index = self.index, []
        return index

    def _advance(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[-1].first_offset <= offset:
            transaction = coming.pop()
            self._aborted[transaction.producer_id] = transaction
            self._seen.discard(transaction.producer_id)


def _first_offset(transaction: AbortedTxn) -> int:
    return transaction.first_offset
