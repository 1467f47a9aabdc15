"""Committed offsets that go back are found."""

from bench.faults.grouped import Offsets


def test_commits_that_rise_are_no_fault():
    """A consumer may commit behind one that took its partition over meanwhile: it began before."""
    offsets = Offsets("g")
    offsets.commit(0, 5, {})
    offsets.commit(0, 9, {0: 5})
    offsets.commit(0, 7, {0: 5})
    offsets.fetched(0, 9, {0: 9})
    assert offsets.faults == []
    assert offsets.snapshot() == {0: 9}


def test_a_commit_behind_an_earlier_owner_is_a_fault():
    """The new owner was given an old offset."""
    offsets = Offsets("g")
    offsets.commit(0, 4, {0: 5})
    assert "4 was committed for partition 0 behind 5" in offsets.faults[0]


def test_an_offset_that_is_forgotten_is_a_fault():
    """-1 stands for no offset."""
    offsets = Offsets("g")
    offsets.fetched(0, -1, {0: 5})
    offsets.fetched(1, -1, {})
    assert len(offsets.faults) == 1
