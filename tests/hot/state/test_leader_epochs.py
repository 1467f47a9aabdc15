"""Tests of hot/state/leader_epochs.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.state.leader_epochs import EpochEnd, EpochEntry, LeaderEpochCache
from stratalog.wire.errors import Corrupt


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


def test_each_leadership_raises_the_epoch_and_an_epoch_ends_where_the_next_larger_begins():
    """(0,0)(1,300): epoch 0 ends at 300; (1,20)(2,80)(3,120): 80, 120 and the log end."""
    assert cache((0, 0), (1, 300)).end_offset_for(0, 400) == EpochEnd(0, 300)
    known = cache((1, 20), (2, 80), (3, 120))
    assert known.end_offset_for(1, 150) == EpochEnd(1, 80)
    assert known.end_offset_for(2, 150) == EpochEnd(2, 120)
    assert known.end_offset_for(3, 150) == EpochEnd(3, 150)


def test_an_unknown_epoch_answers_the_largest_known_one_below_it():
    """Between two epochs the lower one is found; below all, the first start; above all, undefined."""
    known = cache((2, 20), (5, 80))
    assert known.end_offset_for(3, 100) == EpochEnd(2, 80)
    assert known.end_offset_for(1, 100) == EpochEnd(1, 20)
    assert known.end_offset_for(6, 100) == EpochEnd(-1, -1)
    assert known.end_offset_for(-1, 100) == EpochEnd(-1, -1)
    assert cache().end_offset_for(0, 100) == EpochEnd(-1, -1)


def test_a_new_epoch_drops_what_contradicts_it():
    """Later epochs and starts at or above the new one are not history any more."""
    known = cache((1, 0), (2, 50), (4, 90))
    assert known.assign(3, 50)
    assert known.entries == (EpochEntry(1, 0), EpochEntry(3, 50))
    assert not known.assign(3, 60)
    assert known.assign(3, 40)
    assert known.entries[-1] == EpochEntry(3, 40)


def test_truncation_drops_entries_at_the_end_and_moves_the_first_up():
    """At the end entries go; at the start the one in force moves up."""
    known = cache((1, 0), (2, 50), (3, 90))
    known.truncate_from_end(90)
    assert known.entries == (EpochEntry(1, 0), EpochEntry(2, 50))
    known.truncate_from_start(70)
    assert known.entries == (EpochEntry(2, 70),)
    assert known.dirty


def test_an_offset_has_the_epoch_of_the_entry_below_it():
    """The last entry that starts at or below it."""
    known = cache((1, 10), (4, 50))
    assert [known.epoch_for(offset) for offset in (9, 10, 49, 50, 99)] == [None, 1, 1, 4, 4]
    assert known.until(50) == (EpochEntry(1, 10),)


def test_negative_epochs_and_offsets_raise_value_error():
    """They never reach the history."""
    with pytest.raises(ValueError, match="cannot start"):
        cache().assign(-1, 0)


def test_the_checkpoint_text_is_kafkas():
    """Version 0, the count, one entry a line."""
    assert cache((0, 0), (7, 300)).to_bytes() == b"0\n2\n0 0\n7 300\n"
    assert LeaderEpochCache.from_bytes(b"0\n1\n3 5\n").entries == (EpochEntry(3, 5),)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10**12)), max_size=20))
def test_any_history_survives_its_checkpoint(pairs):
    """Entries stay ascending in both columns and come back as they were."""
    known = cache(*pairs)
    assert LeaderEpochCache.from_bytes(known.to_bytes()).entries == known.entries
    epochs, starts = [entry.epoch for entry in known.entries], [entry.start_offset for entry in known.entries]
    assert epochs == sorted(set(epochs))
    assert starts == sorted(set(starts))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 100)), max_size=20))
def test_the_latest_epoch_is_that_of_the_last_entry(changes):
    """After any sequence of changes."""
    known = cache()
    for kind, epoch, offset in changes:
        (
            lambda: known.assign(epoch, offset),  # noqa: B023 - called at once
            lambda: known.truncate_from_end(offset),  # noqa: B023
            lambda: known.truncate_from_start(offset),  # noqa: B023
            known.clear,
        )[kind]()
        assert known.latest_epoch == (known.entries[-1].epoch if known.entries else -1)


@pytest.mark.parametrize(
    "data", [b"", b"0", b"1\n0\n", b"0\n2\n1 1\n", b"0\n1\n1 x\n", b"\xff\xfe", b"0\n1\n1\n", b"0\n1\n-1 3\n"]
)
def test_a_damaged_checkpoint_is_refused(data):
    """No epoch is guessed from it."""
    with pytest.raises(Corrupt):
        LeaderEpochCache.from_bytes(data)


def test_an_epoch_that_was_begun_is_stored_with_its_first_batch():
    """A start that writes nothing leaves nothing to be stored; any other change does."""
    epochs = LeaderEpochCache([EpochEntry(1, 0)])
    epochs.begin(2, 10)
    assert (epochs.latest_epoch, epochs.must_store(10), epochs.must_store(11)) == (2, False, True)
    epochs.begin(3, 10)
    assert (epochs.entries, epochs.must_store(10)) == ((EpochEntry(1, 0), EpochEntry(3, 10)), False)
    epochs.stored()
    assert not epochs.must_store(11)
    epochs.begin(4, 20)
    epochs.truncate_from_end(20)
    assert (epochs.latest_epoch, epochs.must_store(20)) == (3, True)
    epochs.stored()
    epochs.begin(3, 20)
    assert not epochs.must_store(21)


def test_beginning_an_epoch_keeps_other_changes_to_be_stored():
    """Beginning an epoch hides no other change."""
    epochs = LeaderEpochCache()
    epochs.assign(1, 0)
    epochs.begin(2, 5)
    assert epochs.must_store(5)
    epochs.clear()
    epochs.stored()
    assert not epochs.must_store(5)
