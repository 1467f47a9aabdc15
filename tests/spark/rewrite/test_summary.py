"""The summary of a run."""

from __future__ import annotations

from stratalog.spark.rewrite.group import FAILED, PLANNED, REFUSED, SWAPPED, UNCHANGED, Group, GroupResult
from stratalog.spark.rewrite.summary import RewriteSummary
from stratalog.tier.documents.keys import PartitionId

GROUP = Group(0, PartitionId("t", b"t" * 16, 0), 0, 100, 10, 100, True, (b"a" * 16, b"b" * 16))


def test_results_are_added_up() -> None:
    """An object left as it was keeps all of its records."""
    summary = RewriteSummary("t", "compact")
    summary.count(
        [
            GroupResult(
                GROUP, SWAPPED, records=100, records_kept=10, old_bytes=1_000, written_bytes=90, tombstones_dropped=3
            ),
            GroupResult(GROUP, UNCHANGED, records=100, records_kept=100),
            GroupResult(GROUP, REFUSED, reason="changed"),
        ]
    )
    assert (summary.records, summary.records_kept, summary.tombstones_dropped) == (300, 210, 3)
    assert (summary.rewritten_objects, summary.new_objects, summary.old_bytes, summary.new_bytes) == (2, 1, 1_000, 90)
    assert (summary.refused, summary.is_whole) == (["changed"], False)


def test_damage_is_reported_and_a_dry_run_counts_what_would_be() -> None:
    """Neither is a change."""
    summary = RewriteSummary("t", "compact")
    summary.count([GroupResult(GROUP, FAILED, reason="damaged")])
    assert (summary.failed, summary.is_whole, summary.records_kept) == (["damaged"], False, 100)
    planned = RewriteSummary("t", "compact")
    planned.count([GroupResult(GROUP, PLANNED, records=100, records_kept=40)])
    assert (planned.rewritten_objects, planned.records, planned.records_kept, planned.is_whole) == (2, 100, 40, True)
