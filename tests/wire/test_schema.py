"""Declared messages as classes, and the functions that encode and decode them."""

import copy
import pickle

import pytest

from stratalog.wire.errors import Invalid
from stratalog.wire.parts import FileSlice
from stratalog.wire.schema import (
    DecodeError,
    EncodeError,
    Int8,
    Int32,
    Int64,
    Message,
    Records,
    Struct,
    decode,
    decoder,
    encode,
    encode_bytes,
    encoder,
    field,
    layout,
)


class Partition(Struct):
    index: Int32
    epoch: Int32 = field(-1, since=4)
    ids: list[Int32] = field()


class Ask(Message, api_key=2, versions=(1, 6), flexible=6):
    replica_id: Int32
    isolation: Int8 = field(since=2)
    partitions: list[Partition]


class Carry(Message, versions=(0, 0)):
    before: Int64 = field()
    records: Records | None
    after: Int8 = field()


def test_declared_class():
    """A declaration is a class with slots and keyword-only arguments."""
    ask = Ask(replica_id=-1, partitions=[Partition(index=1)])
    assert [own.name for own in Ask.fields_declared] == ["replica_id", "isolation", "partitions"]
    assert not hasattr(ask, "__dict__")
    with pytest.raises(AttributeError):
        ask.replica = 3
    with pytest.raises(TypeError):
        Ask(-1, [])
    with pytest.raises(TypeError, match="partitions"):
        Ask(replica_id=-1)


def test_declared_options():
    """Key, versions and the first flexible version belong to the class."""
    assert (Ask.api_key, Ask.versions, Ask.flexible_since) == (2, (1, 6), 6)
    assert Carry.api_key == -1
    assert not layout(Carry, 0).flexible


def test_equality():
    """Messages are equal by type and fields, can be changed and have no hash."""
    one, two = Partition(index=1), Partition(index=1)
    assert one == two
    two.epoch = 5
    assert one != two
    assert one != (1, -1, [])
    with pytest.raises(TypeError):
        hash(one)


def test_repr():
    """A message prints as the call that makes it."""
    assert repr(Partition(index=1, ids=[2])) == "Partition(index=1, epoch=-1, ids=[2])"


def test_copy_and_pickle():
    """Messages can be copied and sent to another process, with a list of their own."""
    one = Partition(index=1, ids=[2])
    for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        other.ids.append(3)
        assert one.ids == [2]


def test_declared_on_top_of_another():
    """Fields are not inherited: a struct that would lose those of its base is refused where it is declared."""
    with pytest.raises(TypeError, match="More: a struct cannot be declared on top of another one with fields"):

        class More(Partition):
            extra: Int8


@pytest.mark.parametrize("version", [0, 7, -1])
def test_version_outside(version):
    """A version outside the declared range is refused by name and range."""
    for function in (decoder, encoder, layout):
        with pytest.raises(Invalid, match=f"Ask has versions 1 to 6, not {version}"):
            function(Ask, version)


def test_compiled_once():
    """Decoders and encoders are compiled on first use and kept."""
    assert decoder(Ask, 3) is decoder(Ask, 3)
    assert encoder(Ask, 3) is encoder(Ask, 3)
    assert decoder(Ask, 3) is not decoder(Ask, 4)


def test_versions_differ():
    """Each version carries its own fields; the others read as defaults."""
    ask = Ask(replica_id=5, isolation=1, partitions=[Partition(index=7, epoch=9, ids=[1])])
    assert encode_bytes(ask, 1).hex() == "0000000500000001000000070000000100000001"
    assert encode_bytes(ask, 4).hex() == "00000005010000000100000007000000090000000100000001"
    assert encode_bytes(ask, 6).hex() == "000000050102000000070000000902000000010000"
    assert decode(Ask, 1, encode_bytes(ask, 1)) == Ask(replica_id=5, partitions=[Partition(index=7, ids=[1])])
    assert decode(Ask, 6, encode_bytes(ask, 6)) == ask


def test_decode_position():
    """decode() starts at a position and does not look at what follows."""
    carry = Carry(before=1, records=b"xy", after=3)
    assert decode(Carry, 0, b"___" + encode_bytes(carry, 0) + b"rest", 3) == carry


def test_encode_parts(tmp_path):
    """Records are parts of their own; everything around them is joined."""
    with (tmp_path / "log").open("wb+") as file:
        slice_ = FileSlice(file, 10, 300)
        parts = encode(Carry(before=1, records=slice_, after=3), 0)
        assert parts == [bytes(7) + b"\x01" + (300).to_bytes(4), slice_, b"\x03"]
        with pytest.raises(EncodeError, match="file slice"):
            encode_bytes(Carry(records=slice_), 0)


def test_errors_are_invalid():
    """Both errors blame the giver of the bytes or the object."""
    assert issubclass(DecodeError, Invalid)
    assert issubclass(EncodeError, Invalid)


def test_struct_default():
    """A struct that a version lacks reads as a fresh struct of defaults."""

    class Spot(Struct):
        x: Int32 = field(4)

    class Places(Message, versions=(0, 1)):
        many: list[Int32] = field(since=1)
        spot: Spot = field(since=1)

    one, two = decode(Places, 0, b""), decode(Places, 0, b"")
    assert one == Places() == Places(many=[], spot=Spot(x=4))
    assert one.spot is not two.spot
    assert one.many is not two.many
    assert Places().many is not Places().many


class Inner(Struct):
    number: Int32
    texts: list[str]


class Held(Message, api_key=1, versions=(0, 0), flexible=0):
    inner: Inner | None = field(tag=3, presence=True)


@pytest.mark.parametrize(
    ("inner", "written"),
    [
        (None, "01 03 01 00"),
        (Inner(number=0, texts=[]), "01 03 07 01 00000000 01 00"),
        (Inner(number=1, texts=["a"]), "01 03 09 01 00000001 02 0261 00"),
    ],
)
def test_a_tagged_struct_with_a_presence_byte_is_always_sent(inner, written):
    """One that is empty is not null."""
    data = encode_bytes(Held(inner=inner), 0)
    assert data == bytes.fromhex(written)
    assert decode(Held, 0, data).inner == inner


@pytest.mark.parametrize("data", ["01 03 00", "01 03 02 00 00", "01 03 01 01", "01 03 07 02 00000000 01 00"])
def test_a_presence_byte_without_its_struct_is_an_error(data):
    """Or one that is neither of the two."""
    with pytest.raises(DecodeError):
        decode(Held, 0, bytes.fromhex(data))
