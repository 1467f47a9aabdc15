"""The result of a verification: one row an anomaly, the sums, and the meaning of each kind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from stratalog.tier.care.verify_partition import PartitionReport
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind

__all__ = ["COLUMNS", "UNHEALTHY", "VerifySummary", "anomaly_row"]

UNHEALTHY: Final = 4
"""The exit code where anomalies were found."""
COLUMNS: Final = {
    "kind": "KIND",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "offset": "OFFSET",
    "key": "KEY",
    "detail": "WHAT",
}
"""Headings of the table whose rows `anomaly_row` makes."""


def anomaly_row(anomaly: Anomaly) -> dict[str, Any]:
    """An anomaly as people and ``--json`` see it; what does not apply is None."""
    return {
        "kind": str(anomaly.kind),
        "topic": anomaly.topic or None,
        "partition": anomaly.partition if anomaly.partition >= 0 else None,
        "offset": anomaly.offset if anomaly.offset >= 0 else None,
        "key": anomaly.key,
        "detail": anomaly.detail,
    }


class VerifySummary:
    """Objects checked and findings, partition by partition."""

    def __init__(self) -> None:
        self.partition_count = self.object_count = self.size_bytes = self.untold_count = 0
        self.kinds: Counter[str] = Counter()

    def add(self, report: PartitionReport) -> None:
        """One partition more."""
        self.partition_count += report.partition.partition >= 0
        self.object_count += report.object_count
        self.size_bytes += report.size_bytes
        self.untold_count += report.untold
        self.kinds.update(str(anomaly.kind) for anomaly in report.anomalies)

    @property
    def anomaly_count(self) -> int:
        """Those that were counted without being listed as well."""
        return self.kinds.total() + self.untold_count

    def row(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "what": "summary",
            "partitions": self.partition_count,
            "objects": self.object_count,
            "bytes": self.size_bytes,
            "anomalies": self.anomaly_count,
            "kinds": dict(sorted(self.kinds.items())),
        }

    def advice(self) -> Iterator[str]:
        """The meaning of each kind that was found, and the advice; then the findings left out."""
        for kind, count in sorted(self.kinds.items()):
            yield f"{kind} ({count}): {AnomalyKind(kind).meaning} {AnomalyKind(kind).advice}"
        yield from self.untold()

    def untold(self) -> Iterator[str]:
        """That there is more of the same, if there is."""
        if self.untold_count:
            yield f"{self.untold_count} more of the same kinds are not listed."

    def conclusion(self, size: str) -> str:
        """The last line; ``size`` is `size_bytes` in words."""
        looked = f"{self.partition_count} partitions, {self.object_count} objects, {size}"
        if self.anomaly_count:
            return f"{self.anomaly_count} anomalies in {looked}."
        # A prefix that is misspelt holds nothing, which is clean and never what was meant.
        return f"Clean: {looked}." if self.partition_count else "Clean, as nothing is archived there: is the URL right?"
