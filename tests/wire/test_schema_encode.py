"""The compiled encoder: lengths, nulls, tags, parts. Sources: Kafka's protocol guide, KIP-482, KIP-893."""

import pytest

from stratalog.wire.errors import Invalid
from stratalog.wire.parts import FileSlice
from stratalog.wire.schema import (
    Bool,
    EncodedList,
    EncodeError,
    Int8,
    Int32,
    Int64,
    Message,
    Records,
    Struct,
    Uuid,
    decode,
    element_encoder,
    encode,
    encode_bytes,
    encoder,
    field,
    layout,
)
from stratalog.wire.schema_encode import encoder_source


class Item(Struct):
    number: Int32 = field(3)
    name: str = field()


class Text(Message, versions=(0, 1), flexible=1):
    must: str
    may: str | None = field()


class Lists(Message, versions=(0, 1), flexible=1):
    items: list[Item] | None = field([])
    flags: list[Bool] = field()
    uuids: list[Uuid] = field()


class Tagged(Message, versions=(0, 1), flexible=0):
    number: Int8 = field()
    item: Item | None = field(tag=1)
    word: str | None = field("w", tag=0)
    ids: list[Int32] = field(since=1, tag=200)
    maybe: list[Int32] | None = field(tag=3)
    uuid: Uuid = field(tag=4)
    flag: Bool = field(True, tag=5)


class Nullable(Message, versions=(0, 1), flexible=1):
    item: Item | None
    after: Int8 = field()


class Chunk(Struct):
    position: Int64
    data: Records | None


class Carry(Message, versions=(0, 1), flexible=1):
    chunks: list[Chunk]


class Old(Message, versions=(0, 1), flexible=1):
    name: str | None = field(compact=False)


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 16382, 16383, 16384, 32767])
def test_text_lengths(length):
    """Lengths are right on both sides of every border of the varint."""
    text = Text(must="x" * length, may="y" * length)
    for version in (0, 1):
        assert decode(Text, version, encode_bytes(text, version)) == text
    assert encode_bytes(text, 0)[:2] == length.to_bytes(2)


def test_text_too_long():
    """The two-byte length of old text ends at 32767; compact text goes on."""
    text = Text(must="x" * 32768)
    with pytest.raises(EncodeError, match="must"):
        encode(text, 0)
    assert decode(Text, 1, encode_bytes(text, 1)) == text


def test_null():
    """Null is the length -1, or as compact value 0."""
    assert encode_bytes(Text(must=""), 0).hex() == "0000ffff"
    assert encode_bytes(Text(must=""), 1).hex() == "010000"
    assert encode_bytes(Lists(items=None), 0).hex() == "ffffffff0000000000000000"
    assert encode_bytes(Lists(items=None), 1).hex() == "00010100"


def test_lists():
    """Lists of structs, flags and uuids; a tuple will do."""
    lists = Lists(items=(Item(name="a"),), flags=[True, False], uuids=[b"\xab" * 16])
    assert encode_bytes(lists, 1).hex() == "020000000302610003010002" + "ab" * 16 + "00"


def test_nullable_struct():
    """KIP-893: 1 and the struct, or -1."""
    assert encode_bytes(Nullable(item=None, after=9), 1).hex() == "ff0900"
    assert encode_bytes(Nullable(item=Item(), after=9), 1).hex() == "010000000301000900"
    assert encode_bytes(Nullable(item=Item(), after=9), 0).hex() == "0100000003000009"


def test_tags_default():
    """A tagged field that has its default is not sent, whatever its type."""
    assert encode_bytes(Tagged(), 1).hex() == "0000"
    same = Tagged(item=Item(number=3, name=""), word="w", ids=[], maybe=None, uuid=bytes(16), flag=True)
    assert encode_bytes(same, 1).hex() == "0000"


def test_tags_sent():
    """Tagged fields that differ are sent by ascending tag with their sizes."""
    assert encode_bytes(Tagged(word="x"), 0).hex() == "000100020278"
    assert encode_bytes(Tagged(word=None), 0).hex() == "0001000100"
    assert encode_bytes(Tagged(ids=[1], word="x"), 1).hex() == "000200020278c801050200000001"
    assert encode_bytes(Tagged(item=Item(number=4)), 0).hex() == "00010106000000040100"
    assert encode_bytes(Tagged(maybe=[], flag=False), 0).hex() == "0002030101050100"
    assert encode_bytes(Tagged(uuid=b"\1" * 16), 0).hex() == "00010410" + "01" * 16


def test_tags_long():
    """The size of a tagged field may take more than one byte."""
    tagged = Tagged(word="x" * 200, ids=list(range(100)))
    assert decode(Tagged, 1, encode_bytes(tagged, 1)) == tagged


def test_tags_none():
    """A tagged list may not be null when null is not its default."""
    with pytest.raises(EncodeError, match="ids is None"):
        encode(Tagged(ids=None), 1)


def test_other_version():
    """A value that a version does not carry is left out."""
    assert encode_bytes(Tagged(ids=[1]), 0).hex() == "0000"


