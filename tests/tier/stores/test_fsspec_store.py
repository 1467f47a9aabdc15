from __future__ import annotations

import uuid
from datetime import datetime

import pytest

from stratalog.tier.stores.fsspec_store import UNKNOWN_TIME_MS, FsspecStore, _modified_ms, what_to_install
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.opening import open_store
from stratalog.tier.stores.probe import probe
from stratalog.tier.stores.store import (
    PreconditionFailed,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    UnsafeStore,
    UnsupportedOperation,
)


def test_it_is_read_only_unless_asked(tmp_path):
    """Every write is refused with advice; reads of an archive written by another store work."""
    writer = LocalStore(str(tmp_path), sync=False)
    writer.put("a/k", b"12345")
    reader = FsspecStore(f"file://{tmp_path}")
    version = reader.get("a/k")[1]
    for write in (
        lambda: reader.put("a/k", b"2"),
        lambda: reader.put_if_absent("a/n", b"2"),
        lambda: reader.compare_and_swap("a/k", b"2", version),
        lambda: reader.put_large("a/n", b"2", part_bytes=1),
        lambda: reader.delete_many(["a/k"]),
    ):
        with pytest.raises(UnsupportedOperation, match=r"stratalog\.bucket\.single\.writer"):
            write()
    assert reader.get("a/k")[0] == b"12345"
    assert reader.get_suffix("a/k", 2) == (b"45", 5)
    assert [info.key for info in reader.list("a/")] == ["a/k"]


def test_other_writers_are_seen_at_once(tmp_path):
    """No listing or size is cached: an archive grows while it is read."""
    writer = LocalStore(str(tmp_path), sync=False)
    reader = FsspecStore(f"file://{tmp_path}")
    assert reader._fs is not FsspecStore(f"file://{tmp_path}")._fs
    assert not reader._fs.dircache.use_listings_cache
    for number in range(3):
        writer.put(f"k{number}", b"x" * number)
        writer.put("grows", b"y" * number)
        assert len(list(reader.list("k"))) == number + 1
        assert reader.head("grows").size_bytes == number


def test_bytes_never_have_a_newer_version_than_their_own(tmp_path, monkeypatch):
    """Another process writes between the two requests of a read: the version that was read is not the present one."""
    writer = LocalStore(str(tmp_path), sync=False)
    writer.put("k", b"old")
    store = FsspecStore(f"local://{tmp_path}", single_writer=True)
    read = store._fs.cat_file

    def overtaken(path):
        data = read(path)
        writer.put("k", b"newer")
        return data

    with monkeypatch.context() as patch:
        patch.setattr(store._fs, "cat_file", overtaken)
        data, version = store.get("k")
    assert data == b"old"
    with pytest.raises(PreconditionFailed):
        store.compare_and_swap("k", b"mine", version)
    assert store.get("k")[1] != version


def test_the_probe_refuses_it_to_many_writers(fsspec_store):
    """It may serve only a single writer, however well it behaves in the probe."""
    report = probe(fsspec_store)
    report.require(multi_writer=False)
    with pytest.raises(UnsafeStore, match="no promise to more than one writer"):
        report.require(multi_writer=True)


def test_times_of_any_file_system_are_understood():
    """Seconds, datetimes with and without zone and ISO text all mean Unix milliseconds; none means never old."""
    assert _modified_ms({"mtime": 1.5}) == 1500
    assert _modified_ms({"updated": "1970-01-01T00:00:02+00:00"}) == 2000
    assert _modified_ms({"LastModified": datetime(1970, 1, 1, 0, 0, 3)}) == 3000  # noqa: DTZ001
    assert _modified_ms({"size": 5}) == UNKNOWN_TIME_MS


@pytest.mark.parametrize("folder", ["", "topics", "topics/a"])
@pytest.mark.parametrize(("raised", "kind"), [(PermissionError("no"), StoreDenied), (OSError("eh"), StoreUnavailable)])
def test_a_folder_that_cannot_be_listed_is_no_empty_one(tmp_path, monkeypatch, folder, raised, kind):
    """A listing is whole or an error, at every depth: a part of a bucket must never pass for the whole."""
    (tmp_path / "topics" / "a" / "0").mkdir(parents=True)
    (tmp_path / "topics" / "a" / "0" / "manifest.json").write_bytes(b"{}")
    reader = FsspecStore(f"file://{tmp_path}")
    assert [info.key for info in reader.list("")] == ["topics/a/0/manifest.json"]
    listing = reader._fs.ls

    def ls(path, **options):
        if path.rstrip("/") == f"{tmp_path}/{folder}".rstrip("/"):
            raise raised
        return listing(path, **options)

    monkeypatch.setattr(reader._fs, "ls", ls)
    with pytest.raises(kind):
        list(reader.list(""))


def test_a_server_that_does_not_answer_is_no_empty_bucket():
    """No server listens on port 1: that is an error, also in a file system that lists by itself."""
    reader = FsspecStore("http://127.0.0.1:1/archive")
    with pytest.raises(StoreUnavailable):
        list(reader.list("topics/"))


def test_errors_of_the_file_system_are_translated(fsspec_store, monkeypatch):
    """Callers see `StoreDenied`, `StoreUnavailable` or `StoreError`, with the library's own error as the cause."""
    for raised, kind in (
        (PermissionError("no"), StoreDenied),
        (OSError("eh"), StoreUnavailable),
        (RuntimeError("?"), StoreError),
    ):

        def fail(*_, raised=raised, **__):
            raise raised

        monkeypatch.setattr(fsspec_store._fs, "info", fail)
        with pytest.raises(kind) as caught:
            fsspec_store.get("k")
        assert caught.value.__cause__ is raised


def test_unknown_schemes_say_what_to_install():
    """A scheme that fsspec does not know is refused with a way out, and passwords are not repeated."""
    with pytest.raises(UnsupportedOperation, match=r"stratalog\[fsspec\]") as caught:
        open_store("nosuch://user:hush@host/path")
    assert "hush" not in str(caught.value)


def test_urls_with_deep_paths_work():
    """Keys are relative to the URL's path, and neighbours of it are not seen."""
    base = f"memory://{uuid.uuid4().hex}"
    store = open_store(f"{base}/one/archive/", single_writer=True)
    neighbour = open_store(f"{base}/one/archive2", single_writer=True)
    store.put("a/k", b"1")
    neighbour.put("a/other", b"2")
    assert [info.key for info in store.list("")] == ["a/k"]
    assert [info.key for info in open_store(f"{base}/one").list("archive")] == ["archive/a/k", "archive2/a/other"]


def test_the_advised_package_depends_on_the_scheme():
    """Google's and Azure's have extras of ours, others are named by their own manuals."""
    assert what_to_install("gs://bucket/x") == "stratalog[gcs]"
    assert what_to_install("abfs://container@account/x") == what_to_install("az://c/x") == "stratalog[azure]"
    assert what_to_install("sftp://host/x").startswith("stratalog[fsspec] and")
