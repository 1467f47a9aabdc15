"""Shared by the commands that rewrite archives."""

from __future__ import annotations

import click
import pytest

from stratalog.cli.spark.rewrite import Duration, completed_options, read_options, rewriter_of, tell, told_on_terminal
from stratalog.spark.rewrite.rewriter import HereRewriter
from stratalog.spark.rewrite.summary import RewriteSummary
from stratalog.wire.errors import Invalid


@pytest.mark.parametrize(("text", "expected"), [("90s", 90_000), ("7d", 604_800_000), ("5ms", 5), (17, 17)])
def test_times_have_units(text: str, expected: int) -> None:
    """As people write them."""
    assert Duration().convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["5 weeks", "7", "-1d", ""])
def test_a_time_without_unit_is_refused(text: str) -> None:
    """A bare number may be meant as days or as milliseconds."""
    with pytest.raises(click.BadParameter, match="is no time: write 90s"):
        Duration().convert(text, None, None)


def test_the_bucket_is_reached_as_by_the_source() -> None:
    """Its own options, and those of S3."""
    given = {"bucket": "s3://b/p", "endpoint_url": "http://x", "region": None, "source_options": {"s3.access-key": "k"}}
    read = read_options(given, "orders")
    assert read.archive == "s3://b/p"
    assert dict(read.store_options) == {"s3.endpoint": "http://x", "s3.access-key": "k"}
    assert read.subscription.topics == ("orders",)
    with pytest.raises(Invalid, match="one topic at a time: orders, refunds"):
        read_options(given, "orders,refunds")


def test_open_options_are_taken_from_the_session() -> None:
    """In Hadoop's words; what the command says counts more."""
    given = {"bucket": "s3://b/p", "endpoint_url": "http://x", "region": None, "source_options": {}}
    read = read_options(given, "orders")
    said = {"endpoint": "http://y", "access.key": "k", "secret.key": "s"}
    found = completed_options(read, said).store_options
    assert (found["s3.endpoint"], found["s3.access-key"], found["s3.secret-key"]) == ("http://x", "k", "s")
    assert completed_options(read, {}) is read


def test_a_small_archive_needs_no_spark() -> None:
    """Then this process does it."""
    alone = {"without_spark": True, "master": None, "spark_conf": {}}
    with rewriter_of(alone, "compact") as (rewriter, cores, s3a):
        assert isinstance(rewriter, HereRewriter)
        assert cores >= 1
        assert s3a == {}


@pytest.mark.parametrize("given", [{"master": "local[2]"}, {"spark_conf": {"spark.ui.enabled": "false"}}])
def test_settings_of_a_session_are_refused_where_there_shall_be_none(given: dict[str, object]) -> None:
    """They would do nothing."""
    alone = {"without_spark": True, "master": None, "spark_conf": {}}
    with pytest.raises(Invalid, match="drop one of them"), rewriter_of({**alone, **given}, "compact"):
        pass


def test_progress_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe there is no bar."""
    with told_on_terminal("orders") as told:
        told.planned(100, 50)
        told.moved(30)
        told.moved(40)
        assert (told._done_bytes, told._total_bytes) == (70, 150)
    assert capsys.readouterr().err == ""


def test_the_rest_is_printed_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr."""
    summary = RewriteSummary("t", "compact", objects=3, records=10, records_kept=4, refused=["a"], failed=["b"])
    tell(summary, 1.0, dry_run=False, as_json=False)
    told = capsys.readouterr()
    assert told.out.startswith("t: 6 of 10 records went; ")
    assert told.err == "Left as it was: b\nLeft as it was: a\n"