def test_old_length():
    """A field may keep its two-byte length in flexible versions, as the client id of request headers does."""
    assert encode_bytes(Old(name="a"), 1).hex() == "00016100"
    assert encode_bytes(Old(), 1).hex() == "ffff00"
    assert decode(Old, 1, bytes.fromhex("0001 61 00")) == Old(name="a")


@pytest.mark.parametrize("version", [0, 1])
def test_parts(tmp_path, version):
    """Records stand between joined stretches; several parts stay in order; empty ones vanish."""
    with (tmp_path / "log").open("wb+") as file:
        slice_ = FileSlice(file, 0, 200)
        view = memoryview(b"view")
        carry = Carry(
            chunks=[
                Chunk(position=1, data=slice_),
                Chunk(position=2, data=None),
                Chunk(position=3, data=b""),
                Chunk(position=4, data=[b"one", slice_, b"", view]),
                Chunk(position=5, data=bytearray(b"last")),
            ]
        )
        parts = encode(carry, version)
    assert [parts.index(slice_), len(parts)] == [1, 8 + (version == 1)]
    assert parts[1] is slice_
    assert parts[3] == b"one"
    assert parts[4] is slice_
    assert parts[5] is view
    assert parts[7] == b"last"
    flat = b"".join(bytes(200) if part is slice_ else bytes(part) for part in parts)
    chunks = decode(Carry, version, flat).chunks
    assert [chunk.position for chunk in chunks] == [1, 2, 3, 4, 5]
    lengths = [None if chunk.data is None else len(chunk.data) for chunk in chunks]
    assert lengths == [200, None, 0, 207, 4]


def test_no_parts():
    """A message without a byte has no part."""

    class Nothing(Message, versions=(0, 0)):
        pass

    assert encode(Nothing(), 0) == []


def test_reuse():
    """An encoder keeps nothing between calls, also after an error."""
    write = encoder(Text, 1)
    with pytest.raises(EncodeError):
        write(Text(must=None))
    assert write(Text(must="a")) == write(Text(must="a")) == [b"\x02a\x00\x00"]


def test_fused_writes():
    """A run of numbers and an empty tag section are one pack."""

    class Run(Message, versions=(0, 0), flexible=0):
        a: Int32 = field()
        b: Int64 = field()
        c: Uuid = field()
        d: Bool = field()

    source, _ = encoder_source(layout(Run, 0), 0)
    assert source.count("add(") == 1
    assert "p_iq16sbx(" in source
    assert encode_bytes(Run(a=1, b=2, c=b"\3" * 16, d=True), 0).hex() == "000000010000000000000002" + "03" * 16 + "0100"


class Row(Struct):
    number: Int32
    items: list[Item] = field()


class Rows(Message, versions=(0, 1), flexible=1):
    before: Int32 = field(7)
    rows: list[Row]
    tail: str = field("end")


def drained(steps):
    """The result of a generator, and how often it paused."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_structs_encoded_one_by_one_make_the_same_bytes(version, count):
    """An encoded list stands for the list of its structs; its chunks are parts of their own."""
    rows = [Row(number=number, items=[Item(name="x" * number)] * (number % 300)) for number in range(count)]
    encode_row = element_encoder(Rows, version, "rows")
    encoded = EncodedList()
    for row in rows:
        encoded.add(drained(encode_row(row))[0])
    encoded.close()
    assert encoded.row_count == count
    assert all(len(chunk) < 200_000 for chunk in encoded)
    parts = encode(Rows(rows=encoded), version)
    assert b"".join(parts) == encode_bytes(Rows(rows=rows), version)
    assert encoded.size_bytes == sum(map(len, encoded))


def test_the_encoder_of_a_large_struct_pauses():
    """Between the structs of its lists, so that one of many thousands holds nothing up."""
    row = Row(number=1, items=[Item(name="a")] * 20_000)
    parts, pauses = drained(element_encoder(Rows, 1, "rows")(row))
    assert pauses > 5
    assert max(map(len, parts)) < 64 << 10


def test_only_lists_of_structs_have_an_encoder_of_their_elements():
    """A wrong name or version is a mistake in our own code, and says so."""
    with pytest.raises(Invalid, match="Rows v1 has no list of structs called tail"):
        element_encoder(Rows, 1, "tail")
    with pytest.raises(Invalid, match="versions 0 to 1"):
        element_encoder(Rows, 2, "rows")


def test_a_struct_that_cannot_be_encoded_names_the_field():
    """As a whole message does."""
    with pytest.raises(EncodeError, match="number"):
        drained(element_encoder(Rows, 1, "rows")(Row(number=1 << 40)))


def test_a_fault_beside_an_encoded_list_is_found():
    """The encoded structs are not looked at again."""
    encoded = EncodedList()
    encoded.add(drained(element_encoder(Rows, 1, "rows")(Row(number=1)))[0])
    encoded.close()
    with pytest.raises(EncodeError, match="tail"):
        encode(Rows(rows=encoded, tail=None), 1)
