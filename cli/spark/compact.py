"""``stratalog compact``: of each key of an archived topic the newest record stays, by Spark and without a broker.

Also ``python -m stratalog.spark compact``, and ``spark-submit`` with ``stratalog/spark/jobs/compact.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.cli.quantities import SIZE_BYTES
from stratalog.cli.spark.rewrite import Duration, read_options, rewrite_options, rewrite_topics, tell, tell_unread

if TYPE_CHECKING:
    from stratalog.spark.rewrite.compact import CompactSettings
    from stratalog.spark.rewrite.summary import RewriteSummary

__all__ = ["EXAMPLES", "compact"]

EXAMPLES: Final = """
stratalog compact --bucket s3://archive/prod --topic balances --dry-run
stratalog compact --bucket s3://archive/prod --topic balances
stratalog compact --bucket file:///srv/archive --topic balances --without-spark
"""


@click.command("compact")
@rewrite_options
@click.option("--topic", "topics", required=True, multiple=True, metavar="TOPIC", help="Topic to compact; may be repeated.")  # fmt: skip
@click.option("--min-lag", "min_lag_ms", type=Duration(), metavar="TIME", help="Leave objects alone with records younger than this; else the topic's min.compaction.lag.ms.")  # fmt: skip
@click.option("--delete-retention", "delete_retention_ms", type=Duration(), metavar="TIME", help="Keep tombstones for so long after they were first met; else the topic's delete.retention.ms.")  # fmt: skip
@click.option("--object-bytes", type=SIZE_BYTES, default="256MiB", show_default=True, metavar="SIZE", help="Objects that are together no larger become one.")  # fmt: skip
@click.option("--any-policy", is_flag=True, help="Also a topic whose cleanup.policy is not compact.")
@click.option("--again", is_flag=True, help="Also where nothing was archived since the last time: tombstones may be due.")  # fmt: skip
def compact(**given: Any) -> None:
    """Compact the archive of a compacted topic: of each key the newest record stays.

    As Kafka's cleaner does it: offsets stay, tombstones and transaction markers go when delete.retention.ms is over, a
    record goes only for a later one that is archived too. Brokers may go on archiving meanwhile. The replaced objects
    go to the trash, and from the bucket when the broker empties that. Killed at any moment, it leaves each object as it
    was or compacted: run it again. Exit code 1: some objects could not be compacted, for the reasons told.
    """
    from stratalog.spark.rewrite.compact import compact as run

    def report(summary: RewriteSummary, seconds: float) -> bool:
        tell(summary, seconds, dry_run=given["dry_run"], as_json=given["as_json"])
        tell_unread(summary, "it stays as it stands, and so do tombstones behind it.")
        return summary.is_whole

    rewrite_topics(given, "compact", [_settings(given, topic) for topic in given["topics"]], run, report)


def _settings(given: Mapping[str, Any], topic: str) -> CompactSettings:
    from stratalog.spark.rewrite.compact import CompactSettings

    same = ("object_bytes", "task_bytes", "min_lag_ms", "delete_retention_ms", "any_policy", "again", "take_over")
    return CompactSettings(
        topic=topic,
        read=read_options(given, topic),
        dry_run=given["dry_run"],
        storage_class=given["storage_class"],
        **{name: given[name] for name in same},
    )
