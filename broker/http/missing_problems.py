"""Ranges that local disks have lost, for ``/readyz?verbose`` and as metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stratalog.broker.archive.problems import first_of

if TYPE_CHECKING:
    from stratalog.broker.replicas.partition_table import PartitionTable
    from stratalog.broker.replicas.unified_log import UnifiedLog
    from stratalog.broker.runtime.metrics import Metrics

__all__ = ["add_missing_metrics", "missing_problems"]


def missing_problems(partitions: Iterable[UnifiedLog]) -> list[str]:
    """A sentence for each range, a few at most."""
    return first_of([one.missing_sentence(missing) for one in partitions for missing in one.log.missing_ranges()])


def add_missing_metrics(metrics: Metrics, table: PartitionTable) -> None:
    """Figures over the led partitions."""
    metrics.add_gauge(
        "stratalog_missing_offsets",
        "Offsets of damaged segments that are missing on the local disk; `lost` ones are not in the archive either.",
        lambda: [({"kind": kind}, float(count)) for kind, count in _counted(table).items()],
    )
    metrics.add_gauge(
        "stratalog_closed_partitions",
        "Partitions that could not be opened and are offline.",
        lambda: [({}, float(len(table.closed)))],
    )


def _counted(table: Iterable[UnifiedLog]) -> dict[str, int]:
    counts = {"archived": 0, "lost": 0}
    for unified in table:
        remote_end = 0 if unified.remote is None else unified.remote.end_offset
        for missing in unified.log.missing_ranges():
            archived_end = min(max(missing.base_offset, remote_end), missing.end_offset)
            counts["archived"] += archived_end - missing.base_offset
            counts["lost"] += missing.end_offset - archived_end
    return counts
