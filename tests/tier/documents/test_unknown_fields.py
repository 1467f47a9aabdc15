from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.documents.unknown_fields import canonical_json, integer, keep_unknown, restore_unknown, text
from stratalog.wire.errors import Corrupt

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.story
@given(st.dictionaries(st.text(max_size=4), values, max_size=6), st.sets(st.text(max_size=4), max_size=3))
def test_unknown_fields_come_back_as_they_were(fields, known):
    """Kept, hashed, restored: nothing of a newer writer's fields is lost, and nothing known is kept twice."""
    unknown = keep_unknown(fields, known)
    assert hash(unknown) == hash(keep_unknown(json.loads(canonical_json(fields)), known))
    rest = {name: value for name, value in fields.items() if name in known}
    assert restore_unknown(rest, unknown) == fields
    assert not {name for name, _ in unknown} & known


@pytest.mark.parametrize("value", [None, True, 1.0, "1", [1]])
def test_only_whole_numbers_are_integers(value):
    """Neither a truth value nor a text nor a fraction passes."""
    with pytest.raises(Corrupt, match="whole number"):
        integer({"n": value}, "n")


def test_defaults_stand_in_for_what_is_missing_only():
    """A missing field takes the default, a wrong one does not."""
    assert integer({}, "n", 7) == 7
    assert text({}, "t", "x") == "x"
    with pytest.raises(Corrupt):
        text({"t": 5}, "t", "x")
    with pytest.raises(Corrupt):
        integer({}, "n")
