"""``stratalog stats``: records, bytes, keys and missing offsets of archived topics, by Spark and without a broker.

Also ``python -m stratalog.spark stats``, and ``spark-submit`` with ``stratalog/spark/jobs/stats.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from stratalog.cli.output import write_rows
from stratalog.cli.spark.options import (
    COLUMN_OPTIONS,
    archive_options,
    check_before_spark,
    pairs,
    refuse_options,
    spark_options,
    spark_session,
    store_options,
)

if TYPE_CHECKING:
    from stratalog.spark.reports.figures import Figures

__all__ = ["EXAMPLES", "stats"]

EXAMPLES: Final = """
stratalog stats --bucket s3://archive/prod
stratalog stats --bucket s3://archive/prod --topic orders --by partition,day --to s3://lake/stats/orders
stratalog stats --bucket file:///srv/archive --topic orders --by day --keys approximate --json
"""
_COLUMNS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "day": "DAY",
    "records": "RECORDS",
    "bytes": "BYTES",
    "keys": "KEYS",
    "null_keys": "NO KEY",
    "null_values": "NO VALUE",
    "missing_offsets": "MISSING",
    "gaps": "GAPS",
}
_FILE: Final = "stats.parquet"


@click.command("stats")
@archive_options
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
@click.option("--by", default="partition", show_default=True, metavar="LIST", help="A row for each topic, or for each partition, day (of the record, in UTC) or partition,day of it.")  # fmt: skip
@click.option("--keys", type=click.Choice(["exact", "approximate", "none"]), default="exact", show_default=True, help="Count distinct keys: all through Spark's shuffle, within some 2 %, or not.")  # fmt: skip
@click.option("--option", "source_options", multiple=True, callback=pairs, metavar="NAME=VALUE", help="Any option of the Spark source: startingTimestamp, kafka.isolation.level, failOnDataLoss …")  # fmt: skip
@click.option("--to", "target", metavar="DIR|URL", help=f"Write the rows to {_FILE} in this directory or s3:// URL, not to stdout.")  # fmt: skip
@click.option("--to-endpoint-url", metavar="URL", help="The S3 server of the target; else that of the archive.")
@click.option("--to-region", metavar="NAME", help="The region of the target; else that of the archive.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
def stats(
    *,
    bucket: str,
    endpoint_url: str | None,
    region: str | None,
    topics: Sequence[str],
    by: str,
    keys: str,
    source_options: Mapping[str, str],
    target: str | None,
    to_endpoint_url: str | None,
    to_region: str | None,
    master: str | None,
    spark_conf: Mapping[str, str],
    as_json: bool,
) -> None:
    """Count what is archived, with Spark and without a broker: records, bytes of keys and values, distinct keys, records
    without key or value, and offsets that no record has (MISSING, in so many GAPS).

    Offsets are missing where transactions have their markers and aborted records, and where compaction removed
    records. With the records they are all offsets from the log start to the end of the archive. Every record is
    decoded once.
    """
    from stratalog.spark.environment.hadoop_settings import completed, s3a_of_session
    from stratalog.spark.reports.figures import Keys, check_grouping
    from stratalog.spark.reports.figures_spark import archive_stats
    from stratalog.spark.source.options import parse_options

    grouping = check_grouping(by.split(","))
    subscription = {"subscribe": ",".join(topics)} if topics else {"subscribePattern": ".*"}
    given = {**source_options, **store_options(bucket, endpoint_url, region), "archive": bucket, **subscription}
    refuse_options(source_options, COLUMN_OPTIONS, "every record is decoded from the archive")
    check_before_spark([parse_options(given)])
    with spark_session("stratalog stats", master, spark_conf) as spark:
        s3a = s3a_of_session(spark)
        rows = archive_stats(spark, parse_options(completed(given, s3a, bucket)), grouping, Keys(keys))
    if target is not None:
        to = store_options(target, to_endpoint_url or endpoint_url, to_region or region)
        written = _write(rows, target, completed(to, s3a, target))
        click.echo(f"{len(rows)} rows in {written}", err=True)
    elif as_json:
        for row in rows:
            click.echo(json.dumps(row._asdict()))
    else:
        shown = {name: heading for name, heading in _COLUMNS.items() if name not in {"partition", "day"} - {*grouping}}
        write_rows([row._asdict() for row in rows], shown, as_json=False)


def _write(rows: Sequence[Figures], target: str, options: Mapping[str, str]) -> str:
    """One Parquet file, in place of the one before; where it lies."""
    from io import BytesIO

    import pyarrow.parquet as pq

    from stratalog.spark.ledger.target import open_target
    from stratalog.spark.reports.figures import figures_table

    place = open_target(target, options)
    content = BytesIO()
    pq.write_table(figures_table(rows), content, compression="zstd")
    place.store.put(_FILE, content.getvalue())
    return f"{place.url.rstrip('/')}/{_FILE}"
