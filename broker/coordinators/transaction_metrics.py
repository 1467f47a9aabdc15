"""Figures of the transaction coordinator for ``/metrics``.

Transactions are counted when somebody asks, all of them in one pass; the figures of one scrape come from the same pass.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from stratalog.broker.clock import Clock
from stratalog.broker.coordinators.transactions import TransactionCoordinator
from stratalog.broker.metrics import Metrics
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.metadata.transactions.status import TransactionStatus

__all__ = ["add_transaction_figures"]

_FRESH_SECONDS: Final = 1.0
_SHOWN: Final = [state for state in TransactionStatus if state is not TransactionStatus.PREPARE_EPOCH_FENCE]
"""The states that a transaction is ever in."""


class _Count:
    """The figures of all shards, at most a second old."""

    def __init__(self, transactions: TransactionCoordinator, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock
        self._states: Counter[TransactionStatus] = Counter()
        self._oldest_ms: int | None = None
        self._counted_at = -_FRESH_SECONDS

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now - self._counted_at < _FRESH_SECONDS:
            return
        self._counted_at = now
        self._states.clear()
        self._oldest_ms = None
        for driver in self._transactions.drivers():
            assert isinstance(driver.shard, TransactionShard)
            for transaction in driver.shard.transactions.values():
                self._states[transaction.status] += 1
                if transaction.status is TransactionStatus.ONGOING or transaction.status.ending:
                    known_ms = transaction.start_ms if self._oldest_ms is None else self._oldest_ms
                    self._oldest_ms = min(transaction.start_ms, known_ms)

    def states(self) -> list[tuple[dict[str, str], float]]:
        """Transactional ids by the state of their latest transaction."""
        self._look()
        return [({"state": state.title}, self._states[state]) for state in _SHOWN]

    def oldest_seconds(self) -> list[tuple[dict[str, str], float]]:
        """How long ago the oldest began that has not ended everywhere."""
        self._look()
        began_ms = self._oldest_ms
        return [({}, 0.0 if began_ms is None else max(self._clock.wall_ms() - began_ms, 0) / 1000)]


def add_transaction_figures(metrics: Metrics, transactions: TransactionCoordinator, clock: Clock) -> None:
    """Show transactions by state, and for how long the oldest has kept readers of committed records waiting."""
    count = _Count(transactions, clock)
    metrics.add_gauge("stratalog_transactions", "Transactional ids by the state of their transaction.", count.states)
    metrics.add_gauge(
        "stratalog_transactions_oldest_open_seconds",
        "Age of the oldest transaction that is open or whose markers are not all written; 0 without one.",
        count.oldest_seconds,
    )
