"""The compiled decoder: bounds, nulls, text, tags. Sources: Kafka's protocol guide, KIP-482, KIP-893."""

import tracemalloc

import pytest

from stratalog.wire.schema import (
    Bool,
    DecodeError,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    ReceivedRecords,
    Struct,
    Uint16,
    Uint32,
    Uuid,
    decode,
    decoder,
    field,
    layout,
)
from stratalog.wire.schema_decode import decoder_source


class Item(Struct):
    number: Int32
    name: str


class Numbers(Message, versions=(0, 1), flexible=1):
    flag: Bool
    small: Int8
    short: Int16
    port: Uint16
    unsigned: Uint32
    long: Int64
    ratio: Float64
    uuid: Uuid


class Text(Message, versions=(0, 1), flexible=1):
    must: str
    may: str | None


class Lists(Message, versions=(0, 1), flexible=1):
    items: list[Item]
    numbers: list[Int32] | None = field()
    flags: list[Bool] = field()
    uuids: list[Uuid] = field()
    words: list[str] = field()


class Blobs(Message, versions=(0, 1), flexible=1):
    blob: bytes
    records: ReceivedRecords | None


class Tagged(Message, versions=(0, 1), flexible=0):
    number: Int8
    item: Item | None = field(tag=1)
    word: str | None = field("w", tag=0)
    ids: list[Int32] = field(since=1, tag=70)


class Nullable(Message, versions=(0, 1), flexible=1):
    item: Item | None
    after: Int8


class Pair(Struct):
    left: Int8


class Pairs(Message, versions=(0, 0), flexible=0):
    pairs: list[Pair]


def refused(cls, version, data, match):
    with pytest.raises(DecodeError, match=match):
        decode(cls, version, bytes.fromhex(data.replace(" ", "")))


def test_numbers():
    """Numbers are big-endian, signed unless named otherwise; any byte but zero is true."""
    data = bytes.fromhex("05 ff fffe ffff ffffffff 8000000000000000 3ff8000000000000") + bytes(range(16))
    expected = Numbers(
        flag=True, small=-1, short=-2, port=65535, unsigned=2**32 - 1, long=-(2**63), ratio=1.5, uuid=bytes(range(16))
    )
    assert decode(Numbers, 0, data) == expected
    assert decode(Numbers, 1, data + b"\0") == expected


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_buffers(buffer):
    """Any buffer is read; bytes fields are copied out of it, records are views of it."""
    blobs = decode(Blobs, 0, buffer(bytes.fromhex("00000002 6162 00000003 636465")))
    assert type(blobs.blob) is bytes
    assert blobs.blob == b"ab"
    assert type(blobs.records) is memoryview
    assert blobs.records == b"cde"


def test_records_not_copied():
    """Records stay where they were received: a change in the buffer shows."""
    frame = bytearray.fromhex("00000000 00000003 636465")
    blobs = decode(Blobs, 0, frame)
    frame[-1] = 0x7A
    assert blobs.records == b"cdz"


def test_text():
    """Text has a two-byte length, or as compact text a varint of one more than the length."""
    assert decode(Text, 0, bytes.fromhex("0002 c3a9 ffff")) == Text(must="é", may=None)
    assert decode(Text, 1, bytes.fromhex("03 c3a9 00 00")) == Text(must="é", may=None)
    assert decode(Text, 1, bytes.fromhex("01 01 00")) == Text(must="", may="")
    long = "x" * 300
    assert decode(Text, 1, b"\xad\x02" + long.encode() + b"\xad\x02" + long.encode() + b"\0") == Text(
        must=long, may=long
    )


@pytest.mark.parametrize(
    "data", ["0002 c328 0000", "0003 eda080 0000", "0001 ff 0000", "0004 f4908080 0000", "0002 c080 0000"]
)
def test_text_strict(data):
    """Text that is not UTF-8 is refused: bad sequences, surrogates, overlong forms."""
    refused(Text, 0, data, "Text v0: text before byte 2 is not UTF-8")


