"""Figures of the log directories for ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from stratalog.broker.replicas.directories import Directory
from stratalog.broker.runtime.metrics import Metrics

__all__ = ["add_directory_figures"]


def add_directory_figures(metrics: Metrics, directories: Iterable[Directory]) -> None:
    """Show how often each directory was synced: one cycle covers all logs that were due."""
    metrics.add_counter(
        "stratalog_directory_sync_cycles",
        "Sync cycles of a log directory; one covers all logs that were due.",
        partial(_sync_cycles, tuple(directories)),
    )


def _sync_cycles(directories: Iterable[Directory]) -> list[tuple[dict[str, str], float]]:
    return [({"directory": one.path}, one.writer.sync_cycles) for one in directories]
