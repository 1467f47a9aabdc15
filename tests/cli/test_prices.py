"""Which bucket is meant, and whose prices count."""

from __future__ import annotations

import pytest

from stratalog.cli.output import HttpUnanswered
from stratalog.cli.prices import find_bucket, find_prices, tell_prices
from stratalog.wire.errors import Invalid


def test_the_option_comes_first() -> None:
    """No broker is asked."""
    assert find_bucket("s3://b", "127.0.0.1:1") == "s3://b"


def test_else_the_broker_tells_its_bucket(live_broker) -> None:
    """By its HTTP side."""
    assert find_bucket(None, live_broker.http) == f"file://{live_broker.home}/bucket"


def test_without_either_both_are_named() -> None:
    """The error says what to do."""
    with pytest.raises(HttpUnanswered, match=r"Give --http HOST:PORT. Or give --bucket URL"):
        find_bucket(None, "127.0.0.1:1")


def test_prices_come_from_the_file_or_from_ours(tmp_path) -> None:
    """By the URL, or by name."""
    mine = tmp_path / "mine.toml"
    mine.write_text('[mine]\nschemes = ["s3"]\n')
    assert find_prices(None, None, "s3://b").name == "aws-s3-standard"
    assert find_prices(str(mine), None, "s3://b").name == "mine"
    assert find_prices(None, "gcs-standard", "file:///x").name == "gcs-standard"
    assert find_prices(None, None, "file:///x") is None


def test_a_file_of_prices_that_is_no_text_is_named(tmp_path) -> None:
    """It is a usage error, not a traceback."""
    mine = tmp_path / "mine.toml"
    mine.write_bytes(b'[mine]\ntitle = "caf\xe9"\n')
    with pytest.raises(Invalid, match=r"mine\.toml is no UTF-8"):
        find_prices(str(mine), None, "s3://b")


def test_the_source_of_prices_is_printed(capsys) -> None:
    """No note is printed for a store that asks for no money."""
    tell_prices(find_prices(None, None, "s3://b"), "s3://b")
    tell_prices(None, "abfs://b")
    tell_prices(None, "file:///b")
    told = capsys.readouterr().err.splitlines()
    assert ["aws-s3-standard" in told[0], "No price table fits abfs://b" in told[1], len(told)] == [True, True, 2]
