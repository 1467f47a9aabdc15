"""Figures of the archive side of a broker, counted over all partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from stratalog.broker.runtime.metrics import Metrics

__all__ = ["add_tier_metrics"]


def add_tier_metrics(
    metrics: Metrics,
    requests: Counter[str],
    *,
    border_reads: Callable[[], int],
    merged_objects: Callable[[], int],
    refused_claims: Callable[[], int],
) -> None:
    """Requests to the bucket by operation, readers at the border, objects that were merged, claims that were refused."""
    metrics.add_counter(
        "stratalog_tier_requests",
        "Requests to the bucket, by operation.",
        lambda: [({"operation": name}, count) for name, count in sorted(requests.items())],
    )
    metrics.add_counter(
        "stratalog_tier_gets",
        "GET requests to the bucket: whole objects, ranges and suffixes.",
        lambda: [({}, sum(count for name, count in requests.items() if name.startswith("get")))],
    )
    metrics.add_counter(
        "stratalog_tier_border_reads",
        "Readers that went on from the archive to the local disk.",
        lambda: [({}, border_reads())],
    )
    metrics.add_counter(
        "stratalog_tier_merged_objects",
        "Small objects in the bucket that were replaced by larger ones.",
        lambda: [({}, merged_objects())],
    )
    metrics.add_counter(
        "stratalog_tier_refused_claims",
        "Requests of this broker that an archive refused, because a later leader owns it.",
        lambda: [({}, refused_claims())],
    )
