"""Stores by URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.spark.archive_store import open_archive
from stratalog.tier.stores.store import NotFound
from stratalog.wire.errors import Invalid


def test_one_url_is_opened_once(tmp_path: Path) -> None:
    """A path and its ``file:`` URL are both understood; the options belong to what is remembered."""
    (tmp_path / "a b").mkdir()
    store = open_archive(f"{tmp_path}/a b", {})
    assert open_archive(f"{tmp_path}/a b", {}) is store
    assert store.url == f"file://{tmp_path}/a%20b"


def test_options_of_s3_for_a_directory_are_refused(tmp_path: Path) -> None:
    """The message names the first of them."""
    with pytest.raises(Invalid, match=r"option 's3.region' has no meaning for the archive"):
        open_archive(f"file://{tmp_path}", {"s3.region": "eu-central-1"})


def test_a_directory_that_is_not_there_is_made_only_on_demand(tmp_path: Path) -> None:
    """Reading an archive never makes one."""
    with pytest.raises((NotFound, FileNotFoundError, Invalid)):
        open_archive(f"file://{tmp_path}/new", {})
    open_archive(f"file://{tmp_path}/new", {}, create=True)
    assert (tmp_path / "new").is_dir()
