"""The metadata log as a start finds it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.broker.quorum.control_records import quorum_records
from stratalog.broker.quorum.log_views import view_of
from stratalog.metadata.raft.log_view import BEFORE_THE_LOG, LogView
from stratalog.metadata.raft.messages import Batch, KRaftVersion, OffsetAndEpoch, Voters
from stratalog.metadata.raft.voter_set import ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import Corrupt


def voters(*ids):
    return VoterSet(tuple(Voter(ReplicaKey(node_id, bytes([node_id]) * 16)) for node_id in ids))


def test_a_new_node_has_the_voters_of_its_settings():
    """Before any record: level 0."""
    view = view_of(0, 0, [], static_voters=voters(1, 2, 3))
    assert view == LogView(voter_sets=((BEFORE_THE_LOG, voters(1, 2, 3)),))
    assert (view.kraft_version, view.voters_offset) == (0, BEFORE_THE_LOG)


def test_a_node_that_was_formatted_has_the_voters_of_its_first_snapshot():
    """They stand before the log: the first leader writes them into it."""
    first = OffsetAndEpoch(0, 0)
    view = view_of(0, 0, [], [first], quorum=quorum_records(voters(1), 1))
    assert (view.voters, view.voters_offset, view.kraft_version) == (voters(1), BEFORE_THE_LOG, 1)
    assert view.snapshot_for(0, 0) is None


def test_a_node_without_voters_is_an_observer():
    """It learns them from the log of the leader."""
    assert view_of(0, 0, []) == LogView()


def test_records_behind_the_newest_snapshot_count_and_those_below_it_do_not():
    """The snapshot has them already."""
    snapshots = [OffsetAndEpoch(20, 2), OffsetAndEpoch(10, 1)]
    control = [(3, Voters(voters(1))), (15, Voters(voters(1, 2))), (20, KRaftVersion(1)), (21, Voters(voters(1, 2, 3)))]
    known = quorum_records(voters(1, 2), 1)
    view = view_of(10, 30, [(1, 10), (2, 14)], snapshots, control, quorum=known, quorum_end=20)
    assert view.snapshots == (OffsetAndEpoch(10, 1), OffsetAndEpoch(20, 2))
    assert view.voter_sets == ((19, voters(1, 2)), (21, voters(1, 2, 3)))
    assert view.kraft_versions == ((19, 1), (20, 1))
    assert (view.start_offset, view.end_offset, view.flushed_offset, view.last_epoch) == (10, 30, 30, 2)


def test_static_voters_count_until_a_record_names_others():
    """A snapshot of level 0 has none."""
    static, newest = voters(1, 2, 3), OffsetAndEpoch(10, 1)
    assert view_of(10, 12, [(1, 10)], [newest], static_voters=static).voters == static
    upgrade = [(10, KRaftVersion(1)), (11, Voters(voters(1, 2)))]
    view = view_of(10, 12, [(1, 10)], [newest], upgrade, static_voters=static)
    assert (view.voters, view.kraft_version) == (voters(1, 2), 1)
    assert view.truncated(11).voters == static
    known = quorum_records(voters(4), 1)
    dynamic = view_of(10, 12, [(1, 10)], [newest], quorum=known, quorum_end=10, static_voters=static)
    assert dynamic.voters == voters(4)


def test_voters_of_an_older_snapshot_are_followed_by_all_that_the_log_says_since():
    """A newer snapshot that was not read has told no one of the records below it."""
    control = [(3, Voters(voters(1, 2))), (7, Voters(voters(1, 2, 3))), (12, Voters(voters(2, 3)))]
    snapshots = [OffsetAndEpoch(0, 0), OffsetAndEpoch(10, 1)]
    view = view_of(0, 11, [(1, 0)], snapshots, control[:2], quorum=quorum_records(voters(1), 1), quorum_end=0)
    assert view.voters == voters(1, 2, 3)
    assert view.voters_at(5) == voters(1, 2)
    ahead = view_of(0, 13, [(1, 0)], snapshots, control, quorum=quorum_records(voters(2, 3), 1), quorum_end=13)
    assert ahead.voter_sets == ((12, voters(2, 3)),)


def test_a_log_that_does_not_reach_back_to_a_snapshot_is_corrupt():
    """The records between are gone."""
    with pytest.raises(Corrupt, match=r"begins at offset 11, .* the newest one ends at 10"):
        view_of(11, 12, [(1, 11)], [OffsetAndEpoch(10, 1)])
    with pytest.raises(Corrupt, match=r"begins at offset 5, .* the newest one ends at 0"):
        view_of(5, 12, [(1, 5)])


def test_snapshots_from_before_the_log_serve_no_one():
    """A kill may come before they are removed, and a fetched snapshot leaves them there. A replica that begins with the
    newest goes on in the log, and one with other records below the log's start does not.
    """
    snapshots = [OffsetAndEpoch(0, 0), OffsetAndEpoch(10, 4), OffsetAndEpoch(20, 5)]
    view = view_of(20, 30, [(5, 20)], snapshots)
    assert view.snapshot_for(20, 5) is None
    assert view.snapshot_for(20, 4) == (20, 5)
    assert view.snapshot_for(25, 4) == (20, 5)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.booleans()), max_size=8), st.data())
def test_a_start_sees_what_the_machine_has_seen(steps, data):
    """A log of the machine, written down and read again, is the same for all that follows."""
    view, end, epoch, control = LogView(), 0, 1, []
    for rise, count, is_control in steps:
        epoch += rise
        records = tuple(
            data.draw(st.sampled_from([KRaftVersion(1), Voters(voters(1)), Voters(voters(1, 2))]))
            for _ in range(count if is_control else 0)
        )
        control += enumerate(records, end)
        view = view.appended([Batch(end, end + count, epoch, records)])
        end += count
    at = data.draw(st.integers(0, end))
    level, known = view.kraft_version_at(at), view.voters_at(at)
    if at == 0 or (level == 0 and known.voters):
        assert view_of(0, end, view.epochs, (), control) == view.flushed(end)
        return
    snapshot = OffsetAndEpoch(at, view.epoch_at(at))
    cleaned = view.flushed(end).with_snapshot(snapshot).cleaned(snapshot)
    start = view_of(at, end, cleaned.epochs, [snapshot], control, quorum=quorum_records(known, level), quorum_end=at)
    assert (start.epochs, start.snapshots, start.end_offset) == (cleaned.epochs, cleaned.snapshots, end)
    for offset in range(at, end + 1):
        assert start.voters_at(offset) == cleaned.voters_at(offset)
        assert start.kraft_version_at(offset) == cleaned.kraft_version_at(offset)
        assert start.truncated(offset).voters == cleaned.truncated(offset).voters
