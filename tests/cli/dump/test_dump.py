"""A file's name says its kind."""

from __future__ import annotations

import pytest

from stratalog.cli.dump.dump import UnknownKind, dump
from stratalog.tier.stores.opening import open_store
from stratalog.tier.stores.store import NotFound

BASE = "00000000000000000100"


def rows(target, **options) -> list[dict]:
    """All rows of a dump."""
    return list(dump(str(target), **options))


def test_a_name_that_says_nothing_is_refused(tmp_path) -> None:
    """With the names that are known; a missing file is missing."""
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UnknownKind, match=r"meta\.properties"):
        rows(tmp_path / "notes.txt")
    with pytest.raises(FileNotFoundError):
        rows(tmp_path / f"{BASE}.log")
    with pytest.raises(IsADirectoryError, match="name one file"):
        rows(tmp_path)


@pytest.mark.parametrize("form", ["{path}", "file://{path}"])
def test_a_path_and_its_url_are_the_same_file(tmp_path, three_batches, form) -> None:
    """Blanks in a URL are escaped."""
    folder = tmp_path / "with space"
    folder.mkdir()
    (folder / f"{BASE}.log").write_bytes(three_batches[0])
    path = f"{folder}/{BASE}.log"
    target = form.format(path=path if form == "{path}" else path.replace(" ", "%20"))
    assert [row["what"] for row in rows(target)] == ["batch", "summary"]


@pytest.mark.parametrize("name", [f"{BASE}.log.deleted", f"{BASE}.log.cleaned"])
def test_a_file_on_its_way_out_is_still_read(tmp_path, three_batches, name) -> None:
    """The name begins as the segment's."""
    (tmp_path / name).write_bytes(three_batches[0])
    assert rows(tmp_path / name)[-1]["records"] == 3


def test_a_file_in_a_bucket_is_read_like_a_local_one(tmp_path, three_batches, monkeypatch) -> None:
    """A copy of a segment's log under any store; a missing one is missing."""
    store = open_store(f"file://{tmp_path}/bucket")
    store.put(f"copies/{BASE}.log", three_batches[0])
    monkeypatch.setattr("stratalog.cli.dump.dump.open_store", lambda url, **_options: store)
    assert [row["what"] for row in rows(f"s3://backup/copies/{BASE}.log")] == ["batch", "summary"]
    with pytest.raises(NotFound):
        rows(f"s3://backup/copies/{BASE}.index")
