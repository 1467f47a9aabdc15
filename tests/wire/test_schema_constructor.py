"""Constructors of declared structs."""

import pytest

from stratalog.wire.schema import Int8, Int32, Message, Struct, field
from stratalog.wire.schema_constructor import construct


def declared():
    """Two new classes."""

    class Inner(Struct):
        level: Int8 = field(3)

    class Outer(Message, versions=(0, 0)):
        name: str
        ids: list[Int32] = field()
        epoch: Int32 = field(-1)

    return Inner, Outer


def test_the_first_message_makes_the_constructor():
    """The class has one of its own afterwards, with a name that tracebacks show."""
    _, outer = declared()
    assert outer.__init__ is construct
    first = outer(name="a")
    assert (first.name, first.ids, first.epoch) == ("a", [], -1)
    assert outer.__init__ is not construct
    assert outer.__init__.__qualname__.endswith("Outer.__init__")
    assert outer(name="a", ids=[], epoch=-1) == first


def test_other_classes_keep_theirs():
    """A constructor belongs to one class, not to its base."""
    inner, outer = declared()
    outer(name="a")
    assert inner.__init__ is construct
    assert inner().level == 3


@pytest.mark.parametrize("made_before", [False, True])
def test_wrong_arguments(made_before):
    """They are refused as by any constructor, by the first call of a class as by the next."""
    _, outer = declared()
    if made_before:
        outer(name="a")
    with pytest.raises(TypeError, match=r"Outer.__init__\(\) missing 1 required keyword-only argument: 'name'"):
        outer()
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        outer(name="a", size=3)
    with pytest.raises(TypeError, match="positional"):
        outer("a")


def test_a_list_is_made_for_each_message():
    """One that grows does not grow in others, not even in the first one."""
    _, outer = declared()
    first, second = outer(name="a"), outer(name="b")
    first.ids.append(1)
    assert second.ids == outer(name="c").ids == []


def test_a_struct_without_fields():
    """Its constructor takes no argument."""

    class Empty(Message, versions=(0, 0)):
        """A message that says only its type."""

    assert repr(Empty()) == "Empty()"
    with pytest.raises(TypeError):
        Empty(name="a")
