from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import Pin
from stratalog.tier.planning.merge_plan import OBJECTS_MAX, MergeSettings, borders, plan_merge

SETTINGS = MergeSettings(3, 100)


def entries(*sizes, length=10):
    """Neighbours of these data sizes."""
    return [
        Entry(
            n.to_bytes(16, "big"), n * length, (n + 1) * length, 1, f"k{n}", size + 1, size, 0, 0, 0, 0, 0, 0, 0, 1, 1
        )
        for n, size in enumerate(sizes)
    ]


def bases(found):
    """The chosen objects."""
    return [entry.base for entry in found]


def test_the_oldest_small_neighbours_are_merged():
    """As many as fit; larger ones between them are left alone."""
    assert bases(plan_merge(entries(10, 10, 10, 10), SETTINGS)) == [0, 10, 20, 30]
    assert bases(plan_merge(entries(10, 10, 26, 10, 10, 25), SETTINGS)) == [30, 40, 50]
    assert bases(plan_merge(entries(25, 25, 25, 25, 25), SETTINGS)) == [0, 10, 20, 30]


def test_a_few_are_left_alone():
    """Fewer than the setting says; none at all if merging is switched off."""
    assert plan_merge(entries(10, 10), SETTINGS) == ()
    assert plan_merge(entries(10, 10, 90, 10, 10), SETTINGS) == ()
    assert plan_merge(entries(*[1] * 500), MergeSettings(0, 100)) == ()
    assert plan_merge([], SETTINGS) == ()


def test_no_border_is_crossed():
    """A cut must find its end at the end of an object."""
    assert bases(plan_merge(entries(1, 1, 1, 1, 1), SETTINGS, no_crossing={20})) == [20, 30, 40]
    manifest = Manifest(PartitionId("t", bytes(16), 0), pins=(Pin("c", 1, 70, 30),), archive_clean_offset=50)
    assert borders(manifest) == {30, 50, 70}


def test_an_object_has_no_more_than_two_billion_offsets():
    """Kafka's index format cannot address more; nor may a job name too many."""
    found = plan_merge(entries(*[1] * 20, length=2**29), SETTINGS)
    assert len(found) == 3
    assert len(plan_merge(entries(*[1] * 1000), MergeSettings(2, 10_000))) == OBJECTS_MAX


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(2, 6), st.sets(st.integers(0, 40)))
def test_a_plan_keeps_every_bound(sizes, objects_min, crossings):
    """Neighbours, small ones, enough of them, not too many bytes, no border inside; applied again and again it ends."""
    limits = MergeSettings(objects_min, 100)
    no_crossing = {10 * one for one in crossings}
    left = entries(*sizes)
    rounds = 0
    while found := plan_merge(left, limits, no_crossing=no_crossing):
        assert len(found) >= objects_min
        assert all(entry.data_bytes <= 25 for entry in found)
        assert sum(entry.data_bytes for entry in found) <= 100
        assert all(one.end == two.base for one, two in pairwise(found))
        assert not any(found[0].base < border < found[-1].end for border in no_crossing)
        at = left.index(found[0])
        total = sum(entry.data_bytes for entry in found)
        left[at : at + len(found)] = [replace(found[0], end=found[-1].end, data_bytes=total)]
        rounds += 1
    assert rounds <= len(sizes)
