"""A session that is started with the first tasks, or not at all."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stratalog.cli.spark import spark_on_demand
from stratalog.cli.spark.spark_on_demand import SparkOnDemand
from stratalog.spark.backfill import spark_job as backfill_spark
from stratalog.spark.backfill.backfill import backfill
from stratalog.wire.errors import Unknown


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, rig: Any) -> list[str]:
    """The events of sessions; their tasks run in this process."""
    events: list[str] = []

    @contextmanager
    def session(name: str, master: str | None, options: Any) -> Any:
        events.append(f"started for {name} on {master}")
        yield SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=7))
        events.append("stopped")

    monkeypatch.setattr(spark_on_demand, "spark_session", session)
    monkeypatch.setattr(backfill_spark, "SparkRunner", lambda spark: rig.HereRunner())
    monkeypatch.setattr("stratalog.spark.environment.hadoop_settings.s3a_of_session", lambda spark: {})
    return events


@pytest.mark.parametrize(("cores", "expected"), [(None, 7), (3, 3)])
def test_one_session_for_all_that_is_to_be_converted(
    told: list[str], tmp_path: Path, archive_in: Any, batches: Any, rig: Any, cores: int | None, expected: int
) -> None:
    """Started when there is something, with its cores; a look that finds nothing starts none, and one that fails neither."""
    archive = archive_in(f"file://{tmp_path / 'archive'}")
    archive.add("orders", 0, batches(0, 50))
    settings = rig.settings(archive, str(tmp_path / "lake"))
    with ExitStack() as stack:
        spark = SparkOnDemand(stack, "local[2]", {}, cores)
        with pytest.raises(Unknown):
            spark.prepare(rig.settings(archive, str(tmp_path / "lake"), "nothing"))
        assert told == []
        prepared = spark.prepare(settings)
        assert prepared.core_count == expected
        assert backfill(prepared, spark).rows == 50
        assert backfill(spark.prepare(settings), spark).runs == 0
        assert told == ["started for stratalog backfill on local[2]"]
    assert told[-1] == "stopped"
    with ExitStack() as stack:
        spark = SparkOnDemand(stack, None, {}, cores)
        assert backfill(spark.prepare(settings), spark).runs == 0
        archive.add("orders", 0, batches(50, 10))
        assert backfill(settings, spark).rows == 10  # it came after the look
    assert told[2:] == ["started for stratalog backfill on None", "stopped"]
