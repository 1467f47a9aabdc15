"""Sentences about what keeps a node from its quorum, and how often they come."""

from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.broker.quorum.obstacles import AGAIN_SECONDS, PATIENCE_SECONDS, Obstacles, ahead_of_quorum
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from stratalog.wire.topic import uuid_text

ME = ReplicaKey(1, b"m" * 16)
NOBODY, LEADER = LeaderAndEpoch(epoch=4), LeaderAndEpoch(2, 4)
VOTERS = VoterSet((Voter(ME, (Endpoint("C", "a", 1),)), Voter(ReplicaKey(2, b"2" * 16), (Endpoint("C", "b", 2),))))


def obstacles(**options):
    return Obstacles(ME, "mine", now=0.0, **{"is_controller": True, **options})


def test_a_time_without_a_leader_is_said_when_it_lasts_and_then_each_minute():
    """With the voters, and with how each server answered last."""
    found = obstacles()
    found.heard("node 2 (b:2)", "does not answer (Connection refused)")
    assert found.look(NOBODY, VOTERS, PATIENCE_SECONDS - 1) == []
    (sentence,) = found.look(NOBODY, VOTERS, PATIENCE_SECONDS)
    assert "no leader of the metadata quorum for 10 s, in epoch 4" in sentence
    assert "Voters: 1 (a:1), 2 (b:2). Last answers: node 2 (b:2) does not answer (Connection refused)" in sentence
    assert found.look(NOBODY, VOTERS, PATIENCE_SECONDS + AGAIN_SECONDS - 1) == []
    assert len(found.look(NOBODY, VOTERS, PATIENCE_SECONDS + AGAIN_SECONDS)) == 1


def test_a_voter_that_has_moved_without_its_quorum_says_how_to_move():
    """Where all voters move at once, each asks the others where none of them is any more, and none is ever elected."""
    (sentence,) = obstacles(address=("a", 9)).look(NOBODY, VOTERS, PATIENCE_SECONDS)
    assert "Voters: 1 (a:1), 2 (b:2)" in sentence
    assert "another address, a:9" in sentence
    assert "start a majority of them at their old addresses, then move one after another" in sentence
    for found, voters in ((obstacles(address=("a", 1)), VOTERS), (obstacles(address=("a", 9)), VoterSet())):
        assert "another address" not in found.look(NOBODY, voters, PATIENCE_SECONDS)[0]


def test_a_leader_ends_it_and_the_next_time_counts_from_there():
    """A server that answers well is not named any more."""
    found = obstacles()
    found.heard("s", "does not answer")
    assert found.look(NOBODY, VoterSet(), 20)
    assert found.look(LEADER, VOTERS, 21) == []
    found.heard("s")
    assert found.look(NOBODY, VoterSet(), 21 + PATIENCE_SECONDS - 1) == []
    (sentence,) = found.look(NOBODY, VoterSet(), 21 + PATIENCE_SECONDS)
    assert "Last answers" not in sentence
    assert "Voters" not in sentence


def test_a_server_of_another_cluster_is_said_at_once_and_each_minute_with_both_ids():
    """It refuses fifty times a second. One that was put right is news again."""
    found = obstacles()
    assert [found.is_news("s", at) for at in (0, 0.02, AGAIN_SECONDS)] == [True, False, True]
    assert "s belongs to cluster theirs, and this node to cluster mine" in found.of_another_cluster("s", "theirs")
    assert "s belongs to another cluster" in found.of_another_cluster("s", None)
    assert "s belongs to another cluster" in found.look(NOBODY, VOTERS, 99)[0]
    found.heard("s")
    assert found.is_news("s", AGAIN_SECONDS + 1)


def test_a_controller_whose_directory_is_no_voters_says_so():
    """A voter with a wiped disk, or with another one's meta.properties, waits for ever otherwise; brokers never vote."""
    replaced = VoterSet((Voter(ReplicaKey(1, b"o" * 16)),))
    (sentence,) = obstacles().look(LEADER, replaced, 1)
    assert (
        f"with the directory {uuid_text(b'o' * 16)}, and meta.properties here says {uuid_text(ME.directory_id)}"
        in sentence
    )
    assert obstacles().look(LEADER, VOTERS, 1) == []
    assert obstacles().look(LEADER, VoterSet((Voter(ReplicaKey(1)),)), 1) == []
    assert obstacles(is_controller=False).look(LEADER, replaced, 1) == []


def test_servers_are_counted():
    """The addresses come from others."""
    found = obstacles()
    for number in range(200):
        found.heard(f"s{number}", "does not answer")
    assert len(found._last) == 64


def test_a_log_ahead_of_its_quorum_is_said_with_both_epochs():
    """And with what to move away."""
    assert "is in epoch 2 and has never had epoch 9" in ahead_of_quorum(9, 2)
