"""Shared by the tests of backfills: rows as they should be, rows as a reader finds them, workers without Spark."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stratalog.spark.backfill.backfill import BackfillSettings, Progress
from stratalog.spark.backfill.convert import ConvertRequest, convert_task
from stratalog.spark.backfill.plan import SpanTask
from stratalog.spark.ledger.ledger import Span
from stratalog.spark.source.options import parse_options
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.batch import iter_headers, iter_records

Row = tuple[Any, ...]


class HereRunner:
    """Tasks one after the other, in this process."""

    def convert(
        self, tasks: Sequence[tuple[SpanTask, ...]], request: ConvertRequest, progress: Progress
    ) -> Iterable[Span]:
        for task in tasks:
            for span in convert_task(task, request):
                progress.converted(span.source_bytes, span.rows)
                yield span


def settings(archive: Any, target: str, topic: str = "orders", **options: Any) -> BackfillSettings:
    """A backfill of ``topic``; options with a dot or of the source by their own names go to the source."""
    source = {
        name: options.pop(name)
        for name in list(options)
        if name in {"lease", "startingOffsets", "endingOffsets", "startingTimestamp"}
    }
    read = parse_options({"archive": archive.store.url, "subscribe": topic, **source})
    return BackfillSettings(topic=topic, read=read, target=target, **options)


def archive_rows(archive: Any, topic: str = "orders") -> list[Row]:
    """Every row of the archive, by a loop over single records."""
    rows = []
    for (name, partition), manifest in sorted(archive.manifests.items()):
        for entry in manifest.entries if name == topic else ():
            data = archive.store.get(entry.key)[0][: entry.data_bytes]
            for position, header in iter_headers(data):
                for record in () if header.is_control else iter_records(data, position):
                    headers = tuple((each.key, each.value) for each in record.headers) or None
                    kind = int(header.is_log_append_time)
                    rows.append(
                        (partition, record.offset, record.timestamp_ms * 1000, kind, record.key, record.value, headers)
                    )
    return sorted(rows, key=lambda row: row[:2])


def visible_keys(store: ObjectStore) -> list[str]:
    """The files that Spark, Hive, pyarrow or DuckDB take for data."""
    return [info.key for info in store.list("") if not any(part.startswith(("_", ".")) for part in info.key.split("/"))]


def file_rows(store: ObjectStore, keys: Iterable[str]) -> list[Row]:
    """The rows of Parquet files, sorted by partition and offset; a row that is there twice comes twice."""
    rows: list[Row] = []
    for key in keys:
        table = pq.read_table(io.BytesIO(store.get(key)[0]))
        times = table.column("timestamp").cast(pa.int64()).to_pylist()
        for row, time_us in zip(table.drop_columns("timestamp").to_pylist(), times, strict=True):
            headers = None if row["headers"] is None else tuple((one["key"], one["value"]) for one in row["headers"])
            assert row["topic"] == key.split("/")[0]
            rows.append(
                (row["partition"], row["offset"], time_us, row["timestampType"], row["key"], row["value"], headers)
            )
    return sorted(rows, key=lambda row: row[:2])


def target_rows(store: ObjectStore) -> list[Row]:
    """Rows that a plain reader of the whole target sees."""
    return file_rows(store, visible_keys(store))
