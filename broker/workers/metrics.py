"""Figures of the worker processes: how old the oldest command is, and how often one hung."""

from __future__ import annotations

from typing import Protocol

from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.workers.watch import WorkerState

__all__ = ["HasWorker", "add_worker_metrics"]


class HasWorker(Protocol):
    """A part of the broker that has a worker process, or may come to have one."""

    @property
    def worker(self) -> WorkerState | None:
        """How it does; None as long as there is none."""
        ...


def add_worker_metrics(metrics: Metrics, *owners: HasWorker) -> None:
    """One sample for the worker of each owner."""

    def states() -> list[WorkerState]:
        return [state for owner in owners if (state := owner.worker) is not None]

    metrics.add_gauge(
        "stratalog_worker_oldest_command_seconds",
        "Age of the oldest command that a worker process has not answered; 0 if it has answered all.",
        lambda: [({"worker": state.role}, state.oldest_command_seconds) for state in states()],
    )
    metrics.add_counter(
        "stratalog_worker_hangs",
        "Worker processes that hung and were killed.",
        lambda: [({"worker": state.role}, state.hangs) for state in states()],
    )
