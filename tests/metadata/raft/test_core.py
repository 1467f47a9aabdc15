"""The memory of one node, and the ways in which it changes."""

from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.core import Identity, RaftCore, durable_state
from stratalog.metadata.raft.messages import Batch, Voters
from stratalog.metadata.raft.states import Follower, Unattached
from stratalog.metadata.raft.timeouts import RaftTimeouts


def core_of(quorum, *epochs, stored=None):
    """Voter 1 with a log."""
    return RaftCore(
        Identity(quorum.key(1), quorum.endpoints(1), "cluster"), RaftTimeouts(), quorum.log(*epochs), stored
    )


def test_equal_states_are_stored_once(quorum):
    """A role that changes nothing durable writes nothing: the disk is not the place of timers."""
    core = core_of(quorum)
    core.detach(1)
    core.detach(1)
    assert [type(action) for action in core.actions] == [act.StoreQuorumState]


def test_a_follower_keeps_its_vote_of_the_epoch_and_no_other(quorum):
    """Kafka's file has the vote beside the leader."""
    core = core_of(quorum)
    core.detach(1, voted=quorum.key(3))
    core.follow(1, 2)
    assert durable_state(core.role, core.log) == QuorumState(1, 2, 3, quorum.key(3).directory_id, data_version=1)
    core.follow(2, 3)
    assert core.role.voted is None


def test_messages_of_older_epochs_are_void_and_those_of_higher_ones_obeyed(quorum):
    """A leader of the same epoch is followed by a node that has none."""
    core = core_of(quorum)
    core.detach(3)
    assert core.heed(2, 2, ())
    assert core.role.epoch == 3
    assert not core.heed(3, -1, ())
    assert core.heed(3, 2, ())
    assert isinstance(core.role, Follower)
    assert core.heed(4, -1, ())
    assert (type(core.role), core.role.epoch, core.role.leader_id) == (Unattached, 4, -1)


def test_a_node_that_is_said_to_lead_without_knowing_believes_the_epoch_only(quorum):
    """Its disk was replaced under the same id: another one led."""
    core = core_of(quorum)
    assert core.heed(5, 1, quorum.endpoints(1))
    assert (core.role.epoch, core.role.leader_id, core.stopped) == (5, -1, False)
    assert not core.heed(5, 1, quorum.endpoints(1))


def test_two_leaders_of_one_epoch_stop_the_process(quorum):
    """There is no safe way on."""
    core = core_of(quorum)
    core.follow(1, 2)
    assert core.heed(1, 3, ())
    assert core.stopped
    assert isinstance(core.actions[-1], act.Stop)


def test_a_sync_is_asked_for_once_and_again_after_a_truncation(quorum):
    """With the number of truncations, so that an old sync is known as one."""
    core = core_of(quorum)
    core.append((Batch(0, 3, 1),))
    core.request_flush()
    core.request_flush()
    core.truncate(1)
    core.append((Batch(1, 2, 1),))
    core.request_flush()
    flushes = [action for action in core.actions if isinstance(action, act.Flush)]
    assert flushes == [act.Flush(3, 0), act.Flush(2, 1)]


def test_static_voters_in_the_file_follow_the_log(quorum):
    """A voters record makes version 1 store no list."""
    core = core_of(quorum)
    core.detach(1)
    core.append((Batch(0, 1, 1, (Voters(quorum.voters(1, 2)),)),))
    assert durable_state(core.role, core.log).voters == ()


def test_one_request_to_a_peer_at_a_time_and_none_in_its_backoff(quorum):
    """A failed peer is left alone for retry.backoff.ms."""
    core = core_of(quorum)
    assert core.may_send(2)
    core.send(2, "request")
    assert not core.may_send(2)
    assert not core.is_expected(2, "another request")
    assert core.is_expected(2, "request")
    core.back_off(2)
    assert not core.may_send(2)
    core.now_ms += 20
    assert core.may_send(2)


def test_a_request_names_its_cluster_or_none(quorum):
    """Null passes, as in Kafka."""
    core = core_of(quorum)
    assert [core.is_foreign(name) for name in (None, "cluster", "other")] == [False, False, True]


def test_those_who_could_follow_a_leader_are_counted_round_from_it(quorum):
    """Every node has the same order; one that is no voter shares the last place."""
    core = core_of(quorum)
    assert [core.place_behind(leader) for leader in (2, 3)] == [(1, 2), (0, 2)]
    for voters, place in (((2, 3, 4), (1, 2)), ((2,), (0, 1))):
        core.log = quorum.log(voters=quorum.voters(*voters))
        assert core.place_behind(2) == place
