"""Wire types and unsigned varints (KIP-482)."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.wire.parts import FileSlice
from stratalog.wire.primitives import (
    SMALL_VARINTS,
    DecodeError,
    EncodeError,
    list_packer,
    read_unsigned_varint,
    records_length,
    unsigned_varint,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**31 - 1, "ffffffff07"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_varint_known(value, encoded):
    """Seven bits a byte, lowest first."""
    assert unsigned_varint(value).hex() == encoded
    assert read_unsigned_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=4))
def test_varint_round_trip(value, before):
    """A varint is read back from any position, with the position behind it."""
    encoded = before + unsigned_varint(value)
    assert read_unsigned_varint(encoded + b"\xff", len(before)) == (value, len(encoded))
    assert read_unsigned_varint(memoryview(encoded), len(before)) == (value, len(encoded))


@pytest.mark.parametrize(
    "encoded", [b"", b"\x80", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x1f"]
)
def test_varint_refused(encoded):
    """A varint that is cut off, longer than five bytes or larger than 32 bits is refused."""
    with pytest.raises(DecodeError):
        read_unsigned_varint(encoded, 0)


@pytest.mark.parametrize("value", [-1, 2**32])
def test_varint_range(value):
    """A number that does not fit 32 bits is not written."""
    with pytest.raises(EncodeError, match=str(value)):
        unsigned_varint(value)


def test_small_varints():
    """The table holds every varint of one byte."""
    assert list(SMALL_VARINTS) == [unsigned_varint(value) for value in range(128)]


def test_list_packer():
    """A list format is one value repeated, big-endian, and is compiled once."""
    assert list_packer("i", 3).pack(1, 2, 3) == Struct(">iii").pack(1, 2, 3)
    assert list_packer("q", 0).size == 0
    assert list_packer("h", 4) is list_packer("h", 4)


def test_records_length(tmp_path):
    """Records are measured as one part or as a list of parts, file slices included."""
    with (tmp_path / "log").open("wb+") as file:
        slice_ = FileSlice(file, 0, 7)
        assert records_length(b"abc") == 3
        assert records_length(memoryview(b"ab")) == 2
        assert records_length(slice_) == 7
        assert records_length([b"abc", slice_, bytearray(2)]) == 12


@pytest.mark.parametrize("wrong", ["text", 3, None, [1]])
def test_records_length_wrong(wrong):
    """An object that is no part has no length."""
    with pytest.raises(TypeError):
        records_length(wrong)
