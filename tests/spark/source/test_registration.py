"""The format and the workers that need it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

import stratalog
from stratalog.spark.source.registration import show_zip_to_workers


def test_workers_of_the_driver_find_the_zip_that_stratalog_runs_out_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, before what they know; an installation or a checkout gives no warning."""
    spark = SimpleNamespace(sparkContext=SimpleNamespace(environment={"PYTHONPATH": "/elsewhere"}))
    show_zip_to_workers(cast("SparkSession", spark))
    assert spark.sparkContext.environment == {"PYTHONPATH": "/elsewhere"}
    monkeypatch.setattr(stratalog, "__path__", [str(tmp_path / "stratalog.zip" / "stratalog")])
    for _ in range(2):
        show_zip_to_workers(cast("SparkSession", spark))
    assert spark.sparkContext.environment == {"PYTHONPATH": f"{tmp_path}/stratalog.zip:/elsewhere"}
