"""Layouts: which fields a version carries, in which order, and how small they can be."""

import pytest

from stratalog.wire.schema import Int8, Int32, Int64, Message, Records, Struct, Uuid, field, layout


class Leaf(Struct):
    number: Int32
    name: str = field(since=1)


class Tree(Message, versions=(0, 3), flexible=2):
    first: Int8
    gone: Int64 = field(until=0)
    leaves: list[Leaf]
    late: str | None = field("x", since=2, tag=5)
    early: Int32 = field(since=2, tag=1)
    leaf: Leaf | None = field(since=3)
    data: Records | None = field(compact=False)


def names(slots):
    return [slot.name for slot in slots]


def test_order():
    """Fields stand in the order of the declaration, tagged ones by tag."""
    assert names(layout(Tree, 0).slots) == ["first", "gone", "leaves", "data"]
    assert names(layout(Tree, 1).slots) == ["first", "leaves", "data"]
    assert names(layout(Tree, 3).slots) == ["first", "leaves", "leaf", "data"]
    assert names(layout(Tree, 1).tagged) == []
    assert names(layout(Tree, 2).tagged) == ["early", "late"]
    assert names(layout(Tree, 3).absent) == ["gone"]


def test_flexible():
    """Lengths are compact from the first flexible version on, unless the field says otherwise."""
    assert [layout(Tree, version).flexible for version in range(4)] == [False, False, True, True]
    leaves, data = layout(Tree, 2).slots[1:]
    assert leaves.compact
    assert not data.compact


def test_paths():
    """Errors name a field by its path in the message."""
    leaves = layout(Tree, 1).slots[1]
    assert leaves.layout is not None
    assert [slot.path for slot in leaves.layout.slots] == ["leaves.number", "leaves.name"]


@pytest.mark.parametrize(
    ("version", "size_bytes"),
    [
        (0, 1 + 8 + 4 + 4),
        (1, 1 + 4 + 4),
        (2, 1 + 1 + 4 + 1),  # compact list, data with its old length, tag count
        (3, 1 + 1 + 1 + 4 + 1),  # and the flag of the nullable struct
    ],
)
def test_smallest_message(version, size_bytes):
    """The smallest size is that of a message in which nothing is."""
    assert layout(Tree, version).size_bytes_min == size_bytes


def test_smallest_values():
    """Numbers and uuids have their size, text and lists that of their length prefix."""

    class Sizes(Message, versions=(0, 1), flexible=1):
        uuid: Uuid
        text: str
        blob: bytes
        leaf: Leaf

    assert [slot.size_bytes_min for slot in layout(Sizes, 0).slots] == [16, 2, 4, 4]
    assert [slot.size_bytes_min for slot in layout(Sizes, 1).slots] == [16, 1, 1, 6]


def test_empty_struct():
    """A struct without fields counts as one byte, so that a list of them stays bounded by its bytes."""

    class Nothing(Message, versions=(0, 0)):
        pass

    assert layout(Nothing, 0).size_bytes_min == 1
