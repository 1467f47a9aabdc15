"""The command ``compact``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from stratalog.cli.main import cli
from stratalog.cli.spark import compact as cli_compact
from stratalog.cli.spark import main as spark_main
from stratalog.cli.spark import rewrite as cli_rewrite
from stratalog.spark.jobs import compact as job
from stratalog.tier.manifests.jobs import JobRefused


@pytest.fixture
def store(rewrite_rig: Any, growing_archive: Any) -> Any:
    rewrite_rig.archive(growing_archive.store, rewrite_rig.make_history(1))
    return growing_archive.store


def run(store: Any, *arguments: str) -> Any:
    return CliRunner().invoke(cli, ["compact", "--bucket", store.url, "--topic", "t", "--any-policy", *arguments])


def test_one_command_by_three_names() -> None:
    """``stratalog compact``, ``python -m stratalog.spark compact`` and the program for spark-submit."""
    found = cli.get_command(None, "compact")  # type: ignore[arg-type]
    assert found is not None
    assert found.params is cli_compact.compact.params
    assert job.main is spark_main.main
    with pytest.raises(SystemExit) as ended:
        spark_main.main(["compact", "--help"])
    assert ended.value.code == 0


def test_a_compaction_without_spark(rewrite_rig: Any, store: Any) -> None:
    """A dry run first; then the records go, and a second run finds nothing new."""
    history = rewrite_rig.make_history(1)
    dry = run(store, "--without-spark", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "records would go" in dry.stdout
    assert "The bucket is unchanged" in dry.stdout
    assert rewrite_rig.rows_of(store) == history.rows
    row = json.loads(run(store, "--without-spark", "--json").stdout)
    assert (row["topic"], row["kind"], row["dry_run"], row["clean_offsets"]) == (
        "t",
        "compact",
        False,
        {"0": history.offset},
    )
    assert rewrite_rig.rows_of(store) == history.newest()
    assert run(store, "--without-spark").stdout == "t: nothing new in the archive.\n"
    again = run(store, "--without-spark", "--again")
    assert "objects became" in again.stdout


@pytest.mark.story
@pytest.mark.spark
def test_a_compaction_on_spark(
    rewrite_rig: Any, store: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session is stopped in the end."""
    stopped = []
    monkeypatch.setattr(cli_rewrite, "spark_session", lambda name, master, options: spark)

    def stop(self: Any) -> None:
        stopped.append(self)

    monkeypatch.setattr(type(spark), "stop", stop)
    found = run(store)
    assert found.exit_code == 0, found.output
    assert "records went" in found.stdout
    assert stopped == [spark]
    assert rewrite_rig.rows_of(store) == rewrite_rig.make_history(1).newest()


def test_an_impossible_run_is_refused_with_the_reason(
    rewrite_rig: Any, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, and why on stderr; a topic that is not compacted is refused, and nothing is listed."""
    refused = CliRunner().invoke(cli, ["compact", "--bucket", store.url, "--topic", "t", "--without-spark"])
    assert refused.exit_code != 0
    assert rewrite_rig.manifest_of(store).jobs == ()
    monkeypatch.setattr("stratalog.spark.rewrite.plan.OBJECTS_MAX", 1)
    monkeypatch.setattr("stratalog.spark.rewrite.group.live_range", _changed)
    found = run(store, "--without-spark")
    assert found.exit_code == 1
    assert "Left as it was: another job is at work" in found.stderr


def _changed(*_: object) -> None:
    raise JobRefused("another job is at work")
