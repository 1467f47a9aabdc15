"""The cache's files: whole or not there, counted, and none of a stranger's touched."""

from __future__ import annotations

import errno
import os

import pytest

from stratalog.tier.messages.commands import ScanCache
from stratalog.tier.reading.cache_files import free_bytes_beside, is_disk_full, scan_cache, write_chunk_file


def test_a_chunk_is_whole_or_not_there(tmp_path, monkeypatch):
    """A file half written when the disk was full is removed."""
    write_chunk_file(str(tmp_path / "a"), memoryview(b"abc"), sync=True)
    assert (tmp_path / "a").read_bytes() == b"abc"

    def refuse(descriptor, data):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(OSError, match="full") as refused:
        write_chunk_file(str(tmp_path / "b"), memoryview(b"abc"), sync=False)
    assert is_disk_full(refused.value)
    assert not is_disk_full(OSError(errno.EIO, "broken"))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_files_are_found_in_the_order_in_which_they_were_written(tmp_path):
    """Directories and links are not files of the cache; a directory that is missing is made."""
    for age, name in ((3, "new"), (1, "old"), (2, "middle")):
        (tmp_path / name).write_bytes(b"x" * age)
        os.utime(tmp_path / name, (age, age))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "old")
    found = scan_cache(None, ScanCache(str(tmp_path)))
    assert found.files == (("old", 1), ("middle", 2), ("new", 3))
    assert found.free_bytes > 0
    assert scan_cache(None, ScanCache(str(tmp_path / "not" / "yet"))).files == ()
    assert (tmp_path / "not" / "yet").is_dir()


def test_free_bytes_are_those_this_process_may_write(tmp_path, monkeypatch):
    """Blocks that the system keeps for its owner are not counted."""
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((4096, 512, 1000, 900, 700, 0, 0, 0, 0, 255)))
    assert free_bytes_beside(str(tmp_path)) == 700 * 512
