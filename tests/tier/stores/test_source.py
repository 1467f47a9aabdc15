from __future__ import annotations

import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.stores.source import (
    as_bytes,
    check_crc32c,
    crc32c_of,
    source_length,
    source_parts,
)
from stratalog.tier.stores.store import ChecksumMismatch, FileRange
from stratalog.wire.errors import Corrupt

PIECES = st.lists(st.one_of(st.binary(max_size=40), st.tuples(st.integers(0, 50), st.integers(0, 50))), max_size=6)


@pytest.fixture(scope="module")
def file_path(tmp_path_factory):
    """A file of a hundred different bytes."""
    path = tmp_path_factory.mktemp("source") / "file"
    path.write_bytes(bytes(range(100)))
    return str(path)


@given(PIECES, st.integers(1, 30))
def test_parts_join_to_the_whole(file_path, pieces, part_bytes):
    """Any mixture of buffers and file ranges is cut into parts of the size, the last one shorter."""
    source = [piece if isinstance(piece, bytes) else FileRange(file_path, *piece) for piece in pieces]
    expected = b"".join(
        piece if isinstance(piece, bytes) else bytes(range(100))[piece[0] : sum(piece)] for piece in pieces
    )
    parts = list(source_parts(source, part_bytes))
    assert b"".join(parts) == expected == as_bytes(source)
    assert source_length(source) == len(expected)
    assert all(len(part) == part_bytes for part in parts[:-1])
    assert all(0 < len(part) <= part_bytes for part in parts[-1:])


def test_a_file_shorter_than_its_range_is_corrupt(file_path):
    """The message names the file and both positions."""
    with pytest.raises(Corrupt, match="ends at byte 100, the range to upload goes to 110"):
        as_bytes(FileRange(file_path, 90, 20))


def test_bytes_are_not_copied():
    """One bytes object is handed on as it is; others are joined."""
    data = b"x" * 10
    assert as_bytes(data) is data
    assert as_bytes([data, memoryview(b"y")]) == data + b"y"
    assert as_bytes(memoryview(array.array("H", [1, 2]))) == array.array("H", [1, 2]).tobytes()


def test_views_of_wide_items_are_counted_in_bytes():
    """A view of 16-bit items is as long as its bytes."""
    view = memoryview(array.array("H", [1, 2, 3]))
    assert source_length(view) == 6
    assert b"".join(source_parts([view, b"z"], 4)) == view.tobytes() + b"z"


def test_checksums_are_compared_where_given():
    """The CRC-32C is returned; a different one from the caller is a mismatch that shows both."""
    assert check_crc32c("put", "k", "memory:", b"123456789", None) == 0xE3069283
    assert check_crc32c("put", "k", "memory:", b"123456789", 0xE3069283) == 0xE3069283
    with pytest.raises(ChecksumMismatch, match=r"e3069283.*00000001"):
        check_crc32c("put", "k", "memory:", b"123456789", 1)
    assert crc32c_of(b"6789", crc32c_of(b"12345")) == 0xE3069283
