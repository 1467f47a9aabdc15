"""The metadata log as a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.raft.log_view import BEFORE_THE_LOG, EpochStart, LogView
from stratalog.metadata.raft.messages import Batch, KRaftVersion, OffsetAndEpoch, Voters
from stratalog.metadata.raft.voter_set import VoterSet
from stratalog.wire.errors import Invalid


def written(epochs):
    """A log with one record of each epoch."""
    return LogView().appended(Batch(at, at + 1, epoch) for at, epoch in enumerate(epochs))


@pytest.mark.parametrize(
    ("epoch", "end"), [(0, (0, 0)), (1, (2, 1)), (2, (2, 1)), (3, (3, 3)), (5, (5, 5)), (6, (5, 5))]
)
def test_the_end_of_an_epoch(epoch, end):
    """The end of the largest one up to it; below all the first offset, above all the log end (Kafka's epoch cache)."""
    assert written([1, 1, 3, 5, 5]).end_of(epoch) == end


@pytest.mark.parametrize(
    ("offset", "last_epoch", "parts"),
    [
        (0, 0, None),
        (2, 1, None),
        (1, 1, None),
        (5, 5, None),
        (3, 1, (2, 1)),
        (4, 2, (2, 1)),
        (6, 5, (5, 5)),
        (2, 0, (0, 0)),
    ],
)
def test_where_another_log_parts(offset, last_epoch, parts):
    """None if all of it is here."""
    assert written([1, 1, 3, 5, 5]).where_parts(offset, last_epoch) == parts


@given(st.lists(st.integers(0, 1), max_size=8), st.lists(st.integers(0, 1), max_size=8), st.integers(0, 8))
def test_following_the_places_where_logs_part_ends_with_the_leaders_log(mine, theirs, shared):
    """Two logs with a common beginning and any epochs behind it: the follower cuts, and is a beginning of the leader's."""
    beginning = [1] * shared

    def raised(steps, start, by):
        epochs = []
        for step in steps:
            start += step * by
            epochs.append(start)
        return epochs

    leader = beginning + raised(theirs, 1, 2)
    follower = beginning + [epoch + (epoch > 1) for epoch in raised(mine, 1, 2)]  # an epoch has one leader
    if follower[shared:] and follower[shared] == 1 and leader[shared : shared + 1] != [1]:
        follower = beginning
    view, other = written(leader), written(follower)
    for _ in range(20):
        parting = view.where_parts(other.end_offset, other.last_epoch)
        if parting is None:
            break
        own = other.end_of(parting.epoch)
        cut = min(own.offset, parting.offset) if own.epoch == parting.epoch else own.offset
        assert cut < other.end_offset
        other = other.truncated(cut)
    assert follower[: other.end_offset] == leader[: other.end_offset]


def test_appends_follow_the_end_and_epochs_never_go_back():
    """A driver that decodes wrongly is found here."""
    log = written([1, 2])
    for wrong in (Batch(3, 4, 2), Batch(2, 3, 1), Batch(2, 2, 2)):
        with pytest.raises(Invalid, match="does not follow"):
            log.appended([wrong])


def test_voters_and_levels_come_and_go_with_their_records(quorum):
    """The newest counts; a truncation takes it back; at an offset only those below count."""
    first, second = quorum.voters(1), quorum.voters(1, 2)
    log = LogView(voter_sets=((BEFORE_THE_LOG, first),))
    log = log.appended([Batch(0, 3, 1, (KRaftVersion(1), Voters(second), Voters(first)))])
    assert (log.voters, log.voters_offset, log.kraft_version) == (first, 2, 1)
    assert log.voters_at(2) == second
    assert log.voters_at(1) == first
    assert (log.kraft_version_at(0), log.kraft_version_at(1)) == (0, 1)
    cut = log.truncated(2)
    assert (cut.voters, cut.kraft_version) == (second, 1)
    assert (log.truncated(0).voters, log.truncated(0).kraft_version) == (first, 0)
    assert LogView().voters == VoterSet()


def test_a_truncation_takes_synced_records_too():
    """The shorter log is then what is on disk."""
    log = written([1, 1, 2]).flushed(3).truncated(1)
    assert (log.end_offset, log.flushed_offset, log.epochs) == (1, 1, (EpochStart(1, 0),))
    assert log.truncated(5) == log


def test_a_cleaned_log_begins_at_a_snapshot_and_keeps_its_epoch(quorum):
    """The epoch that covers the start stays, moved up."""
    log = written([1, 1, 2, 2]).with_snapshot(OffsetAndEpoch(1, 1)).with_snapshot(OffsetAndEpoch(3, 2))
    cleaned = log.cleaned(OffsetAndEpoch(3, 2))
    assert (cleaned.start_offset, cleaned.epochs, cleaned.snapshots) == (
        3,
        (EpochStart(2, 3),),
        (OffsetAndEpoch(3, 2),),
    )
    with pytest.raises(Invalid, match="no such snapshot"):
        log.cleaned(OffsetAndEpoch(2, 1))


@pytest.mark.parametrize(
    ("offset", "last_epoch", "needed"),
    [(0, 0, True), (2, 1, True), (3, 1, True), (3, 2, False), (4, 2, False), (4, 1, True)],
)
def test_a_replica_that_the_log_cannot_serve_needs_the_snapshot(offset, last_epoch, needed):
    """Below the start, at it with another epoch, or with an epoch from before."""
    log = written([1, 1, 2, 2]).with_snapshot(OffsetAndEpoch(3, 2)).cleaned(OffsetAndEpoch(3, 2))
    assert log.snapshot_for(offset, last_epoch) == (OffsetAndEpoch(3, 2) if needed else None)


def test_an_empty_replica_gets_a_snapshot_although_the_log_has_everything():
    """Kafka's rule; the checkpoint 0-0 is none to begin with."""
    log = written([1, 1])
    assert log.with_snapshot(OffsetAndEpoch(0, 0)).snapshot_for(0, 0) is None
    assert log.with_snapshot(OffsetAndEpoch(1, 1)).snapshot_for(0, 0) == (1, 1)
    assert log.with_snapshot(OffsetAndEpoch(1, 1)).snapshot_for(1, 1) is None


def test_a_log_that_ends_below_its_newest_snapshot_is_overtaken(quorum):
    """A start goes on behind the snapshot, with what the snapshot says of the voters."""
    log = written([1]).with_snapshot(OffsetAndEpoch(4, 2))
    assert log.overtaken_by == (4, 2)
    assert written([1, 2]).with_snapshot(OffsetAndEpoch(1, 1)).overtaken_by is None
    again = log.restarted_at(OffsetAndEpoch(4, 2), quorum.voters(2), 1)
    assert (again.start_offset, again.end_offset, again.flushed_offset, again.last_epoch) == (4, 4, 4, 2)
    assert (again.voters, again.kraft_version, again.overtaken_by) == (quorum.voters(2), 1, None)
    assert again.end_of(2) == (4, 2)
    assert again.epoch_at(4) == 2


def test_a_log_covers_another_by_epoch_and_end():
    """The last epoch decides, then the length."""
    log = written([1, 3])
    assert [log.is_covered_by(*each) for each in ((2, 9), (3, 1), (3, 2), (4, 0))] == [False, False, True, True]
