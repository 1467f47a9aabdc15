"""The figures of the cleaner of compacted topics, under the names that Kafka's JMX rules give where Kafka has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from stratalog.broker.runtime.metrics import Metrics

__all__ = ["add_cleaner_figures"]

Labels = dict[str, str]


def add_cleaner_figures(
    metrics: Metrics,
    *,
    uncleanable: Callable[[], Mapping[str, int]],
    dirty_ratio: Callable[[], float],
    count: Callable[[str], int],
) -> None:
    """Add them. ``uncleanable`` counts the logs that are skipped by the path of their directory, ``count`` gives a figure by name."""
    metrics.add_gauge(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count: logs that the cleaner skips.",
        lambda: [({"logDirectory": path}, number) for path, number in uncleanable().items()],
    )
    metrics.add_gauge(
        "kafka_log_logcleanermanager_max_dirty_percent",
        "kafka.log:type=LogCleanerManager,name=max-dirty-percent, as it was last looked at.",
        lambda: [({}, int(100 * dirty_ratio()))],
    )
    for name, text in (
        ("cleanings", "Cleanings of compacted logs that were completed."),
        ("read_bytes", "Bytes that the cleaner has read."),
        ("written_bytes", "Bytes that the cleaner has written."),
    ):
        metrics.add_counter(f"stratalog_cleaner_{name}", text, partial(_counted, count, name))


def _counted(count: Callable[[str], int], name: str) -> list[tuple[Labels, float]]:
    return [({}, count(name))]
