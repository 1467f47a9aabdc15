from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.planning.reconcile import Keep, RestartAt, disputed, lineage, must_reconcile, reconcile

E = LeaderEpoch


def check(**changes):
    """A local log [50, 200) that agrees with an archive up to 100, unless changed."""
    case = {
        "remote_end": 100,
        "remote_log_start": 10,
        "remote_epochs": (E(1, 0), E(3, 60)),
        "snapshot_key": "k",
        "local_start": 50,
        "local_end": 200,
        "local_epochs": (E(1, 0), E(3, 60), E(4, 150)),
        "log_start_checkpoint": 0,
    }
    return reconcile(**{**case, **changes})


def test_a_log_that_agrees_with_the_archive_is_kept():
    """The log start is the larger of manifest and local checkpoint."""
    assert check() == Keep(10, 100)
    assert check(log_start_checkpoint=40) == Keep(40, 100)


def test_an_archive_that_goes_further_wins():
    """The log restarts at the remote end with the manifest's epochs and the last object's producer snapshot."""
    found = check(local_end=99)
    assert isinstance(found, RestartAt)
    assert (found.offset, found.log_start_offset) == (100, 10)
    assert (found.leader_epochs, found.snapshot_key) == ((E(1, 0), E(3, 60)), "k")
    assert check(local_end=100) == Keep(10, 100)


def test_no_log_ends_below_its_start():
    """Records that are deleted were not archived: the log goes on behind them, not at the remote end before them."""
    found = check(local_end=0, remote_log_start=130)
    assert isinstance(found, RestartAt)
    assert (found.offset, found.log_start_offset, found.snapshot_key) == (130, 130, "k")
    found = check(local_end=120, remote_log_start=130)
    assert isinstance(found, RestartAt)
    assert (found.offset, found.log_start_offset) == (130, 130)
    assert check(local_end=130, remote_log_start=130) == Keep(130, 100)
    found = check(diverged=True, log_start_checkpoint=150)
    assert isinstance(found, RestartAt)
    assert (found.offset, found.log_start_offset) == (150, 150)


def test_epochs_that_differ_below_the_remote_end_are_divergence():
    """The same offsets written by another epoch are other records, however long the local log is."""
    assert isinstance(check(local_epochs=(E(1, 0), E(2, 60))), RestartAt)
    assert isinstance(check(local_epochs=(E(1, 0), E(3, 61))), RestartAt)
    assert isinstance(check(local_epochs=(E(1, 0), E(3, 60), E(4, 99))), RestartAt)
    assert isinstance(check(local_epochs=()), RestartAt)


def test_epochs_above_the_remote_end_do_not_matter():
    """Offsets that are not archived yet concern the local log alone."""
    assert check(local_epochs=(E(1, 0), E(3, 60), E(4, 100), E(9, 180))) == Keep(10, 100)


def test_epochs_below_what_both_hold_do_not_matter():
    """A local log cut at its start, or an archive that began later, agree where they overlap."""
    assert check(local_epochs=(E(1, 50), E(3, 60))) == Keep(10, 100)
    assert check(remote_epochs=(E(1, 55), E(3, 60))) == Keep(10, 100)
    assert check(local_start=100, local_epochs=(E(7, 100),)) == Keep(10, 100)


def test_a_range_that_compaction_removed_first_is_no_divergence():
    """The local log says nothing of offsets before its first epoch; from there on it has to agree."""
    assert check(local_start=0, local_epochs=(E(1, 52), E(3, 60))) == Keep(10, 100)
    assert isinstance(check(local_start=0, local_epochs=(E(2, 52), E(3, 60))), RestartAt)
    assert isinstance(check(local_start=0, local_epochs=(E(3, 52),)), RestartAt)


def test_a_range_without_batches_is_no_divergence():
    """A log that was copied from a cleaned one does not know where an epoch began whose first batches were gone."""
    local = (E(1, 0), E(3, 80), E(4, 150))
    assert disputed(remote_end=100, remote_epochs=(E(1, 0), E(3, 60)), local_start=50, local_epochs=local) == (
        range(60, 80),
    )
    assert check(local_epochs=local, bare=(range(60, 80),)) == Keep(10, 100)
    assert isinstance(check(local_epochs=local), RestartAt)
    assert isinstance(check(local_epochs=local, bare=(range(60, 79),)), RestartAt)
    forked = (E(1, 0), E(2, 70), E(3, 80))
    assert isinstance(check(local_epochs=forked, bare=(range(60, 70),)), RestartAt)
    assert check(local_epochs=forked, bare=(range(60, 70), range(70, 80))) == Keep(10, 100)


def rising(pairs):
    """A history: epochs and starts rise."""
    found = []
    for epoch, start in sorted(pairs):
        if not found or (epoch > found[-1].epoch and start > found[-1].start_offset):
            found.append(E(epoch, start))
    return tuple(found)


@given(
    *[st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=5).map(rising)] * 2,
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_disputed_offsets_have_another_writer(ours, theirs, start, end):
    """Every offset that both name a writer of is disputed if and only if these differ."""

    def writer(epochs, offset):
        return next((e.epoch for e in reversed(epochs) if e.start_offset <= offset), None)

    found = disputed(remote_end=end, remote_epochs=theirs, local_start=start, local_epochs=ours)
    told = [offset for one in found for offset in one]
    known = max([start, *(e.start_offset for e in (*theirs[:1], *ours[:1]))])
    assert told == [n for n in range(known, end) if theirs and writer(ours, n) != writer(theirs, n)]


def test_an_empty_archive_changes_nothing():
    """A manifest that was only claimed keeps the local log."""
    assert check(remote_end=50, remote_epochs=(), snapshot_key=None) == Keep(10, 50)


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        ({}, False),
        ({"elected_uncleanly": True}, True),
        ({"stopped_uncleanly": True}, True),
        ({"wiped": True}, True),
        ({"remote_end_checkpoint": None}, True),
        ({"remote_end_checkpoint": 101}, True),
        ({"remote_end_checkpoint": 100}, False),
    ],
)
def test_only_a_leader_that_may_lack_archived_offsets_needs_the_bucket(change, needed):
    """Every other leader starts without it."""
    case = {
        "remote_end_checkpoint": 90,
        "log_end_offset": 100,
        "elected_uncleanly": False,
        "stopped_uncleanly": False,
        "wiped": False,
    }
    assert must_reconcile(**{**case, **change}) is needed


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8).map(sorted), st.integers(0, 30), st.integers(0, 30))
def test_a_lineage_names_the_writer_of_every_offset(starts, start, end):
    """Cutting a history does not change who wrote which offset, and leaves no epoch without offsets."""
    history = [E(epoch, first) for epoch, first in enumerate(starts)]

    def writer(epochs, offset):
        return next((e.epoch for e in reversed(epochs) if e.start_offset <= offset), None)

    cut = lineage(history, start, end)
    for offset in range(start, end):
        assert writer(cut, offset) == writer(history, offset)
    assert all(writer(cut, e.start_offset) == e.epoch for e in cut if start < end)
