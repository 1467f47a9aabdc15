"""Archived ranges in memory are bounded over all partitions together."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.cold.manifest_views import RemoteViews


class Partition:
    """A partition that knows whether its ranges are in memory."""

    def __init__(self):
        self.loaded = False

    def unload(self):
        self.loaded = False


def test_the_one_used_longest_ago_goes_first():
    """A use counts as much as a load."""
    views, (one, two, three) = RemoteViews(20), (Partition(), Partition(), Partition())
    for each in (one, two):
        each.loaded = True
        views.loaded(each, 10)
    views.used(one)
    three.loaded = True
    views.loaded(three, 10)
    assert [each.loaded for each in (one, two, three)] == [True, False, True]
    views.used(two)
    assert views.entry_count == 20


def test_one_that_is_larger_than_all_that_may_be_stays_alone():
    """Otherwise it could never be read."""
    views, (small, large) = RemoteViews(20), (Partition(), Partition())
    small.loaded = large.loaded = True
    views.loaded(small, 5)
    views.loaded(large, 1000)
    assert (small.loaded, large.loaded, views.entry_count) == (False, True, 1000)
    views.forget(large)
    assert views.entry_count == 0


@given(st.lists(st.tuples(st.sampled_from(["loaded", "used", "forget"]), st.integers(0, 5), st.integers(0, 12))))
def test_the_count_is_that_of_the_partitions_in_memory(steps):
    """And within the bound whenever more than one is there."""
    views, partitions, counts = RemoteViews(20), [Partition() for _ in range(6)], {}
    for what, number, count in steps:
        partition = partitions[number]
        if what == "loaded":
            partition.loaded = True
            counts[number] = count
            views.loaded(partition, count)
        else:
            getattr(views, what)(partition)
            partition.loaded = partition.loaded and what != "forget"
        live = [counts[n] for n, each in enumerate(partitions) if each.loaded]
        assert views.entry_count == sum(live)
        assert views.entry_count <= 20 or len(live) == 1
