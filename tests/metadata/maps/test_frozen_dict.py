"""A dictionary that does not change."""

import copy
import gc
import pickle
import weakref

import pytest

from stratalog.metadata.maps.frozen_dict import FrozenDict
from stratalog.metadata.maps.uncollected import leave_out_of_collections


class Value:
    """An object whose end can be seen."""


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held.__setitem__(1, "x"),
        lambda held: held.__delitem__(1),
        lambda held: held.__ior__({2: "b"}),
        lambda held: held.clear(),
        lambda held: held.pop(1),
        lambda held: held.popitem(),
        lambda held: held.setdefault(2, "b"),
        lambda held: held.update({2: "b"}),
    ],
)
def test_every_change_is_refused(change):
    """The dictionary stays as it was made."""
    held = FrozenDict({1: "a"})
    with pytest.raises(TypeError, match="a frozen dictionary does not change"):
        change(held)
    assert held == {1: "a"}


def test_all_changing_methods_of_a_dictionary_are_refused():
    """A method that a later Python adds is looked at by a person."""
    reading = {"copy", "fromkeys", "get", "items", "keys", "values"}
    changing = {name for name in vars(dict) if not name.startswith("_")} - reading
    assert changing == {"clear", "pop", "popitem", "setdefault", "update"}


def test_it_reads_as_a_dictionary_and_its_copies_may_change():
    """Copies are plain."""
    held = FrozenDict({1: "a", 2: "b"})
    assert (held[1], held.get(3), list(held.items()), len(held)) == ("a", None, [(1, "a"), (2, "b")], 2)
    for copied in (dict(held), held.copy(), held | {}):
        copied[3] = "c"
        assert type(copied) is dict
    assert held == {1: "a", 2: "b"}


def test_it_can_be_copied_and_sent():
    """As a frozen one."""
    held = FrozenDict({1: ["a"]})
    for other in (copy.copy(held), copy.deepcopy(held), pickle.loads(pickle.dumps(held))):
        assert (type(other), other) == (FrozenDict, held)


def test_one_that_is_left_out_of_collections_frees_what_it_holds():
    """By its reference count alone."""
    value = Value()
    gone = weakref.ref(value)
    held = FrozenDict({1: value})
    leave_out_of_collections(held)
    assert not gc.is_tracked(held)
    gc.disable()
    try:
        del value, held
        assert gone() is None
    finally:
        gc.enable()
