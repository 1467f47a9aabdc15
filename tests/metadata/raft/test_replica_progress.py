"""A leader's knowledge of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.metadata.raft.replica_progress import NEVER_MS, OBSERVERS_MAX, ReplicaProgress
from stratalog.metadata.raft.voter_set import ReplicaKey, Voter, VoterSet


@pytest.mark.parametrize(
    ("flushed", "second", "third", "high_watermark"), [(9, 5, 3, 5), (2, 5, 3, 3), (9, None, None, -1), (4, 5, None, 4)]
)
def test_a_majority_decides_with_the_leaders_synced_end(quorum, flushed, second, third, high_watermark):
    """The middle one of three ends; a voter that has never fetched has none."""
    progress = ReplicaProgress()
    for node_id, end in ((2, second), (3, third)):
        if end is not None:
            progress = progress.fetched(quorum.key(node_id), end, 9, 0)
    assert progress.high_watermark(quorum.voters(), quorum.key(1), flushed) == high_watermark


@given(st.integers(1, 7), st.data())
def test_a_majority_has_what_is_below_the_high_watermark(count, data):
    """And no higher offset is had by one."""
    keys = [ReplicaKey(each, bytes([each]) * 16) for each in range(1, count + 1)]
    voters = VoterSet(tuple(Voter(key) for key in keys))
    ends = [data.draw(st.integers(0, 20)) for _ in keys]
    progress = ReplicaProgress()
    for key, end in zip(keys[1:], ends[1:], strict=True):
        progress = progress.fetched(key, end, 20, 0)
    found = progress.high_watermark(voters, keys[0], ends[0])
    assert sum(end >= found for end in ends) >= voters.majority
    assert sum(end > found for end in ends) < voters.majority


def test_a_leader_outside_of_the_voters_does_not_count_itself(quorum):
    """Its removal is committed by those that stay."""
    progress = ReplicaProgress().fetched(quorum.key(2), 5, 9, 0)
    assert progress.high_watermark(quorum.voters(2), quorum.key(1), 9) == 5


def test_fetches_of_another_disk_are_another_replicas(quorum):
    """Every disk of a static voter counts, the latest fetch last."""
    progress = ReplicaProgress().fetched(quorum.key(2, 1), 9, 9, 5)
    assert progress.of(quorum.key(2)).end_offset == -1
    progress = progress.fetched(quorum.key(2), 4, 9, 6)
    assert progress.of(ReplicaKey(2)).end_offset == 4
    assert len(progress.replicas) == 2


def test_a_replica_has_caught_up_when_it_reaches_the_end_of_then_or_of_its_last_fetch(quorum):
    """A busy log need not stand still for that."""
    key, progress = quorum.key(2), ReplicaProgress()
    progress = progress.fetched(key, 5, 10, 100)
    assert progress.of(key).caught_up_ms == NEVER_MS
    progress = progress.fetched(key, 10, 20, 200)
    assert progress.of(key).caught_up_ms == 100
    progress = progress.fetched(key, 20, 20, 300)
    assert progress.of(key).caught_up_ms == 300


def test_silent_observers_are_forgotten_and_voters_are_not(quorum):
    """Nodes come and go; the voters are few."""
    progress = ReplicaProgress().fetched(quorum.key(2), 1, 1, 0).fetched(quorum.key(9), 1, 1, 0)
    kept = progress.remembered(quorum.voters(), 1)
    assert [each.key for each in kept.replicas] == [quorum.key(2)]
    assert progress.remembered(quorum.voters(), 0) == replace(progress)


def test_observers_beyond_the_most_are_forgotten_the_most_silent_first(quorum):
    """Voters stay, under any number of strangers; also strangers under the id of a voter."""
    progress = ReplicaProgress().fetched(quorum.key(2), 1, 1, 0)
    for at in range(OBSERVERS_MAX + 5):
        stranger = ReplicaKey(2 if at % 2 else 50, at.to_bytes(16, "big"))
        progress = progress.fetched(stranger, 1, 1, at).bounded(quorum.voters())
    assert len(progress.replicas) == OBSERVERS_MAX + 1
    assert progress.of(quorum.key(2)).end_offset == 1
    strangers = {each.fetched_ms for each in progress.replicas if each.key != quorum.key(2)}
    assert strangers == set(range(5, OBSERVERS_MAX + 5))


def test_the_successor_with_most_of_the_log_comes_first(quorum):
    """Ties go by id."""
    progress = ReplicaProgress().fetched(quorum.key(3), 7, 9, 0)
    assert [key.id for key in progress.successors(quorum.voters(), quorum.key(1))] == [3, 2]
    assert [key.id for key in ReplicaProgress().successors(quorum.voters(), quorum.key(1))] == [2, 3]
