"""The directory store: several processes, crashes between its steps, and what lies on the disk."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.source import SourceUnreadable
from stratalog.tier.stores.store import (
    AlreadyExists,
    ChecksumMismatch,
    FileRange,
    InvalidKey,
    NotFound,
    PreconditionFailed,
    StoreDenied,
    StoreUnavailable,
)

SPAWN = multiprocessing.get_context("spawn")


class PowerLossError(Exception):
    """Stands for the end of the process at one step."""


def files_below(root):
    """Return the paths of all files below a directory, relative to it."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def count_and_create(root, start, wins):
    """Count to 50 by compare_and_swap and try to create twenty keys; for a process of its own."""
    store = LocalStore(root, sync=False)
    start.wait()
    for number in range(20):
        try:
            store.put_if_absent(f"race/{number}", str(os.getpid()).encode())
        except AlreadyExists:
            continue
        wins.put(number)
    steps = 50
    while steps:
        data, version = store.get("counter")
        try:
            store.compare_and_swap("counter", b"%d" % (int(data) + 1), version, metadata={"pid": str(os.getpid())})
        except PreconditionFailed:
            continue
        steps -= 1


@pytest.mark.story
def test_several_processes_share_a_directory(tmp_path):
    """Three processes lose no update of one counter and share out the creations, one winner each."""
    store = LocalStore(str(tmp_path), sync=False)
    store.put("counter", b"0")
    start, wins = SPAWN.Barrier(3), SPAWN.Queue()
    processes = [SPAWN.Process(target=count_and_create, args=(str(tmp_path), start, wins)) for _ in range(3)]
    for process in processes:
        process.start()
    won = sorted(wins.get(timeout=60) for _ in range(20))
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert won == list(range(20))
    assert wins.empty()
    assert store.get("counter")[0] == b"150"
    assert int(store.head("counter").metadata["pid"]) in {process.pid for process in processes}


def test_objects_are_plain_files(tmp_path):
    """The path below the root is the key and the file's bytes are the object's, with ordinary permissions."""
    store = LocalStore(str(tmp_path))
    store.put("topics/orders/manifest.json", b"{}", metadata={"writer": "1"})
    store.put_large("topics/orders/x.seg", [b"a", b"b"], part_bytes=1)
    assert (tmp_path / "topics/orders/manifest.json").read_bytes() == b"{}"
    assert (tmp_path / "topics/orders/x.seg").read_bytes() == b"ab"
    assert (tmp_path / "topics/orders/x.seg").stat().st_mode & 0o777 == 0o666 & ~current_umask()
    assert store.url == f"file://{tmp_path}"


