"""Backfills into tables that lie in an S3 bucket: files by our own store, commits by the libraries of the formats."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyiceberg.catalog
import pytest
from botocore.exceptions import EndpointConnectionError
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from stratalog.spark.backfill.backfill import backfill
from stratalog.spark.ledger.ledger_store import LedgerStore
from stratalog.spark.sinks import open_table
from stratalog.spark.sinks.delta import _storage_options
from tests.moto_server import PROGRAM


@pytest.fixture
def orders(tmp_path: Path, archive_in: Any, batches: Any) -> Any:
    """Two partitions over three days, in a directory."""
    builder = archive_in(f"file://{tmp_path / 'archive'}")
    for partition in range(2):
        builder.add("orders", partition, batches(0, 60, timestamp_ms=1_372_900_000_000, step_ms=3_600_000))
    return builder


@pytest.fixture
def options() -> Iterator[dict[str, str]]:
    """How the bucket ``archive`` is reached, on a server of its own.

    That is a process: deltalake waits for answers without letting go of Python, so a thread could not give them.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-W", "ignore", str(PROGRAM), "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="id", aws_secret_access_key="secret"
        )
        for attempt in range(300):
            try:
                client.create_bucket(Bucket="archive")
                break
            except EndpointConnectionError:
                assert attempt < 299, "the server does not answer"
                assert server.poll() is None, "the server has ended"
                time.sleep(0.1)
        client.close()
        yield {
            "s3.endpoint": endpoint,
            "s3.access-key": "id",
            "s3.secret-key": "secret",
            "s3.region": "us-east-1",
        }
    finally:
        server.kill()
        server.wait()


def rows_of(found: pa.Table) -> list[tuple[Any, ...]]:
    """As the rig tells rows; a list that is null may be shown as an empty one."""
    times = found.column("timestamp").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    rows = []
    for row, time_us in zip(found.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
        headers = tuple((one["key"], one["value"]) for one in row["headers"] or ()) or None
        rows.append((row["partition"], row["offset"], time_us, row["timestampType"], row["key"], row["value"], headers))
    return sorted(rows, key=lambda row: row[:2])


class Killed(BaseException):
    """The driver dies."""


def die(*arguments: Any) -> None:
    raise Killed


@pytest.mark.story
def test_a_delta_table_in_a_bucket(
    orders: Any, options: dict[str, str], batches: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row once, also when the driver dies between commit and ledger; offsets are in the commit."""

    def run() -> int:
        table = open_table("delta:s3://archive/delta/orders", "date", options)
        assert table is not None
        wanted = rig.settings(orders, table.files_url, target_options=dict(table.files_options))
        return int(backfill(replace(wanted, table=table), rig.HereRunner()).rows)

    def delta() -> DeltaTable:
        return DeltaTable("s3://archive/delta/orders", storage_options=_storage_options(options))

    assert run() == 120
    assert rows_of(pa.table(delta().to_pyarrow_table())) == rig.archive_rows(orders)
    orders.add("orders", 1, batches(60, 20))
    with monkeypatch.context() as patched:
        patched.setattr(LedgerStore, "_swap", die)
        with pytest.raises(Killed):
            run()
    run()
    assert run() == 0
    assert rows_of(pa.table(delta().to_pyarrow_table())) == rig.archive_rows(orders)
    told = [json.loads(each["stratalog.offsets"]) for each in delta().history() if "stratalog.offsets" in each]
    assert told == [{"0": 60, "1": 80}, {"0": 60, "1": 60}]


@pytest.mark.story
def test_an_iceberg_table_in_a_bucket(
    orders: Any, options: dict[str, str], batches: Any, rig: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog says how the bucket is reached, for our files too; each row once, whatever dies."""
    settings = {
        "TYPE": "sql",
        "URI": f"sqlite:///{tmp_path / 'catalog.db'}",
        "WAREHOUSE": "s3://archive/warehouse",
        "S3__ENDPOINT": options["s3.endpoint"],
        "S3__REGION": options["s3.region"],
        "S3__ACCESS_KEY_ID": options["s3.access-key"],
        "S3__SECRET_ACCESS_KEY": options["s3.secret-key"],
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # it reads the environment when it is imported

    def run() -> int:
        table = open_table("iceberg:lake.raw.orders", "date", {})
        assert table is not None
        assert table.files_url.startswith("s3://archive/warehouse/raw")
        wanted = rig.settings(orders, table.files_url, target_options=dict(table.files_options))
        return int(backfill(replace(wanted, table=table), rig.HereRunner()).rows)

    assert run() == 120
    assert rows_of(load_catalog("lake").load_table("raw.orders").scan().to_arrow()) == rig.archive_rows(orders)
    orders.add("orders", 1, batches(60, 20))
    with monkeypatch.context() as patched:
        patched.setattr(LedgerStore, "_swap", die)
        with pytest.raises(Killed):
            run()
    run()
    assert run() == 0
    table = load_catalog("lake").load_table("raw.orders")
    assert rows_of(table.scan().to_arrow()) == rig.archive_rows(orders)
    assert json.loads(table.current_snapshot().summary["stratalog.offsets"]) == {"0": 60, "1": 80}  # type: ignore[union-attr, index]
