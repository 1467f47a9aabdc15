from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.messages.group_copy import (
    GroupCopy,
    OffsetCopy,
    group_copy_from_bytes,
    group_copy_projection,
    groups_prefix,
)
from stratalog.tier.messages.projection import write_projection
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import topic_name_problem

OFFSETS = st.builds(
    OffsetCopy,
    st.text("abc.-_", min_size=1, max_size=5).filter(lambda name: topic_name_problem(name) is None),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 5),
    st.integers(0, 2**62),
    st.integers(-1, 9),
    st.text(max_size=8),
)


@given(st.text(max_size=10), st.lists(OFFSETS, max_size=4))
def test_a_copy_is_read_as_it_was_made(group, offsets):
    """Random names of groups and random commits come back equal, under keys of less than 200 characters."""
    projection = group_copy_projection("cluster", group, offsets)
    assert projection.key.startswith(groups_prefix("cluster"))
    assert len(projection.key) < 200
    data = json.dumps(dict(projection.fields)).encode()
    assert group_copy_from_bytes(data, "") == GroupCopy(group, tuple(sorted(offsets)))


def test_the_document_is_replaced_by_the_next_one(memory_store):
    """One key a group; a group that is gone has no offsets."""
    offset = OffsetCopy("orders", bytes(16), 0, 5)
    first = group_copy_projection("c", "g", [offset])
    write_projection(memory_store, first)
    write_projection(memory_store, group_copy_projection("c", "g", []))
    (info,) = memory_store.list(groups_prefix("c"))
    assert info.key == first.key
    assert group_copy_from_bytes(memory_store.get(info.key)[0], info.key) == GroupCopy("g", ())
    assert group_copy_projection("c", "h", []).key != first.key


@pytest.mark.parametrize("change", [{"format": "x"}, {"version": 2}, {"offsets": [[1]]}, {"group": 5}, {"offsets": 7}])
def test_anything_else_is_refused(change):
    """By name of the key."""
    fields = {**group_copy_projection("c", "g", [OffsetCopy("t", bytes(16), 0, 1)]).fields, **change}
    with pytest.raises(Corrupt, match="some-key"):
        group_copy_from_bytes(json.dumps(fields).encode(), "some-key")
    with pytest.raises(Corrupt):
        group_copy_from_bytes(b"{", "some-key")
