from __future__ import annotations

import os
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.stores import source_reader
from stratalog.tier.stores.source_reader import SourceReader
from stratalog.tier.stores.store import FileRange
from stratalog.wire.errors import Corrupt

pieces_of = st.lists(st.tuples(st.booleans(), st.integers(0, 90), st.integers(0, 60)), max_size=6)


@pytest.fixture(scope="module")
def file_path(tmp_path_factory):
    """A file of 200 bytes, no two neighbours alike."""
    path = tmp_path_factory.mktemp("source") / "data"
    path.write_bytes(bytes(range(200)))
    return str(path)


@given(pieces_of, st.integers(-1, 50), st.integers(0, 200))
def test_buffers_and_files_are_read_like_one_file(file_path, pieces, size, start):
    """From anywhere, in pieces, again after a step back."""
    data = bytes(range(200))
    source = [
        FileRange(file_path, begin, length) if is_file else data[begin : begin + length]
        for is_file, begin, length in pieces
    ]
    whole = b"".join(data[begin : begin + length] for _, begin, length in pieces)
    with pytest.MonkeyPatch.context() as patch, SourceReader(source) as reader:
        patch.setattr(source_reader, "PIECE_BYTES", 32)
        assert len(reader) == reader.seek(0, os.SEEK_END) == len(whole)
        assert reader.seek(start) == reader.tell() == min(start, len(whole))
        read = []
        while size and (piece := reader.read(size)):
            assert size < 0 or len(piece) <= 32
            read.append(bytes(piece))
        assert b"".join(read) == (whole[start:] if size else b"")
        at = reader.tell()
        assert reader.seek(-3, os.SEEK_CUR) == reader.tell() == max(0, at - 3)


def test_the_crc_is_that_of_a_whole_pass(file_path):
    """After a retry from the start it is counted anew."""
    source = [b"head", FileRange(file_path, 10, 100), memoryview(b"tail")]
    with SourceReader(source) as reader:
        reader.read(4)
        reader.seek(0)
        whole = reader.read()
        assert reader.crc32c == crc32c(whole)
        assert whole == b"head" + bytes(range(10, 110)) + b"tail"


def test_memory_is_not_counted_again():
    """Buffers alone have no CRC of their own here."""
    with SourceReader([b"head", b"tail"]) as reader:
        assert reader.read() == b"headtail"
        assert reader.crc32c is None


def test_more_may_come_than_was_asked_for(file_path):
    """A client that asks for little at a time is not slowed down by that."""
    with SourceReader([FileRange(file_path, 0, 200)]) as reader:
        assert len(reader.read(10)) == 200
        assert reader.read(10) == b""


def test_a_file_shorter_than_its_range_is_corrupt(file_path):
    """The message names the file and both positions."""
    with SourceReader([FileRange(file_path, 190, 20)]) as reader:
        reader.read(100)
        with pytest.raises(Corrupt, match="ends at byte 200, the range to upload goes to 210"):
            reader.read(100)


def test_no_file_stays_open(file_path):
    """Neither at the end nor when it is left in the middle."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    with SourceReader([FileRange(file_path, 0, 5), b"x", FileRange(file_path, 0, 5)]) as reader:
        reader.read(1)
        assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
    assert len(list(Path("/proc/self/fd").iterdir())) == before
