"""Chunks whose files cannot be read: fetched again, and an error for readers where that does not help."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from stratalog.broker.cold.cached_reads import AGAIN_MS
from stratalog.broker.cold.remembered_errors import ERROR_MS
from stratalog.hot.storage.filesystem import RealFile, RealFilesystem
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.broker.cold.test_reader import Rig, offsets

FIRST = [0]
"""Where the batches of the first answer begin."""


class Disk:
    """The disk of a rig's chunk cache, which fails in one call as long as ``error`` is set."""

    def __init__(self, rig, tmp_path, monkeypatch, call):
        self.error = None
        self.directory = tmp_path / "cache"
        open_read, pread = RealFilesystem.open_read, RealFile.pread

        def opened(files, path):
            if call == "open" and self.error:
                raise OSError(self.error, os.strerror(self.error), path)
            return open_read(files, path)

        def read(file, *arguments):
            if call == "pread" and self.error:
                raise OSError(self.error, os.strerror(self.error))
            return pread(file, *arguments)

        monkeypatch.setattr(RealFilesystem, "open_read", opened)
        monkeypatch.setattr(RealFile, "pread", read)
        self.close_all = rig.chunks._open.clear

    def fail(self, error):
        self.error = error
        self.close_all()  # more than 256 chunks do the same

    def files(self):
        return sorted(path.name for path in Path(self.directory).iterdir())


@pytest.fixture
def rig(tmp_path):
    """An archive with its first object in the cache."""
    rig = Rig(tmp_path)
    assert offsets(rig.read(0, 500)) == FIRST
    rig.sent.clear()
    return rig


@pytest.mark.parametrize("call", ["open", "pread"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOTDIR, errno.EISDIR, errno.ESTALE])
def test_a_chunk_whose_file_cannot_be_read_is_fetched_again(rig, tmp_path, monkeypatch, call, error):
    """The reader goes on, and the file is gone: it may be the only bad one."""
    disk = Disk(rig, tmp_path, monkeypatch, call)
    before = disk.files()
    disk.fail(error)
    assert rig.remote.read("r", 2, 500) is None
    disk.error = None
    assert offsets(rig.read(2, 500)) == FIRST
    assert rig.sent == ["FillChunks"]
    assert len(disk.files()) == len(before)
    assert disk.files() != before


@pytest.mark.parametrize("call", ["open", "pread"])
def test_a_disk_that_fails_again_is_an_error_with_the_path(rig, tmp_path, monkeypatch, call):
    """For the readers of the next seconds, without a request to the bucket; then it is tried once more."""
    disk = Disk(rig, tmp_path, monkeypatch, call)
    disk.fail(errno.EIO)
    for _ in range(3):
        with pytest.raises(
            KafkaError, match=r"the file .*/cache/.* cannot be read: Input/output error; check"
        ) as failed:
            rig.read(2, 500)
        assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert rig.sent == ["FillChunks"]
    rig.now_ms += ERROR_MS
    with pytest.raises(KafkaError):
        rig.read(2, 500)
    assert rig.sent == ["FillChunks"] * 2
    disk.error = None
    rig.now_ms += ERROR_MS
    assert offsets(rig.read(2, 500)) == FIRST


def test_a_failure_of_long_ago_does_not_count(rig, tmp_path, monkeypatch):
    """Another one is a reason to fetch the chunk again."""
    disk = Disk(rig, tmp_path, monkeypatch, "open")
    for _ in range(2):
        disk.fail(errno.EIO)
        assert rig.remote.read("r", 2, 500) is None
        disk.error = None
        assert offsets(rig.read(2, 500)) == FIRST
        rig.now_ms += AGAIN_MS


def test_a_file_that_was_cut_short_is_fetched_again(rig, tmp_path):
    """It is damage of the cache, and not of the log."""
    for path in (tmp_path / "cache").iterdir():
        os.truncate(path, 10)
    assert offsets(rig.read(2, 500)) == FIRST
    assert rig.sent == ["FillChunks"]


def test_a_process_without_descriptors_costs_no_chunk(rig, tmp_path, monkeypatch):
    """The file is sound: readers get an error, and the chunk stays."""
    disk = Disk(rig, tmp_path, monkeypatch, "open")
    before = disk.files()
    disk.fail(errno.EMFILE)
    with pytest.raises(KafkaError, match="Too many open files"):
        rig.read(2, 500)
    disk.error = None
    rig.now_ms += ERROR_MS
    assert offsets(rig.read(2, 500)) == FIRST
    assert (rig.sent, disk.files()) == ([], before)
