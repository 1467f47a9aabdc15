"""Figures of the transaction coordinator for ``/metrics``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Final, NamedTuple

from stratalog.broker.coordinators.transactions import TransactionCoordinator
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP, FreshFigures
from stratalog.broker.runtime.metrics import Metrics
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.metadata.transactions.status import TransactionStatus

__all__ = ["add_transaction_figures"]

_SHOWN: Final = [state for state in TransactionStatus if state is not TransactionStatus.PREPARE_EPOCH_FENCE]
"""The states that a transaction is ever in."""


class _Figures(NamedTuple):
    states: Counter[TransactionStatus]
    oldest_ms: int | None
    """When the oldest began that has not ended everywhere; None if all have."""


class _Count:
    """The figures of all shards."""

    def __init__(self, metrics: Metrics, transactions: TransactionCoordinator, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock
        self._figures = FreshFigures(metrics, self._counted, clock).get

    def _counted(self) -> Generator[None, None, _Figures]:
        states: Counter[TransactionStatus] = Counter()
        open_since_ms = []
        for driver in self._transactions.drivers():
            assert isinstance(driver.shard, TransactionShard)
            for number, transaction in enumerate(list(driver.shard.transactions.values())):
                if number % LOOKS_A_STEP == 0:
                    yield
                states[transaction.status] += 1
                if transaction.status is TransactionStatus.ONGOING or transaction.status.ending:
                    open_since_ms.append(transaction.start_ms)
        return _Figures(states, min(open_since_ms, default=None))

    def states(self) -> list[tuple[dict[str, str], float]]:
        """Transactional ids by the state of their latest transaction."""
        states = self._figures().states
        return [({"state": state.title}, states[state]) for state in _SHOWN]

    def oldest_seconds(self) -> list[tuple[dict[str, str], float]]:
        """How long ago the oldest began that has not ended everywhere."""
        began_ms = self._figures().oldest_ms
        return [({}, 0.0 if began_ms is None else max(self._clock.wall_ms() - began_ms, 0) / 1000)]


def add_transaction_figures(metrics: Metrics, transactions: TransactionCoordinator, clock: Clock) -> None:
    """Show transactions by state, and for how long the oldest has kept readers of committed records waiting."""
    count = _Count(metrics, transactions, clock)
    metrics.add_gauge("stratalog_transactions", "Transactional ids by the state of their transaction.", count.states)
    metrics.add_counter(
        "stratalog_transactional_ids_refused",
        "New transactional ids that were refused because there were stratalog.transactional.ids.max.",
        lambda: [({}, transactions.ceiling.refused)],
    )
    metrics.add_gauge(
        "stratalog_transactions_oldest_open_seconds",
        "Age of the oldest transaction that this broker coordinates and that is open or lacks markers; 0 without one.",
        count.oldest_seconds,
    )
