"""Directories and stores as targets."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from stratalog.spark.ledger.target import DirectoryTarget, ObjectTarget, Target, open_target
from stratalog.tier.stores.source import crc32c_of
from stratalog.tier.stores.store import NotFound
from stratalog.wire.errors import Invalid


@pytest.fixture(params=["directory", "store"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    url = str(tmp_path / "lake") if request.param == "directory" else f"memory:{uuid.uuid4().hex}"
    return open_target(url, {})


def staged(target: Target, key: str, data: bytes) -> tuple[int, int]:
    path = target.new_path(key.rpartition("/")[0] + "/")
    path.write_bytes(data)
    found = target.stage(path, key)
    assert not path.exists()
    return found


def test_a_file_is_staged_and_published(target: Target) -> None:
    """Twice each, as attempts that are repeated do; what is published has the bytes and the CRC that were told."""
    for _ in range(2):
        assert staged(target, "_s/run/a/b.parquet", b"data") == (4, crc32c_of(b"data"))
    target.publish("_s/run/a/b.parquet", "a/b.parquet")
    target.publish("_s/run/a/b.parquet", "a/b.parquet")
    assert target.store.get("a/b.parquet")[0] == b"data"
    target.remove_folder("_s/run/")
    target.publish("_s/run/a/b.parquet", "a/b.parquet")
    assert [info.key for info in target.store.list("")] == ["a/b.parquet"]


def test_a_file_in_neither_place_is_reported(target: Target) -> None:
    """A staged file that was removed by hand."""
    with pytest.raises(NotFound, match=r"a\.parquet"):
        target.publish("_s/run/a.parquet", "a.parquet")


def test_folders_are_found_and_removed(target: Target) -> None:
    """Those right below a prefix; removing what is not there is nothing."""
    staged(target, "_s/1/x", b"1")
    staged(target, "_s/2/y/z", b"2")
    assert target.folders("_s/") == {"1", "2"}
    target.remove_folder("_s/1/")
    target.remove_folder("_s/9/")
    target.remove(["_s/2/y/z", "_s/none"])
    assert [info.key for info in target.store.list("_s/")] == []
    assert target.folders("none/") == set()


def test_a_directory_s_files_are_readable_by_others(tmp_path: Path) -> None:
    """They have the mode of any new file, and a relative path means this process's directory."""
    target = open_target(str(tmp_path / "lake"), {})
    assert isinstance(target, DirectoryTarget)
    assert not target.is_there()
    staged(target, "_s/x", b"1")
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "lake/_s/x").stat().st_mode == plain.stat().st_mode
    assert target.is_there()
    assert open_target(target.url, {}).url == target.url
    assert open_target("somewhere", {}).url.endswith("/somewhere")


def test_urls_that_name_no_target_are_refused() -> None:
    """Another machine's directory; options of S3 for a directory."""
    for url, options in (("file://elsewhere/x", {}), ("/x", {"s3.region": "here"})):
        with pytest.raises(Invalid, match="is no directory to write to"):
            open_target(url, options)
    assert isinstance(open_target("memory:t", {}), ObjectTarget)


def test_a_file_in_the_way_is_reported_at_once(tmp_path: Path) -> None:
    """Before Spark is asked for anything, whose tasks would fail one after the other."""
    (tmp_path / "file").touch()
    for url in (tmp_path / "file", tmp_path / "file" / "below" / "it"):
        with pytest.raises(Invalid, match=f"cannot be written to: {tmp_path}/file is no directory"):
            open_target(str(url), {})
