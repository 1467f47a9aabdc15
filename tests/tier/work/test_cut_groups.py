"""Committed offsets of groups when a cut was made."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.tier.bucket.cuts import Cut, CutState, CutTopic
from stratalog.tier.messages.group_copy import GroupCopy, OffsetCopy, group_copy_projection, groups_prefix
from stratalog.tier.messages.projection import write_projection
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import NotFound
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.cut_groups import keep_groups, read_cut_groups
from stratalog.wire.errors import Corrupt, Invalid

A, B = b"\1" * 16, b"\2" * 16
CUT = Cut("c", "nightly", 7, CutState.CREATING, (CutTopic("a", A, 2, {}), CutTopic("b", B, 1, {})), ())
OFFSETS = st.builds(
    OffsetCopy, st.just("a"), st.just(A), st.integers(0, 5), st.integers(0, 2**62), st.integers(-1, 9), st.text(max_size=5)
)  # fmt: skip


def no_problem(text):
    """For what must not be told of anything."""
    raise AssertionError(text)


def committed(store, group, *offsets):
    """A broker's copy of a group."""
    write_projection(store, group_copy_projection("c", group, offsets))


def complete(cut):
    """The cut when it is one."""
    return replace(cut, state=CutState.COMPLETE)


@given(st.dictionaries(st.text(max_size=5), st.lists(OFFSETS, min_size=1, max_size=3), min_size=1, max_size=4))
def test_groups_are_read_as_they_had_committed(groups):
    """Random names and commits come back as they were at the cut; the copies may go on meanwhile."""
    store = MemoryStore("memory:groups")
    for group, offsets in groups.items():
        committed(store, group, *offsets)
    cut = complete(keep_groups(store, CUT, no_problem))
    for group in groups:
        committed(store, group)
    assert read_cut_groups(store, cut) == tuple(GroupCopy(one, tuple(sorted(groups[one]))) for one in sorted(groups))
    assert cut.group_count == len(groups)


def test_only_what_the_cut_holds_is_kept(memory_store):
    """Offsets in its topics, by their ids; a group without any of them is not in it; without groups there is no document."""
    held, other = OffsetCopy("a", A, 0, 5), OffsetCopy("a", b"\3" * 16, 0, 6)
    assert keep_groups(memory_store, CUT, no_problem) is CUT
    committed(memory_store, "g", held, other)
    committed(memory_store, "h", other)
    cut = keep_groups(memory_store, CUT, no_problem)
    assert read_cut_groups(memory_store, complete(cut)) == (GroupCopy("g", (held,)),)
    assert read_cut_groups(memory_store, complete(CUT)) == ()
    with pytest.raises(Invalid, match="is creating"):
        read_cut_groups(memory_store, cut)
    assert keep_groups(memory_store, replace(CUT, topics=()), no_problem).groups_sha256 == ""


def test_a_lost_reply_keeps_what_was_written_first(memory_store):
    """Though the copies have gone on since."""

    class Repeating(StoreWrapper):
        """Sends every creation twice."""

        def put_if_absent(self, key, data, **options):
            super().put_if_absent(key, data, **options)
            return super().put_if_absent(key, data, **options)

    committed(memory_store, "g", OffsetCopy("a", A, 0, 5))
    cut = complete(keep_groups(Repeating(memory_store), CUT, no_problem))
    assert read_cut_groups(memory_store, cut)[0].offsets[0].offset == 5


def test_damage_is_said(memory_store):
    """A copy that cannot be read is left out and told; a document that was changed or is gone is no answer."""
    told = []
    committed(memory_store, "g", OffsetCopy("a", A, 0, 5))
    memory_store.put(groups_prefix("c") + "x/0.json", b"{")
    cut = complete(keep_groups(memory_store, CUT, told.append))
    assert [groups_prefix("c") + "x/0.json" in text for text in told] == [True]
    assert len(read_cut_groups(memory_store, cut)) == 1
    for data in (b"{}", b'{"format":"stratalog-cut-groups","version":2,"groups":[]}', b"["):
        memory_store.put(cut.groups_key, data)
        with pytest.raises(Corrupt, match="SHA-256 differs"):
            read_cut_groups(memory_store, cut)
        with pytest.raises(Corrupt, match="cannot be read"):
            read_cut_groups(memory_store, replace(cut, groups_sha256=hashlib.sha256(data).hexdigest()))
    memory_store.delete_many([cut.groups_key])
    with pytest.raises(NotFound):
        read_cut_groups(memory_store, cut)
