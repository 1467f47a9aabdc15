from __future__ import annotations

import sys

import pytest

from stratalog.cli.bucket import Progress, open_bucket
from stratalog.tier.stores.store import NotFound, UnsupportedOperation


def test_a_directory_that_does_not_exist_is_not_made(tmp_path):
    """A misspelt path is an error, not an empty bucket."""
    with pytest.raises(NotFound):
        open_bucket(f"file://{tmp_path}/nowhere", None, None)
    assert not (tmp_path / "nowhere").exists()


def test_options_go_to_the_store_that_has_them():
    """S3 gets endpoint and region; what is no URL is refused."""
    store = open_bucket("s3://bucket/prefix", "http://127.0.0.1:1", "eu-central-1")
    assert "bucket" in store.url
    with pytest.raises(UnsupportedOperation):
        open_bucket("bucket", None, None)


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    """The line comes at most once a second, and never where the output is no terminal."""
    quiet = Progress("looked at")
    quiet.add(10)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    loud = Progress("looked at")
    for _ in range(3):
        loud.add(1024)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(loud, "_told_s", float("-inf"))
    loud.add(1024)
    loud.add(1024)
    assert capsys.readouterr().err == "looked at: 4 objects, 4.0 KiB read …\n"
    assert (quiet.object_count, quiet.size_bytes, loud.object_count) == (1, 10, 5)