def current_umask():
    """Return the process's umask."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_that_cannot_be_read_is_no_fault_of_the_store(local_store, tmp_path):
    """It lies on another disk, as a rule; the error has its path."""
    source = [b"head", FileRange(str(tmp_path / "gone.log"), 0, 10)]
    with pytest.raises(SourceUnreadable) as raised:
        local_store.put_if_absent("k", source)
    assert raised.value.filename == str(tmp_path / "gone.log")
    with pytest.raises(SourceUnreadable):
        local_store.put_large("k", source, part_bytes=1000)
    assert list(local_store.list("")) == []


def test_no_staged_file_remains(local_store):
    """Writes that succeed, that are refused and that fail leave nothing in the staging directory."""
    root = local_store._files.root
    version = local_store.put("k", b"1", metadata={"a": "b"})
    with pytest.raises(AlreadyExists):
        local_store.put_if_absent("k", b"2")
    with pytest.raises(PreconditionFailed):
        local_store.compare_and_swap("k", b"2", "other")
    with pytest.raises(ChecksumMismatch):
        local_store.put("k", b"2", crc32c=1)
    with pytest.raises(InvalidKey):
        local_store.put("k/below", b"2")
    local_store.compare_and_swap("k", b"3", version)
    assert not list((root / ".stratalog" / "tmp").iterdir())


def test_a_key_and_one_below_it_cannot_both_be(local_store):
    """The store says so in either order, and keeps what was there."""
    local_store.put("a", b"1")
    local_store.put("d/e", b"2")
    for key in ("a/b", "d"):
        with pytest.raises(InvalidKey, match="cannot hold both"):
            local_store.put(key, b"3")
    with pytest.raises(AlreadyExists):
        local_store.put_if_absent("d", b"3")
    local_store.delete_many(["d"])
    assert [info.key for info in local_store.list("")] == ["a", "d/e"]


def test_a_crash_between_metadata_and_object_keeps_the_old_pair(local_store, monkeypatch):
    """If the process dies after the sidecar and before the object, the old object still has its own metadata."""
    version = local_store.put("k", b"old", metadata={"n": "1"})

    def die(*_):
        raise PowerLossError

    with monkeypatch.context() as patch:
        patch.setattr(local_store._files, "replace", die)
        for turn in range(3):
            with pytest.raises(PowerLossError):
                local_store.put("k", b"new %d" % turn, metadata={"n": "2"})
    info = local_store.head("k")
    assert (info.version, info.metadata) == (version, {"n": "1"})
    local_store.compare_and_swap("k", b"new", version, metadata={"n": "3"})
    assert local_store.head("k").metadata == {"n": "3"}


def test_head_follows_a_replacement(local_store, monkeypatch):
    """A head that read old bytes whose metadata is gone by now starts again and describes the new object."""
    local_store.put("k", b"old", metadata={"n": "1"})
    read = local_store._files.read_metadata

    def replace_first(key, version):
        monkeypatch.setattr(local_store._files, "read_metadata", read)
        local_store.put("k", b"new", metadata={"n": "2"})
        local_store.put("k", b"newest", metadata={"n": "3"})
        return read(key, version)

    monkeypatch.setattr(local_store._files, "read_metadata", replace_first)
    info = local_store.head("k")
    assert (info.size_bytes, info.metadata) == (6, {"n": "3"})


def test_metadata_goes_with_its_object(local_store):
    """No state of a deleted object comes back with a later one of the same bytes."""
    local_store.put("k", b"same", metadata={"n": "1"})
    local_store.delete_many(["k"])
    assert not any("metadata" in path for path in files_below(local_store._files.root))
    local_store.put_if_absent("k", b"same")
    assert local_store.head("k").metadata == {}


def test_head_reads_what_is_on_the_disk_now(local_store):
    """Damage done to the file after it was written shows in version and CRC-32C."""
    local_store.put("k", b"12345")
    before = local_store.head("k")
    path = local_store._files.path("k")
    path.write_bytes(b"12346")
    after = local_store.head("k")
    assert after.crc32c != before.crc32c
    assert after.version != before.version


def test_foreign_files_are_not_listed(local_store):
    """Names that no key can have, and the store's own files, do not appear."""
    root = local_store._files.root
    local_store.put("a", b"")
    (root / ".DS_Store").write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(root) + b"/bad\xff")).touch()
    assert [info.key for info in local_store.list("")] == ["a"]


def test_a_missing_directory_is_an_error_for_readers(tmp_path):
    """Without leave to create, a wrong path is not an empty archive."""
    with pytest.raises(NotFound, match="Check the path"):
        LocalStore(str(tmp_path / "nowhere"), create=False)
    assert not (tmp_path / "nowhere").exists()
    LocalStore(str(tmp_path / "new" / "archive"))
    assert (tmp_path / "new" / "archive").is_dir()


def test_a_reader_writes_nothing(tmp_path):
    """Opened without leave to create, reads of every kind leave the directory as it was."""
    LocalStore(str(tmp_path), sync=False).put("a/k", b"123")
    before = files_below(tmp_path)
    reader = LocalStore(str(tmp_path), create=False)
    assert reader.get("a/k")[0] == b"123"
    assert reader.head("a/k").size_bytes == 3
    assert [info.key for info in reader.list("")] == ["a/k"]
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StoreUnavailable),
        (errno.EIO, StoreUnavailable),
        (errno.EROFS, StoreDenied),
        (errno.EACCES, StoreDenied),
    ],
)
def test_system_errors_have_their_kind(local_store, monkeypatch, number, kind):
    """A full disk may be emptied, a read-only one stays; either way the message names key and cause."""

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(local_store._files, "stage", fail)
    with pytest.raises(kind, match=f"put 'k'.*{os.strerror(number)}"):
        local_store.put("k", b"")


@pytest.mark.story
@given(st.sets(st.text("ab-./é", min_size=1, max_size=5), max_size=8), st.text("ab-./é", max_size=3))
def test_the_listing_is_the_sorted_set(tmp_path_factory, names, after):
    """Any set of names that a directory can hold is listed in byte order, from any key on."""
    store = LocalStore(str(tmp_path_factory.mktemp("list")), sync=False)
    kept = set()
    for name in sorted(names):
        try:
            store.put(name, b"")
        except InvalidKey:
            continue
        kept.add(name)
    assert [info.key for info in store.list("")] == sorted(kept, key=str.encode)
    expected = sorted((name for name in kept if name.encode() > after.encode()), key=str.encode)
    assert [info.key for info in store.list("", after)] == expected
