"""``stratalog tier explain``: what a read will ask of the bucket, before it happens."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stratalog.cli.bucket import open_bucket
from stratalog.cli.command import ExampleGroup
from stratalog.cli.output import NotFoundError, bytes_text, json_option, note, reports_errors, write_rows
from stratalog.cli.prices import find_bucket, find_prices, optional_bucket, price_options, tell_prices
from stratalog.cli.quantities import SIZE_BYTES
from stratalog.tier.planning.prices import PriceTable, Usage

if TYPE_CHECKING:
    from stratalog.tier.stores.store import ObjectStore

__all__ = ["explain"]

COLUMNS: Final = {"what": "WHAT", "requests": "REQUESTS", "bytes": "BYTES", "cost": "COST"}
BACKFILL_COLUMNS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "start": "START",
    "end": "END",
    "objects": "OBJECTS",
    "requests": "REQUESTS",
    "bytes": "BYTES",
    "cost": "COST",
}
ANSWER_BYTES: Final = 1 << 20

explain = ExampleGroup(
    "explain",
    help="Say what a read will cost in requests, bytes and money, before it happens.",
    no_args_is_help=True,
    examples="""
    stratalog tier explain fetch orders 0 --offset 1000000 --bytes 12GiB
    stratalog tier explain backfill orders
    """,
)


@explain.command(
    "fetch",
    examples="""
    stratalog tier explain fetch orders 0 --offset 1000000
    stratalog tier explain fetch orders 0 --offset 1000000 --until 2000000 --json
    stratalog tier explain fetch orders 0 --offset 0 --bytes 12GiB --bucket s3://archive/prod --prices my-prices.toml
    """,
)
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.option("--offset", type=click.IntRange(min=0), required=True, metavar="OFFSET", help="First offset read.")
@click.option("--until", type=click.IntRange(min=0), metavar="OFFSET", help="Where the reader stops (exclusive); else at the archive's end.")  # fmt: skip
@click.option("--bytes", "limit_bytes", help="Stop after so many bytes of records.", type=SIZE_BYTES, metavar="SIZE")  # fmt: skip
@click.option("--fetch-bytes", "answer_bytes", default="1MiB", show_default=True, help="Bytes that the client takes at a time (max.partition.fetch.bytes).", type=SIZE_BYTES, metavar="SIZE")  # fmt: skip
@click.option("--cache-bytes", "cache_bytes", default="1GiB", show_default=True, help="The broker's stratalog.cache.bytes.max, which bounds reading ahead.", type=SIZE_BYTES, metavar="SIZE")  # fmt: skip
@click.option("--exact", is_flag=True, help="Read the chunk tables too, a GET an object, instead of taking chunks to be even.")  # fmt: skip
@optional_bucket
@price_options
@json_option
@reports_errors
def fetch(*, topic: str, partition: int, offset: int, until: int | None, limit_bytes: int | None, answer_bytes: int,
          cache_bytes: int, exact: bool, bucket: str | None, endpoint_url: str | None, region: str | None, http: str, price_file: str | None,
          store_name: str | None, as_json: bool) -> None:  # fmt: skip
    """Say what a Kafka client costs that reads PARTITION of TOPIC from an offset on, with nothing of it in the cache.

    Counts the requests of the broker for it: chunk tables, chunks, and what it reads ahead. Offsets that are on the
    broker's disk cost nothing and are left out: the read is cut to what the archive holds. With even chunks the
    figures are right to some percent; the command itself reads the manifest only.
    """
    from stratalog.broker.cold.forecast import forecast_fetch, table_by_manifest

    url = find_bucket(bucket, http)
    prices = find_prices(price_file, store_name, url)
    store, remote = _open(open_bucket(url, endpoint_url, region), topic, partition)
    manifest = Usage(reads=store.count(), received_bytes=store.received_bytes)
    forecast = forecast_fetch(
        remote,
        offset,
        remote.remote_end if until is None else until,
        answer_bytes=answer_bytes,
        cache_bytes=cache_bytes,
        delivered_bytes_max=limit_bytes,
        table_of=_table_reader(store) if exact else table_by_manifest,
    )
    forecast.manifest_gets, forecast.manifest_bytes = manifest.reads, manifest.received_bytes
    rows = [
        _row("manifest", manifest, prices),
        _row("tails", Usage(reads=forecast.tail_gets, received_bytes=forecast.tail_bytes), prices),
        _row("chunks", Usage(reads=forecast.chunk_gets, received_bytes=forecast.chunk_bytes), prices),
        _row("all", forecast.usage, prices),
    ]
    if as_json:
        figures = {
            name: getattr(forecast, name) for name in ("start", "end", "objects", "delivered_bytes", "ahead_bytes")
        }
        rows[-1] |= {"topic": topic, "partition": partition, **figures}
    _write(rows, COLUMNS, as_json=as_json)
    tell_prices(prices, url)
    note(
        f"{topic}-{partition}, offsets {forecast.start} to {forecast.end} (exclusive) in {forecast.objects} objects: "
        f"{bytes_text(forecast.delivered_bytes)} for the reader, {bytes_text(forecast.ahead_bytes)} read ahead of its end."
    )


@explain.command(
    "backfill",
    examples="""
    stratalog tier explain backfill orders payments
    stratalog tier explain backfill --bucket s3://archive/prod --json
    """,
)
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option("--cores", type=click.IntRange(min=1), default=os.cpu_count() or 1, metavar="COUNT", help="Cores of the Spark cluster; else those of this machine.")  # fmt: skip
@click.option("--task-bytes", "task_bytes", default="256MiB", show_default=True, help="The Spark option maxPartitionBytes.", type=SIZE_BYTES, metavar="SIZE")  # fmt: skip
@optional_bucket
@price_options
@json_option
@reports_errors
def backfill(*, topics: Sequence[str], cores: int, task_bytes: int, bucket: str | None, endpoint_url: str | None, region: str | None, http: str,
             price_file: str | None, store_name: str | None, as_json: bool) -> None:  # fmt: skip
    """Say what Spark costs that reads all that is archived of the topics, or of the whole bucket.

    Counts the requests of driver (listing, manifests, lease) and tasks (tails, chunks). No broker takes part in such a read.
    """
    from stratalog.tier.bucket.topics import newest_manifests
    from stratalog.tier.manifests.entries import iter_entries
    from stratalog.tier.planning.backfill_forecast import forecast_backfill
    from stratalog.tier.planning.slices import PartitionArchive
    from stratalog.tier.stores.wrappers import CountingStore
    from stratalog.wire.topic import TopicPartition

    url = find_bucket(bucket, http)
    prices = find_prices(price_file, store_name, url)
    store = CountingStore(open_bucket(url, endpoint_url, region))
    manifests = newest_manifests(store, topics or None)
    missing = sorted(set(topics) - {each.partition.topic for each in manifests})
    if missing:
        raise NotFoundError(f"Nothing of topic {missing[0]} is archived in {url}.")
    archives = [
        PartitionArchive(
            TopicPartition(each.partition.topic, each.partition.partition),
            each.log_start_offset,
            max(each.remote_end, each.log_start_offset),
            tuple(iter_entries(store, each, each.log_start_offset)),
        )
        for each in manifests
    ]
    lists = store.count("list")
    driver = Usage(reads=store.count("get"), writes=1, lists=lists, received_bytes=store.received_bytes)
    forecasts, task_count = forecast_backfill(archives, core_count=cores, task_bytes=task_bytes)
    rows = [
        _row(None, one.usage, prices)
        | {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "start": one.start,
            "end": one.end,
            "objects": one.objects,
        }
        for one in forecasts
    ]
    rows.append({"topic": "(driver)"} | _row(None, driver, prices))
    total = sum((one.usage for one in forecasts), driver)
    rows.append({"topic": "(all)", "objects": sum(one.objects for one in forecasts)} | _row(None, total, prices))
    _write(rows, BACKFILL_COLUMNS, as_json=as_json)
    tell_prices(prices, url)
    note(f"{task_count} tasks on {cores} cores.")


def _open(opened: ObjectStore, topic: str, partition: int) -> tuple[Any, Any]:
    """A store that counts, and what a broker would know of the partition's archive. Raises `NotFoundError`."""
    from stratalog.tier.bucket.topics import newest_manifests
    from stratalog.tier.messages.commands import ReadManifest
    from stratalog.tier.messages.reports import ManifestRead
    from stratalog.tier.reading.remote_log import RemoteLog
    from stratalog.tier.stores.wrappers import CountingStore
    from stratalog.tier.work.work import Worker

    found = newest_manifests(opened, [topic], partition)
    if not found:
        raise NotFoundError(f"Nothing of {topic}-{partition} is archived in {opened.url}.")
    store = CountingStore(opened)
    report = Worker(store).execute(ReadManifest(found[0].partition))
    if not isinstance(report, ManifestRead):
        raise NotFoundError(f"The manifest of {topic}-{partition} cannot be read: {getattr(report, 'message', report)}")
    remote = RemoteLog(found[0].partition)
    remote.merge(report.view)
    return store, remote


def _table_reader(store: Any) -> Any:
    from stratalog.tier.objects.segment_reader import read_object_footer

    def read(segment: Any) -> Any:
        return read_object_footer(store.inner, segment.key).chunks

    return read


def _row(what: str | None, usage: Usage, prices: PriceTable | None) -> dict[str, Any]:
    row: dict[str, Any] = {"requests": usage.reads + usage.lists + usage.writes, "bytes": usage.received_bytes}
    row["cost"] = None if prices is None else prices.cost(usage)
    row["currency"] = None if prices is None else prices.currency
    return {"what": what, **row} if what else row


def _write(rows: Sequence[dict[str, Any]], columns: Mapping[str, str], *, as_json: bool) -> None:
    if not as_json:
        for row in rows:
            row["bytes"] = bytes_text(row["bytes"])
            row["cost"] = "-" if row["cost"] is None else f"{row['cost']:.4g} {row['currency']}"
    write_rows(rows, columns, as_json=as_json)