@pytest.mark.parametrize(
    ("cls", "version", "data", "match"),
    [
        (Text, 0, "ffff 0000", "must is null"),
        (Text, 1, "00 01 00", "must is null"),
        (Lists, 0, "ffffffff", "items is null"),
        (Lists, 1, "00", "items is null"),
        (Lists, 1, "01 00 00", "flags is null"),
        (Blobs, 0, "ffffffff", "blob is null"),
        (Blobs, 1, "00 00 00", "blob is null"),
    ],
)
def test_null_refused(cls, version, data, match):
    """Null where no null is allowed names the field."""
    refused(cls, version, data, match)


@pytest.mark.parametrize(
    ("cls", "version", "data", "match"),
    [
        (Text, 0, "8000", "must claims -32768 bytes"),
        (Text, 0, "0001 61 fffe", "may claims -2 bytes"),
        (Text, 0, "0005 6161", "must claims 5 bytes at byte 2 of 4"),
        (Text, 1, "ffffffff0f 61", "must claims 4294967294 bytes"),
        (Blobs, 0, "7fffffff 61", "blob claims 2147483647 bytes"),
        (Blobs, 0, "00000000 fffffffe", "records claims -2 bytes"),
        (Lists, 0, "80000000", "items claims -2147483648 elements"),
        (Lists, 0, "7fffffff 000000", "items claims 2147483647 elements"),
        (Lists, 0, "00000000 fffffffe", "numbers claims -2 elements"),
        (Lists, 1, "ffffffff0f 000000", "items claims 4294967294 elements"),
        (Text, 1, "ffffffffff01 61", "larger than 32 bits"),
    ],
)
def test_length_refused(cls, version, data, match):
    """A length that is negative or reaches beyond the message names the field."""
    refused(cls, version, data, match)


def test_count_against_bytes():
    """A count is held against the bytes left, by the smallest element: seven bytes hold one item of six, not two."""
    assert len(decode(Lists, 0, bytes.fromhex("00000001 00000007 0000 ffffffff 00000000 00000000 00000000")).items) == 1
    refused(Lists, 0, "00000002 00000007 0000 00000000", "items claims 2 elements")


def test_lists():
    """Lists of numbers, flags, uuids and text."""
    data = "01 03 00000001 ffffffff 03 0001 02" + "ab" * 16 + "03 0261 01 00"
    assert decode(Lists, 1, bytes.fromhex(data)) == Lists(
        items=[], numbers=[1, -1], flags=[False, True], uuids=[b"\xab" * 16], words=["a", ""]
    )
    assert decode(Lists, 1, bytes.fromhex("01 00 01 01 01 00")).numbers is None


def test_elements_limit():
    """All lists of a message together have at most 100,000 elements, or what the caller allows."""
    data = b"\x01" + b"\xa1\x8d\x06" + bytes(4 * 100_000) + bytes.fromhex("01 01 01 00")
    assert len(decode(Lists, 1, data).numbers or ()) == 100_000
    one_more = b"\x01" + b"\xa1\x8d\x06" + bytes(4 * 100_000) + bytes.fromhex("0201 01 01 00")
    with pytest.raises(DecodeError, match="flags claims 1 elements"):
        decode(Lists, 1, one_more)
    read = decoder(Pairs, 0)
    assert len(read(bytes.fromhex("03 0100 0200 00"), 0, elements_max=2)[0].pairs) == 2
    with pytest.raises(DecodeError, match="pairs claims 2 elements"):
        read(bytes.fromhex("03 0100 0200 00"), 0, elements_max=1)


def test_nullable_struct():
    """KIP-893: a byte says whether the struct follows, below zero it does not."""
    assert decode(Nullable, 1, bytes.fromhex("ff 09 00")) == Nullable(item=None, after=9)
    assert decode(Nullable, 1, bytes.fromhex("80 09 00")) == Nullable(item=None, after=9)
    assert decode(Nullable, 1, bytes.fromhex("01 00000005 01 00 09 00")) == Nullable(
        item=Item(number=5, name=""), after=9
    )
    assert decode(Nullable, 0, bytes.fromhex("01 00000005 0000 09")) == Nullable(item=Item(number=5, name=""), after=9)


