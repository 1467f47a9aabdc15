"""`stratalog.tier.stores.direct_file`: the same bytes with and without the page cache, whatever the file system can do."""

import errno
import fcntl
import os
import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.tier.stores import direct_file
from stratalog.tier.stores.direct_file import PIECE_BYTES, DirectFile, read_pieces


def write(path, pieces, *, sync=False):
    """Write ``pieces``; what was yielded on the way."""
    with DirectFile(path) as file:
        seen = b"".join(bytes(part) for data in pieces for part in file.append(data))
        file.finish(sync=sync)
    return seen


def read(path, size_bytes=None):
    fd = os.open(path, os.O_RDONLY)
    try:
        return b"".join(
            bytes(part) for part in read_pieces(fd, os.fstat(fd).st_size if size_bytes is None else size_bytes)
        )
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    "size_bytes", [0, 1, 4095, 4096, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 4097, 3 * PIECE_BYTES + 5]
)
def test_written_bytes_are_read_back(tmp_path, size_bytes):
    """Borders of blocks and pieces are no borders of content."""
    data = os.urandom(size_bytes)
    assert write(tmp_path / "one", [data], sync=True) == data
    assert (tmp_path / "one").read_bytes() == data
    assert read(tmp_path / "one") == data


@pytest.mark.story
@given(st.lists(st.integers(0, 2 * PIECE_BYTES), max_size=5), st.integers(0, 1 << 32))
@settings(max_examples=20, deadline=None)
def test_slices_of_any_sizes_are_joined(tmp_path_factory, sizes, seed):
    """The pieces of the disk have nothing to do with those of the caller."""
    dice = random.Random(seed)
    slices = [dice.randbytes(size) for size in sizes]
    path = tmp_path_factory.mktemp("direct") / "file"
    assert write(path, slices) == path.read_bytes() == read(path) == b"".join(slices)


def without_direct(real, fd, *arguments):
    """A transfer on a file system that takes the flag and then knows no direct transfers."""
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
        raise OSError(errno.EINVAL, "no direct transfers")
    return real(fd, *arguments)


def without_flag(real, fd, command, *flags):
    """fcntl on a file system that does not even take the flag."""
    if command == fcntl.F_SETFL and flags[0] & os.O_DIRECT:
        raise OSError(errno.EINVAL, "no direct transfers")
    return real(fd, command, *flags)


@pytest.mark.parametrize(
    ("module", "call", "replacement"),
    [(fcntl, "fcntl", without_flag), (os, "write", without_direct), (os, "preadv", without_direct)],
)
def test_without_direct_transfers_the_page_cache_serves(tmp_path, monkeypatch, module, call, replacement):
    """Some file systems refuse the flag, some the first transfer."""
    data = os.urandom(2 * PIECE_BYTES + 77)
    with monkeypatch.context() as patch:
        patch.setattr(module, call, partial(replacement, getattr(module, call)))
        write(tmp_path / "one", [data])
        assert read(tmp_path / "one") == data
    assert (tmp_path / "one").read_bytes() == data


def test_a_device_of_larger_blocks_gets_its_last_bytes_through_the_page_cache(tmp_path, monkeypatch):
    """The rest at the end need not be a multiple of its block."""
    real = os.write

    def write_blocks(fd, data):
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT and len(data) % (64 << 10):
            raise OSError(errno.EINVAL, "not whole blocks")
        return real(fd, data)

    monkeypatch.setattr(direct_file.os, "write", write_blocks)
    data = os.urandom(PIECE_BYTES + 3 * 4096 + 77)
    write(tmp_path / "one", [data])
    assert (tmp_path / "one").read_bytes() == data


def test_short_writes_are_finished(tmp_path, monkeypatch):
    """Also one that ends inside a block, where a direct transfer cannot go on."""
    real = os.write
    monkeypatch.setattr(direct_file.os, "write", lambda fd, data: real(fd, data[: max(4096, len(data) // 3)]))
    data = os.urandom(2 * PIECE_BYTES + 77)
    write(tmp_path / "blocks", [data])
    assert (tmp_path / "blocks").read_bytes() == data
    monkeypatch.setattr(direct_file.os, "write", lambda fd, data: _write_odd(real, fd, data))
    write(tmp_path / "odd", [data])
    assert (tmp_path / "odd").read_bytes() == data


def _write_odd(real, fd, data):
    """Only through the page cache can part of a block be written."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_DIRECT)
    try:
        return real(fd, data[: max(1, len(data) - 1001)])
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def test_a_full_disk_is_heard(tmp_path, monkeypatch):
    """Only EINVAL means that direct transfers are unknown."""

    def full(fd, data):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(direct_file.os, "write", full)
    with pytest.raises(OSError, match="no space left"):
        write(tmp_path / "one", [bytes(2 * PIECE_BYTES)])


@pytest.mark.parametrize("size_bytes", [10, PIECE_BYTES + 10])
def test_a_file_that_is_too_short_is_an_error(tmp_path, size_bytes):
    """Published files never shrink: the disk has failed."""
    (tmp_path / "one").write_bytes(bytes(size_bytes))
    with pytest.raises(OSError, match=f"ended at byte {size_bytes}"):
        read(tmp_path / "one", size_bytes + 1)


def test_two_files_at_once_do_not_share_a_buffer(tmp_path):
    """One thread may write an object while it writes the note beside it."""
    with DirectFile(tmp_path / "outer") as outer:
        for _ in outer.append(b"o" * 1000):
            write(tmp_path / "inner", [b"i" * (PIECE_BYTES + 1)])
        outer.finish(sync=False)
    assert (tmp_path / "outer").read_bytes() == b"o" * 1000
    assert (tmp_path / "inner").read_bytes() == b"i" * (PIECE_BYTES + 1)


def test_an_existing_file_is_not_touched(tmp_path):
    """Staged files have names of their own."""
    (tmp_path / "one").write_bytes(b"there")
    with pytest.raises(FileExistsError):
        DirectFile(tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == b"there"
