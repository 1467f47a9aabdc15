"""Maps that never change: the same as dictionaries, and what was made before stays as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.maps import persistent_map
from stratalog.metadata.maps.persistent_map import PersistentMap, changed


class Key(str):
    """A key whose hash is like that of many others."""

    __slots__ = ()

    def __hash__(self):
        return len(self)


KEYS = st.one_of(st.integers(0, 300), st.text("ab", max_size=6).map(Key))
STEPS = st.lists(st.tuples(st.dictionaries(KEYS, st.integers(), max_size=40), st.sets(KEYS, max_size=40)), max_size=12)


@pytest.fixture(params=[(1, 64, 16), (2, 4, 2), (6, 64, 16)], ids=["narrow", "small leaves", "as it is"])
def shape(request, monkeypatch):
    """Trees of several shapes: bits a level, items in a leaf before it parts, and below a node before they join."""
    bits, leaf_max, merged = request.param
    for name, value in (
        ("_BITS", bits),
        ("_CHILDREN", 1 << bits),
        ("_MASK", (1 << bits) - 1),
        ("_LEAF_ITEMS_MAX", leaf_max),
        ("_LEAF_ITEMS_MERGED", merged),
    ):
        monkeypatch.setattr(persistent_map, name, value)


@pytest.mark.usefixtures("shape")
def test_it_is_a_dictionary_after_any_changes():
    """In what it holds, says and counts; every earlier one still holds what it held."""

    @given(STEPS)
    def check(steps):
        held, plain, earlier = PersistentMap(), {}, []
        small = {}
        for items, keys in steps:
            removed = [key for key in keys if key in plain]
            earlier.append((held, dict(plain)))
            held = held.updated(items, removed)
            small = changed(small, items, [key for key in removed if key not in items])
            for key in removed:
                del plain[key]
            plain.update(items)
            earlier.append((held, dict(plain)))
            assert dict(small) == plain
        for each, expected in earlier:
            assert dict(each.items()) == expected == each
            assert len(each) == len(expected)
            assert sorted(each.values()) == sorted(expected.values())
            assert all(each[key] == each.get(key) == value for key, value in expected.items())
            assert "absent" not in each
            assert each.get("absent", 7) == 7

    check()


def test_a_missing_entry_cannot_be_removed():
    """A caller that asks for that has lost count."""
    with pytest.raises(KeyError):
        PersistentMap().updated({}, ["a"])
    with pytest.raises(KeyError):
        PersistentMap()["a"]


def test_a_change_copies_little(copied_items):
    """Almost all leaves of a large map are those of the map before."""
    large = PersistentMap().updated(dict.fromkeys(range(100_000), 0))
    again = large.updated({-1: 0, 5: 1}, [7])
    assert copied_items(large, again) <= 3 * copied_items.a_change_max
    few = again.updated({}, range(20, 100_000))
    assert len(list(few.leaves())) <= 20
