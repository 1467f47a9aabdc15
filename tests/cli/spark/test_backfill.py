"""The command ``backfill``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from stratalog.cli.main import cli
from stratalog.cli.spark import backfill as cli_backfill
from stratalog.cli.spark import main as spark_main
from stratalog.cli.spark import spark_on_demand
from stratalog.cli.spark.options import session_may_know_more
from stratalog.spark.backfill.backfill import backfill
from stratalog.spark.jobs import backfill as job
from stratalog.spark.ledger.ledger_store import LedgerStore
from stratalog.spark.source.options import parse_options


@pytest.fixture
def orders(tmp_path: Path, archive_in: Any, batches: Any) -> Any:
    builder = archive_in(f"file://{tmp_path / 'archive'}")
    builder.add("orders", 0, batches(0, 50), batches(50, 50))
    return builder


def run(archive: Any, target: Path, *arguments: str) -> Any:
    return CliRunner().invoke(
        cli, ["backfill", "--bucket", archive.store.url, "--topic", "orders", "--to", str(target), *arguments]
    )


def test_one_command_by_three_names() -> None:
    """``stratalog backfill``, ``python -m stratalog.spark backfill`` and the program for spark-submit."""
    found = cli.get_command(None, "backfill")  # type: ignore[arg-type]
    assert found is not None
    assert found.params is cli_backfill.backfill.params
    assert job.main is spark_main.main
    with pytest.raises(SystemExit) as ended:
        spark_main.main(["backfill", "--help"])
    assert ended.value.code == 0
    with pytest.raises(SystemExit) as ended:
        spark_main.main(["backfil"])
    assert ended.value.code == 2
    shown = CliRunner().invoke(cli, ["backfill", "--help"]).stdout
    assert shown.startswith("Examples:\n  stratalog backfill --bucket s3://archive/prod")


def test_a_dry_run_tells_requests_bytes_tasks_and_cost(tmp_path: Path, orders: Any) -> None:
    """In words and as JSON; no Spark is started and nothing is written."""
    found = run(orders, tmp_path / "lake", "--dry-run")
    assert found.exit_code == 0
    assert "orders: 100 offsets in 1 spans, 1 tasks, 1 commits." in found.stdout
    assert "2 GETs" in found.stdout
    row = json.loads(run(orders, tmp_path / "lake", "--dry-run", "--json").stdout)
    assert (row["gets"], row["tasks"], row["puts"], row["cost"]) == (2, 1, 5, None)
    prices = tmp_path / "prices.toml"
    prices.write_text('[mine]\nschemes = ["memory"]\nwrite_per_1000 = 1000.0\nread_per_1000 = 0.5\n')
    found = CliRunner().invoke(
        cli,
        ["backfill", "--bucket", orders.store.url, "--topic", "orders", "--to", "memory:cli-dry-run", "--dry-run",
         "--prices", str(prices), "--store", "mine", "--json"],
    )  # fmt: skip
    row = json.loads(found.stdout)
    assert (row["cost"], row["target_cost"], row["currency"]) == (None, 7.0, "USD")
    assert not (tmp_path / "lake").exists()


def no_session(*_: object) -> None:
    raise AssertionError("a session was started")


def test_no_session_is_started_for_nothing(
    tmp_path: Path, orders: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a wrong topic, a wrong target, and a target that has everything; what a dead driver left is finished."""
    monkeypatch.setattr(spark_on_demand, "spark_session", no_session)
    wrong = run(orders, tmp_path / "lake", "--topic", "oders")
    assert (wrong.exit_code, "did you mean 'orders'" in wrong.stderr) == (3, True)
    settings = rig.settings(orders, str(tmp_path / "lake"))
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(LedgerStore, "publish", lambda self: None)
        assert backfill(settings, rig.HereRunner()).rows == 100
    assert list((tmp_path / "lake").glob("orders/*/*.parquet")) == []
    found = run(orders, tmp_path / "lake")
    assert (found.exit_code, found.stdout) == (0, "orders: nothing new in the archive.\n")
    assert len(list((tmp_path / "lake").glob("orders/*/*.parquet"))) == 1
    other = run(orders, tmp_path / "lake", "--partition-by", "hour")
    assert (other.exit_code, "was filled with" in other.stderr) == (2, True)
    for command in (["stats"], ["compact", "--any-policy"], ["erase", "--key", "k"]):
        found = CliRunner().invoke(cli, [*command, "--bucket", orders.store.url, "--topic", "oders"])
        assert (found.exit_code, "did you mean 'orders'" in found.stderr) == (3, True), found.output


