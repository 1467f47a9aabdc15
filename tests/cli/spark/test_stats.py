"""``stratalog stats``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from stratalog.cli.main import cli
from stratalog.cli.spark import stats as cli_stats
from stratalog.tier import open_store

pytestmark = pytest.mark.spark


@pytest.fixture
def bucket(tmp_path: Path, archive_in: Callable[[str], Any], batches: Callable[..., bytes]) -> str:
    """``orders`` of two partitions over two days, ``payments`` of one."""
    builder = archive_in(f"file://{tmp_path}/archive")
    for partition in range(2):
        builder.add("orders", partition, batches(0, 50, timestamp_ms=0, step_ms=3_456_000))
    builder.add("payments", 0, batches(0, 10), topic_id=b"p" * 16)
    return str(builder.store.url)


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, on the session of all tests."""
    monkeypatch.setattr(cli_stats, "spark_session", lambda name, master, options: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    return lambda *arguments: CliRunner().invoke(cli, ["stats", *arguments])


@pytest.mark.story
def test_a_table_of_all_topics_or_lines_of_json(run: Callable[..., Result], bucket: str) -> None:
    """Figures that are not kept apart have no column in the table, and are null in JSON."""
    found = run("--bucket", bucket)
    assert found.exit_code == 0
    lines = [line.split() for line in found.stdout.splitlines()]
    assert lines[0][:4] == ["TOPIC", "PARTITION", "RECORDS", "BYTES"]
    assert [line[:3] for line in lines[1:]] == [["orders", "0", "50"], ["orders", "1", "50"], ["payments", "0", "10"]]
    found = run("--bucket", bucket, "-t", "orders", "--by", "day", "--json", "--keys", "none")
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(row["day"], row["partition"], row["records"], row["keys"]) for row in rows] == [
        ("1970-01-01", None, 50, None), ("1970-01-02", None, 50, None)
    ]  # fmt: skip


@pytest.mark.story
def test_rows_go_to_a_parquet_file(
    run: Callable[..., Result], bucket: str, tmp_path: Path, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a directory or a bucket; the next run takes its place."""
    for _ in range(2):
        found = run("--bucket", bucket, "--by", "partition,day", "--to", str(tmp_path / "stats"))
        assert (found.exit_code, found.stdout) == (0, "")
        assert "5 rows in file://" in found.stderr
    table = pq.read_table(tmp_path / "stats")
    assert table["records"].to_pylist() == [25, 25, 25, 25, 10]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    found = run(
        "--bucket", bucket, "--to", "s3://archive/stats", "--to-endpoint-url", s3_endpoint, "--to-region", "us-east-1"
    )
    assert found.exit_code == 0, found.stderr
    store = open_store("s3://archive/stats", endpoint_url=s3_endpoint, region="us-east-1")
    assert [info.key for info in store.list("")] == ["stats.parquet"]


def test_uncountable_topics_are_a_wrong_command(run: Callable[..., Result], bucket: str) -> None:
    """Before Spark is started."""
    assert run("--bucket", bucket, "--by", "week").exit_code == 2
    assert run("--bucket", bucket, "-t", "none").exit_code == 3
    assert run("--bucket", bucket, "--option", "columns=value").exit_code == 2
