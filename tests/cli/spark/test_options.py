"""Shared by the commands on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from stratalog.cli.spark.options import (
    archive_options,
    pairs,
    progress_bar,
    quiet_logging,
    spark_options,
    store_options,
)


@click.command
@archive_options
@spark_options
@click.option("--option", "given", multiple=True, callback=pairs)
def command(**given: Any) -> None:
    """Tell what was given."""
    click.echo(repr(sorted(given.items())))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(command, ["--bucket", "file:///b", *arguments])


def test_pairs_may_be_repeated_and_hold_signs() -> None:
    """The last of one name counts; a word without a sign is refused."""
    found = run("--option", "a=1", "--option", "b=x=y", "--conf", "spark.x=2", "--master", "local[1]").output
    assert "('given', {'a': '1', 'b': 'x=y'})" in found
    assert "('spark_conf', {'spark.x': '2'})" in found
    assert "'a' is not NAME=VALUE" in run("--option", "a").output
    assert CliRunner().invoke(command, []).exit_code == 2


@pytest.mark.parametrize("url", ["file:///b", "/srv/b", "gs://b"])
def test_only_s3_has_endpoint_and_region(url: str) -> None:
    """And only those that are given."""
    assert store_options(url, "http://x", "r") == {}
    assert store_options("s3://b", "http://x", None) == {"s3.endpoint": "http://x"}


def test_progress_is_not_shown_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Updating the progress of a pipe writes nothing."""
    with progress_bar("read") as tell:
        tell(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_session_of_a_command_logs_by_our_file_unless_another_is_chosen(tmp_path: Path) -> None:
    """By an option of Java or by the folder of Spark's settings; other options of Java stay."""
    name = "spark.driver.extraJavaOptions"
    ours = quiet_logging({}, {})[name]
    assert Path(ours.removeprefix("-Dlog4j2.configurationFile=file://")).is_file()
    assert quiet_logging({name: "-Xmx1g", "spark.x": "1"}, {}) == {name: f"-Xmx1g {ours}", "spark.x": "1"}
    assert quiet_logging({name: "-Dlog4j2.configurationFile=mine"}, {}) == {name: "-Dlog4j2.configurationFile=mine"}
    assert quiet_logging({}, {"SPARK_CONF_DIR": str(tmp_path)}) == {name: ours}
    (tmp_path / "log4j2.properties").touch()
    assert quiet_logging({}, {"SPARK_CONF_DIR": str(tmp_path)}) == {}
