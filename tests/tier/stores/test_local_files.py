"""The steps of a durable write, in order, as the system is asked for them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from stratalog.tier.stores import local_files
from stratalog.tier.stores.direct_file import PIECE_BYTES
from stratalog.tier.stores.local_files import LocalFiles, content_version
from stratalog.tier.stores.source import crc32c_of


@pytest.fixture
def trace(monkeypatch):
    """Every fsync, link and rename in order, with the name of what was synced."""
    steps = []
    real_fsync, real_link, real_replace = os.fsync, os.link, os.replace

    def fsync(descriptor):
        steps.append(("fsync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        real_fsync(descriptor)

    def link(source, target, **options):
        steps.append(("link", Path(target).name))
        real_link(source, target, **options)

    def replace(source, target):
        steps.append(("replace", Path(target).name))
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "replace", replace)
    return steps


@pytest.mark.parametrize("publish", ["link", "replace"])
def test_bytes_are_synced_before_they_are_visible_and_the_name_after(tmp_path, trace, publish):
    """The file is synced, then published, then its directory is synced; new directories were synced before."""
    files = LocalFiles(str(tmp_path / "root"), sync=True)
    staged = files.stage([b"ab", b"c"])
    assert trace[-1] == ("fsync", staged.path.name)
    del trace[:]
    getattr(files, publish)(staged, "a/b/k")
    assert trace == [("fsync", "a"), ("fsync", "root"), (publish, "k"), ("fsync", "b")]
    del trace[:]
    getattr(files, publish)(files.stage([b"x"]), "a/b/k2")
    assert trace[1:] == [(publish, "k2"), ("fsync", "b")]


def test_without_sync_nothing_is_synced(tmp_path, trace):
    """sync=False leaves the data to the page cache."""
    files = LocalFiles(str(tmp_path), sync=False)
    files.replace(files.stage([b"abc"]), "k")
    assert trace == [("replace", "k")]


def test_a_staged_file_knows_its_bytes(tmp_path):
    """Size, version and CRC-32C are those of all slices together."""
    staged = LocalFiles(str(tmp_path), sync=False).stage([b"12345", memoryview(b"6789")])
    assert staged.size_bytes == 9
    assert staged.version == content_version(b"123456789")
    assert staged.crc32c == 0xE3069283


def test_a_source_that_fails_leaves_no_staged_file(tmp_path):
    """An exception while the bytes are produced removes what was written of them."""

    def broken():
        yield b"some"
        raise ZeroDivisionError

    files = LocalFiles(str(tmp_path), sync=False)
    with pytest.raises(ZeroDivisionError):
        files.stage(broken())
    assert not list((tmp_path / ".stratalog" / "tmp").iterdir())


def test_the_lock_excludes_threads(tmp_path):
    """While one thread holds a key's lock, another waits for it; another key's lock is free."""
    files = LocalFiles(str(tmp_path), sync=False)
    order = []

    def second():
        with files.locked("k"):
            order.append("second")

    with files.locked("k"):
        thread = threading.Thread(target=second)
        thread.start()
        with files.locked("another key"):
            order.append("other key")
        order.append("first")
    thread.join()
    assert order == ["other key", "first", "second"]


def test_only_old_staged_files_are_removed(tmp_path):
    """A killed writer's file goes after a day; a running one's stays."""
    files = LocalFiles(str(tmp_path), sync=False)
    old, new = files.stage([b"old"]), files.stage([b"new"])
    os.utime(old.path, (1_000_000, 1_000_000))
    os.utime(new.path, (1_000_000 + 80_000, 1_000_000 + 80_000))
    assert files.remove_abandoned(1_000_000_000 + 86_400_001) == 1
    assert not old.path.exists()
    assert new.path.exists()
    assert LocalFiles(str(tmp_path / "fresh"), sync=False).remove_abandoned(0) == 0


def test_a_directory_removed_behind_our_back_is_made_again(tmp_path):
    """A directory known as durable that was removed by hand does not make writes fail."""
    files = LocalFiles(str(tmp_path), sync=True)
    files.replace(files.stage([b"1"]), "a/k")
    files.unlink("a/k")
    (tmp_path / "a").rmdir()
    files.replace(files.stage([b"2"]), "a/k")
    assert (tmp_path / "a" / "k").read_bytes() == b"2"


def test_a_large_object_is_read_back_from_the_disk_every_second_time(tmp_path, monkeypatch):
    """Two looks in a row at an untouched file are one; the third one, and one after a change, read again."""
    files = LocalFiles(str(tmp_path), sync=False)
    path = tmp_path / "large"
    path.write_bytes(bytes(PIECE_BYTES))
    reads = []
    real = local_files.read_pieces
    monkeypatch.setattr(local_files, "read_pieces", lambda *arguments: reads.append(1) or real(*arguments))

    def look():
        with path.open("rb") as file:
            return files.fingerprint(file.fileno(), os.fstat(file.fileno()))

    first = (content_version(bytes(PIECE_BYTES)), crc32c_of(bytes(PIECE_BYTES)))
    assert [(look(), len(reads)) for _ in range(3)] == [(first, 1), (first, 1), (first, 2)]
    path.write_bytes(b"x" * (PIECE_BYTES + 1))
    assert look() == (content_version(b"x" * (PIECE_BYTES + 1)), crc32c_of(b"x" * (PIECE_BYTES + 1)))
    assert len(reads) == 3


def test_the_oldest_of_many_large_objects_is_read_again(tmp_path, monkeypatch):
    """Bytes that were just read are kept for a few."""
    monkeypatch.setattr(local_files, "_JUST_READ_MAX", 1)
    files = LocalFiles(str(tmp_path), sync=False)
    for name in "abba":
        if not (tmp_path / name).exists():
            (tmp_path / name).write_bytes(name.encode() * PIECE_BYTES)
        with (tmp_path / name).open("rb") as file:
            version, _ = files.fingerprint(file.fileno(), os.fstat(file.fileno()))
        assert version == content_version(name.encode() * PIECE_BYTES)
    assert len(files._just_read) == 1
