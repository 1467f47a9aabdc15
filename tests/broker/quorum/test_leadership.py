"""The metadata quorum as the rest of a node sees it."""

from stratalog.broker.quorum.leadership import LeaderAndEpoch, ReplicaStatus
from stratalog.metadata.raft.voter_set import ReplicaKey
from stratalog.wire.messages.describe_quorum import ReplicaState
from stratalog.wire.messages.fetch import LeaderIdAndEpoch
from stratalog.wire.topic import ZERO_UUID


def test_a_node_that_has_just_started_knows_no_leader() -> None:
    """The id is the one that stands for "not known" on the wire, and no address goes with it."""
    leader = LeaderAndEpoch()
    assert leader.leader_id == LeaderIdAndEpoch().leader_id
    assert (leader.epoch, leader.endpoints) == (0, ())


def test_a_replica_that_has_not_fetched_has_the_times_that_the_wire_leaves_out() -> None:
    """The defaults of a status are those of DescribeQuorum."""
    status = ReplicaStatus(ReplicaKey(3))
    described = ReplicaState(replica_id=3, log_end_offset=-1)
    assert status.key.directory_id == described.replica_directory_id == ZERO_UUID
    assert status.last_fetch_ms == described.last_fetch_timestamp
    assert status.last_caught_up_ms == described.last_caught_up_timestamp
    assert status.log_end_offset == described.log_end_offset
