"""Which prefixes a name begins with."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.metadata.access import prefix_map
from stratalog.metadata.access.prefix_map import PrefixMap

PREFIXES = st.text("ab\U0010ffff", max_size=5)
CHANGES = st.tuples(st.dictionaries(PREFIXES, st.integers(), max_size=6), st.sets(PREFIXES, max_size=4))


@pytest.mark.story
def test_a_name_finds_all_its_prefixes(monkeypatch):
    """The longest first, after any changes, whatever was asked for between; earlier maps answer as before."""
    monkeypatch.setattr(prefix_map, "_MEMBERS_MAX", 3)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(CHANGES, max_size=8), st.lists(PREFIXES, min_size=1, max_size=12))
    def check(changes, names):
        held, plain, earlier = PrefixMap(), {}, []
        for items, keys in changes:
            removed = [key for key in keys if key in plain and key not in items]
            held = held.updated(items, removed)
            plain = {key: value for key, value in plain.items() if key not in removed} | items
            earlier.append((held, plain))
            for name in names[::2]:
                held.matching(name)
        for each, expected in earlier:
            assert sorted(each.values()) == sorted(expected.values())
            for name in names:
                lengths = range(len(name), -1, -1)
                found = [expected[name[:length]] for length in lengths if name[:length] in expected]
                assert list(each.matching(name)) == found
                assert each.get(name) == expected.get(name)

    check()


def test_a_change_keeps_knowledge_about_other_names():
    """Only the chunks are looked at again in which a member may begin with what has changed."""
    names = {f"{letter}{number}": number for letter in "bcd" for number in range(2_000)}
    held = PrefixMap().updated(names)
    for name in names:
        held.matching(name)
    known = [chunk for chunk in held._chunks if chunk.chains]
    assert known == held._chunks
    again = held.updated({"c1": -1}, ["c777"])
    assert sum(chunk not in known for chunk in again._chunks) <= 6
    assert again.matching("c11") == (11, -1)
    assert held.matching("c11") == (11, 1)