def test_tags():
    """Known tags are read in any order, unknown ones passed over, absent ones have their defaults."""
    assert decode(Tagged, 0, bytes.fromhex("07 00")) == Tagged(number=7)
    data = "07 04 46 05 02 0000000a 05 02 ffff 01 06 00000003 01 00 00 02 0278"
    read, position = decoder(Tagged, 1)(bytes.fromhex(data + "ff"))
    assert read == Tagged(number=7, item=Item(number=3, name=""), word="x", ids=[10])
    assert position == len(bytes.fromhex(data))
    assert decode(Tagged, 0, bytes.fromhex(data)).ids == []
    assert decode(Tagged, 0, bytes.fromhex("07 01 00 01 00")).word is None


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ("07 01 00 03 0278 00", "word ends at byte 6, its size says 7"),
        ("07 01 00 01 0278", "word ends at byte 6, its size says 5"),
        ("07 01 63 05 00", "tag claims 5 bytes"),
        ("07 01 63", "cut off"),
        ("07 01 01 07 00000003 01 01 63 05 00", "unknown tag of item claims 5 bytes"),
    ],
)
def test_tags_refused(data, match):
    """A tagged field must end where its size says."""
    refused(Tagged, 0, data, match)


def test_tags_limit():
    """A struct may carry 64 tags that are not known, or what the caller allows; nested structs as well."""

    def section(count):
        assert count < 127
        return bytes([count]) + b"".join(bytes([100 + index % 28, 0]) for index in range(count))

    assert decode(Tagged, 0, b"\7" + section(66)).number == 7
    with pytest.raises(DecodeError, match="the message carries 67 tagged fields"):
        decode(Tagged, 0, b"\7" + section(67))
    assert decode(Pairs, 0, b"\x02\x05" + section(64) + b"\0").pairs[0].left == 5
    with pytest.raises(DecodeError, match="pairs carries 65 tagged fields"):
        decode(Pairs, 0, b"\x02\x05" + section(65) + b"\0")
    with pytest.raises(DecodeError, match="pairs carries 2 tagged fields"):
        decoder(Pairs, 0)(b"\x02\x05" + section(2) + b"\0", 0, tags_max=1)
    with pytest.raises(DecodeError, match="carries 300 tagged fields"):
        decode(Pairs, 0, b"\x01\xac\x02")


@pytest.mark.parametrize("cls", [Numbers, Text, Lists, Blobs, Nullable])
@pytest.mark.parametrize("version", [0, 1])
def test_empty(cls, version):
    """No bytes are no message."""
    with pytest.raises(DecodeError, match=f"{cls.__name__} v{version}: the message is cut off after byte 0 of 0"):
        decode(cls, version, b"")


def test_position_beyond():
    """A position at or behind the end is refused like a message that is cut off."""
    with pytest.raises(DecodeError, match="cut off"):
        decode(Text, 0, b"\0\0\0\0", 9)


def test_bomb_memory():
    """A count of millions in a small message allocates nothing of that size."""
    bombs = [
        (Lists, 1, b"\xff\xff\xff\xff\x07" + bytes(50)),
        (Lists, 0, b"\0\0\0\0\x7f\xff\xff\xff" + bytes(50)),
        (Blobs, 0, b"\x7f\xff\xff\xff" + bytes(50)),
        (Text, 1, b"\xff\xff\xff\xff\x07" + bytes(50)),
    ]
    tracemalloc.start()
    try:
        for cls, version, data in bombs:
            with pytest.raises(DecodeError):
                decode(cls, version, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000, "other threads of the tests allocate, too; a list of that count has 16 GB"


def test_fused_reads():
    """A run of numbers, a uuid and the tag count are one read."""
    source, _ = decoder_source(layout(Numbers, 1), 1)
    assert source.count("u_ZbhHIqd16sB(b, p)") == 1
    assert source.count("(b, p)") == 1
