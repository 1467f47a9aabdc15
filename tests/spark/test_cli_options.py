"""What the commands on Spark share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from stratalog.spark.cli_options import (
    Size,
    archive_options,
    pairs,
    progress_bar,
    quiet_logging,
    size_text,
    spark_options,
    store_options,
    write_table,
)


@click.command
@archive_options
@spark_options
@click.option("--size", type=Size(), default="1KiB")
@click.option("--option", "given", multiple=True, callback=pairs)
def command(**given: Any) -> None:
    """Tell what was given."""
    click.echo(repr(sorted(given.items())))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(command, ["--bucket", "file:///b", *arguments])


def test_sizes_have_units() -> None:
    """Binary ones, in any spelling; anything else is refused."""
    sizes = {"1": 1, "256MiB": 256 << 20, "1g": 1 << 30, "2 kb": 2048, "3T": 3 << 40}
    for text, size in sizes.items():
        assert f"('size', {size})" in run("--size", text).output
    wrong = run("--size", "many")
    assert (wrong.exit_code, "'many' is no size: write 256MiB" in wrong.output) == (2, True)


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


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers at the right, nothing as a dash, no blanks at the end."""
    write_table([{"a": "x", "b": 1, "c": 5}, {"a": "yyy", "b": 200, "c": None}], {"a": "A", "b": "B", "c": "LONG"})
    assert capsys.readouterr().out == "A      B  LONG\nx      1     5\nyyy  200     -\n"


def test_progress_is_not_shown_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is told."""
    with progress_bar("read") as tell:
        tell(1, 2)
    assert capsys.readouterr() == ("", "")


def test_sizes_are_told_in_a_unit_that_fits() -> None:
    """A small archive is not nothing."""
    sizes = {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 19: "1.5 MiB", 3 << 30: "3,072.0 MiB"}
    assert {size_bytes: size_text(size_bytes) for size_bytes in sizes} == sizes


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
