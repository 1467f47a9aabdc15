"""Voters by id and directory."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet


def test_a_key_without_a_directory_means_any():
    """Static voters are known by id; a key with a directory means that disk alone."""
    disk, other = bytes([1]) * 16, bytes([2]) * 16
    assert ReplicaKey(1).matches(ReplicaKey(1, disk))
    assert ReplicaKey(1, disk).matches(ReplicaKey(1, disk))
    assert not ReplicaKey(1, disk).matches(ReplicaKey(1, other))
    assert not ReplicaKey(1, disk).matches(ReplicaKey(1))
    assert not ReplicaKey(1).matches(ReplicaKey(2, disk))


def test_a_voter_is_the_same_with_its_endpoints_in_any_order():
    """A record by Kafka has them in the order of a map."""
    one, two = Endpoint("A", "a", 1), Endpoint("B", "b", 2)
    voter = Voter(ReplicaKey(1, bytes(16)), (one, two))
    assert voter.is_same(replace(voter, endpoints=(two, one)))
    assert not voter.is_same(replace(voter, endpoints=(one,)))
    assert not voter.is_same(replace(voter, kraft_versions=(0, 0)))


def test_a_voter_runs_the_levels_of_its_range():
    """Both ends included."""
    voter = Voter(ReplicaKey(1), kraft_versions=(1, 2))
    assert [voter.can_run(level) for level in (0, 1, 2, 3)] == [False, True, True, False]


@given(st.sets(st.integers(1, 9), min_size=1, max_size=9))
def test_two_majorities_share_a_voter(ids):
    """Also of two sets that differ by one voter: that is why one change at a time is safe."""
    voters = VoterSet(tuple(Voter(ReplicaKey(each)) for each in sorted(ids)))
    more = voters.added(Voter(ReplicaKey(10)))
    assert 2 * voters.majority > len(voters)
    assert voters.majority + more.majority > len(more)
    assert more.removed(ReplicaKey(10)) == voters


def test_sets_keep_the_order_of_ids_and_replace_by_id(quorum):
    """Whichever voter comes last."""
    voters = quorum.voters(2, 3).added(quorum.voter(1))
    assert [voter.key.id for voter in voters] == [1, 2, 3]
    assert voters.updated(quorum.voter(2, 1)).voter(2).key == quorum.key(2, 1)
    assert voters.removed(quorum.key(2, 1)) == voters
    assert [voter.key.id for voter in voters.others(1)] == [2, 3]
    assert (voters.endpoints_of(1), voters.endpoints_of(9)) == (quorum.endpoints(1), ())
    assert voters.has(quorum.key(1))
    assert not voters.has(quorum.key(1, 1))
