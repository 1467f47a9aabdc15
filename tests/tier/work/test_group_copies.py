"""The copies of groups as a restore reads them, and what it leaves there."""

from __future__ import annotations

import pytest

from stratalog.tier.messages.group_copy import GroupCopy, OffsetCopy, group_copy_projection
from stratalog.tier.messages.projection import write_projection
from stratalog.tier.work.group_copies import leave_offsets, read_group_copies

A = OffsetCopy("a", b"a" * 16, 0, 5)
B = OffsetCopy("b", b"b" * 16, 3, 7)


@pytest.fixture
def copies(memory_store):
    """Write the copy of the group g, and read what a restore would read."""

    def read():
        return read_group_copies(memory_store, "c", pytest.fail)

    write_projection(memory_store, group_copy_projection("c", "g", [A, B], 1))
    return read


def leave(store, copies, restored, incarnation):
    return leave_offsets(store, "c", copies(), restored, incarnation)


def test_offsets_that_are_not_restored_stay_when_the_copy_is_replaced(memory_store, copies):
    """A topic that was made again under its name is another one."""
    assert leave(memory_store, copies, {A.topic_id, bytes(16)}, 2) == 1
    assert copies() == (GroupCopy("g", (A, B), (B,)),)
    write_projection(memory_store, group_copy_projection("c", "g", [A._replace(offset=9)], 2))
    assert copies() == (GroupCopy("g", (A._replace(offset=9), B), (B,)),)
    write_projection(memory_store, group_copy_projection("c", "g", [], 2))
    assert copies() == (GroupCopy("g", (B,), (B,)),)


def test_offsets_that_were_left_are_taken_by_a_restore_of_all(memory_store, copies):
    """From then on they are as those beside them: they go when the group lets them go."""
    leave(memory_store, copies, {A.topic_id}, 2)
    assert leave(memory_store, copies, None, 3) == 0
    assert copies() == (GroupCopy("g", (A, B)),)
    write_projection(memory_store, group_copy_projection("c", "g", [A], 3))
    assert copies() == (GroupCopy("g", (A,)),)


def test_an_offset_that_the_group_has_wins_over_one_that_was_left(memory_store, copies):
    """Its topic is there by now."""
    leave(memory_store, copies, {A.topic_id}, 2)
    newer = B._replace(offset=8)
    write_projection(memory_store, group_copy_projection("c", "g", [A, newer], 2))
    assert copies() == (GroupCopy("g", (A, newer)),)


def test_a_copy_that_is_restored_as_a_whole_is_not_written(memory_store, copies):
    """Brokers of before go on replacing it until the new one does."""
    key = group_copy_projection("c", "g", []).key
    before = memory_store.get(key)
    assert leave(memory_store, copies, None, 2) == 0
    assert memory_store.get(key) == before
