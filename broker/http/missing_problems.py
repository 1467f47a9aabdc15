"""Ranges that local disks have lost, for ``/readyz?verbose`` and as metrics."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING

from stratalog.broker.archive.problems import first_of
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP, FreshFigures

if TYPE_CHECKING:
    from stratalog.broker.replicas.partition_table import PartitionTable
    from stratalog.broker.replicas.unified_log import UnifiedLog
    from stratalog.broker.runtime.clock import Clock
    from stratalog.broker.runtime.metrics import Metrics

__all__ = ["add_missing_metrics", "missing_problems"]


def missing_problems(partitions: Iterable[UnifiedLog]) -> Generator[None, None, list[str]]:
    """A sentence for each range, a few at most. It yields where it may pause."""
    sentences: list[str] = []
    for number, one in enumerate(list(partitions)):
        if number % LOOKS_A_STEP == 0:
            yield
        sentences += map(one.missing_sentence, one.log.missing_ranges())
    return first_of(sentences)


def add_missing_metrics(metrics: Metrics, table: PartitionTable, clock: Clock) -> None:
    """Figures over the led partitions."""
    counted = FreshFigures(metrics, partial(_counted, table), clock).get
    metrics.add_gauge(
        "stratalog_missing_offsets",
        "Offsets of damaged segments that are missing on the local disk; `lost` ones are not in the archive either.",
        lambda: [({"kind": kind}, float(count)) for kind, count in counted().items()],
    )
    metrics.add_gauge(
        "stratalog_closed_partitions",
        "Partitions that could not be opened and are offline.",
        lambda: [({}, float(len(table.closed)))],
    )


def _counted(table: Iterable[UnifiedLog]) -> Generator[None, None, dict[str, int]]:
    counts = {"archived": 0, "lost": 0}
    for number, unified in enumerate(list(table)):
        if number % LOOKS_A_STEP == 0:
            yield
        remote_end = 0 if unified.remote is None else unified.remote.end_offset
        for missing in unified.log.missing_ranges():
            archived_end = min(max(missing.base_offset, remote_end), missing.end_offset)
            counts["archived"] += archived_end - missing.base_offset
            counts["lost"] += missing.end_offset - archived_end
    return counts
