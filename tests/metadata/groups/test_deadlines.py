"""Deadlines of many groups in one heap."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.groups.deadlines import Deadlines


def test_the_nearer_moment_counts():
    """A deadline that moves away is looked at when the old moment comes; one that comes nearer at once."""
    deadlines = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 20)
    assert deadlines.next_ms() == 10
    deadlines.set("a", 5)
    assert deadlines.next_ms() == 5
    assert deadlines.take(5, at_most=9) == ["a"]
    assert (deadlines.next_ms(), len(deadlines)) == (None, 0)


def test_moving_away_costs_nothing():
    """A thousand heartbeats leave one entry."""
    deadlines = Deadlines()
    for moment in range(1_000):
        deadlines.set("a", moment)
    assert len(deadlines._heap) == 1


def test_no_more_than_asked_for():
    """The rest stays due."""
    deadlines = Deadlines()
    for name in "abc":
        deadlines.set(name, 1)
    assert len(deadlines.take(1, at_most=2)) == 2
    assert deadlines.next_ms() == 1
    assert len(deadlines.take(1, at_most=2)) == 1


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 20)), max_size=30))
def test_against_a_plain_table(steps):
    """The same as keeping the smallest moment of each name, and looking through all."""
    deadlines, table = Deadlines(), {}
    for name, moment in steps:
        if moment is None:
            deadlines.forget(name)
            table.pop(name, None)
        else:
            deadlines.set(name, moment)
            table[name] = min(moment, table.get(name, moment))
        assert deadlines.next_ms() == min(table.values(), default=None)
    taken = deadlines.take(10, at_most=99)
    assert sorted(taken) == sorted(name for name, moment in table.items() if moment <= 10)
    assert [table[name] for name in taken] == sorted(table[name] for name in taken)


def test_groups_that_come_and_go_leave_no_heap_behind():
    """Their entries would stay until their old moment, half an hour away, thousands a second."""
    deadlines = Deadlines()
    deadlines.set("stays", 2_000_000)
    for number in range(20_000):
        deadlines.set(f"g{number}", 1_800_000 + number)
        deadlines.forget(f"g{number}")
    assert deadlines.entries <= 1_010
    assert deadlines.next_ms() == 2_000_000
    assert deadlines.take(2_000_000, at_most=5) == ["stays"]
