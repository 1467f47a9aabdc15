"""The parts that a node plays."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from stratalog.metadata.raft.messages import AddVoterRequest, RemoveVoterRequest
from stratalog.metadata.raft.states import Leader, PendingChange, Role, Votes


def test_every_role_is_a_value_with_an_epoch_a_leader_and_a_vote():
    """The durable state is made of these three."""
    for role in get_args(Role):
        assert issubclass(role, Struct)
        assert role.__struct_config__.frozen
        for name in ("epoch", "leader_id", "voted"):
            assert hasattr(role, name), (role, name)


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=12))
def test_an_election_is_not_won_and_lost(answers):
    """Voters outside of the set do not count, and a vote that was given is not taken back."""
    from stratalog.metadata.raft.voter_set import ReplicaKey, Voter, VoterSet

    voters = VoterSet(tuple(Voter(ReplicaKey(each)) for each in range(1, 6)))
    votes = Votes(granted=frozenset({1}))
    for voter, granted in answers:
        before, votes = votes, votes.with_answer(voter, granted=granted)
        assert before.granted <= votes.granted
    assert not (votes.are_won(voters) and votes.are_lost(voters))
    yes = {voter for voter, granted in answers if granted and voter <= 5} | {1}
    assert votes.are_won(voters) is (len(yes) >= 3)
    assert votes.missing(voters) == voters.ids - {voter for voter, _ in answers} - {1}


def test_a_leader_is_active_from_the_first_commit_of_its_epoch():
    """High watermark -1 is Kafka's "not known"."""
    leader = Leader(3, 1, 10, check_quorum_deadline_ms=0, begin_due_ms=0)
    assert not leader.is_active
    assert structs.replace(leader, high_watermark=11).is_active


def test_only_an_addition_that_is_not_appended_waits_for_its_newcomer(quorum):
    """A removal asks no one."""
    add = PendingChange("t", AddVoterRequest(quorum.voter(4)), 0)
    assert add.newcomer == add.request
    assert structs.replace(add, offset=5).newcomer is None
    assert PendingChange("t", RemoveVoterRequest(quorum.key(3)), 0).newcomer is None
