"""``stratalog verify`` and ``python -m stratalog.spark verify``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from stratalog.cli.main import cli
from stratalog.cli.spark import verify as cli_verify

pytestmark = pytest.mark.spark


@pytest.fixture
def bucket(tmp_path: Path, archive_in: Callable[[str], Any], batches: Callable[..., bytes]) -> Any:
    """One partition of two objects."""
    builder = archive_in(f"file://{tmp_path}/archive")
    builder.add("orders", 0, batches(0, 50), batches(50, 50))
    return builder


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, on the session of all tests."""
    monkeypatch.setattr(cli_verify, "spark_session", lambda name, master, options: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    return lambda *arguments: CliRunner().invoke(cli, list(arguments))


@pytest.mark.story
def test_exit_codes_and_rows_are_those_of_tier_verify(run: Callable[..., Result], bucket: Any) -> None:
    """0 and nothing on stdout for a clean bucket; 4, the same rows and the same JSON for a damaged one."""
    url, store = bucket.store.url, bucket.store
    clean = run("verify", "--bucket", url)
    assert (clean.exit_code, clean.stdout) == (0, "")
    assert clean.stderr.startswith("Clean: 1 partitions, 2 objects, ")
    key = bucket.manifests["orders", 0].entries[1].key
    data = bytearray(store.get(key)[0])
    data[100] ^= 1
    store.put(key, bytes(data))
    found, here = run("verify", "--bucket", url), run("tier", "verify", "--deep", "--bucket", url)
    assert found.exit_code == here.exit_code == 4
    assert found.stdout == here.stdout != ""
    assert "wrong-crc (1): Bytes of an object fail" in found.stderr
    found, here = run("verify", "--bucket", url, "--json"), run("tier", "verify", "--deep", "--bucket", url, "--json")
    assert found.exit_code == here.exit_code == 4
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        json.loads(line) for line in here.stdout.splitlines()
    ]
    assert run("verify", "--bucket", url + "-none").exit_code == 3
    assert run("verify").exit_code == 2