@pytest.mark.parametrize(
    ("url", "variables", "expected"),
    [
        ("s3://b/p", ["SPARK_CONF_DIR"], True),
        ("s3://b/p", ["PYSPARK_GATEWAY_PORT"], True),
        ("s3://b/p", [], False),
        ("file:///b", ["SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"], False),
    ],
)
def test_a_session_may_know_more_of_s3(
    monkeypatch: pytest.MonkeyPatch, url: str, variables: list[str], expected: bool
) -> None:
    """Where its own files say how S3 is reached, it comes first."""
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in variables:
        monkeypatch.setenv(name, "1")
    assert session_may_know_more(parse_options({"path": url, "subscribe": "t"})) is expected


@pytest.mark.story
@pytest.mark.spark
def test_topics_are_converted_and_summed_up(
    spark: SparkSession, tmp_path: Path, orders: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Spark; once more there is nothing new; a topic that is not there is a wrong command."""
    monkeypatch.setattr(spark_on_demand, "spark_session", lambda name, master, options: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    found = run(orders, tmp_path / "lake", "--json", "--partition-by", "none")
    assert found.exit_code == 0, found.output
    row = json.loads(found.stdout)
    assert (row["topic"], row["rows"], row["files"], row["runs"]) == ("orders", 100, 1, 1)
    assert "orders: nothing new in the archive." in run(orders, tmp_path / "lake", "--partition-by", "none").stdout
    grown = run(orders, tmp_path / "lake2")
    assert "orders: 100 rows in 1 files" in grown.stdout
    missing = run(orders, tmp_path / "lake3", "--topic", "none")
    assert (missing.exit_code, "topic 'none' is not in the archive" in missing.stderr) == (3, True)


@pytest.mark.story
@pytest.mark.spark
def test_following_goes_on_until_interrupted(
    spark: SparkSession, tmp_path: Path, orders: Any, batches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that came between two looks are converted; looks that find none print nothing."""
    monkeypatch.setattr(spark_on_demand, "spark_session", lambda name, master, options: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    naps = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 1:
            orders.add("orders", 0, batches(100, 20))
        if len(naps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(cli_backfill, "sleep", nap)
    found = run(orders, tmp_path / "lake", "--follow", "7", "--json")
    assert found.exit_code == 0, found.output
    assert [json.loads(line)["rows"] for line in found.stdout.splitlines()] == [100, 20]
    assert naps == [7.0, 7.0, 7.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--file-bytes", "9GiB"), "--file-bytes is at least 1"),
        (("--file-bytes", "lots"), "'lots' is not a size"),
        (("--option", "startingOffsets"), "is not NAME=VALUE"),
        (("--option", "startingOfsets=1"), "did you mean 'startingOffsets'"),
        (("--option", "valueFormat=string"), "as they were written"),
        (("--option", "badRecords=quarantine", "--option", "badRecordsPath=/tmp/x"), "not for a backfill"),
        (("--option", "columns=value"), "option 'columns' is not for this command: files hold all columns"),
        (("--option", "maxpartitionbytes=1g"), "option 'maxpartitionbytes' is not for this command: say --task-bytes"),
        (("--topic", "orders,refunds"), "one topic at a time"),
        (("--partition-by", "day"), "no way to partition"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, orders: Any, arguments: tuple[str, ...], words: str) -> None:
    """With exit code 2, before anything is started."""
    found = run(orders, tmp_path / "lake", "--dry-run", *arguments)
    assert found.exit_code == 2
    assert words in found.stderr


def test_another_error_is_code_1(tmp_path: Path, orders: Any) -> None:
    """A damaged ledger, for one."""
    path = tmp_path / "lake/_stratalog/backfill/orders/ledger.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    found = run(orders, tmp_path / "lake", "--dry-run")
    assert (found.exit_code, "ledger.json" in found.stderr) == (1, True)
