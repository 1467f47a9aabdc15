"""Requests of other replicas of the metadata log, and of administrators."""

import pytest

from stratalog.broker.quorum.wire.received_requests import request_from_wire
from stratalog.broker.quorum.wire.sent_requests import request_to_wire
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.update_raft_voter import KRaftVersionFeature
from stratalog.wire.topic import ZERO_UUID

ME = ReplicaKey(2, b"me" * 8)
OTHER = ReplicaKey(1, b"he" * 8)
VOTER = Voter(OTHER, (Endpoint("CONTROLLER", "node1", 9093),))

VOTE = raft.VoteRequest(3, OTHER, ME, 2, 7)
BEGIN = raft.BeginQuorumEpochRequest(3, 1, ME, VOTER.endpoints)
END = raft.EndQuorumEpochRequest(3, 1, (ME,))
FETCH = raft.FetchRequest(3, OTHER, 7, 2, 5, 500)
SNAPSHOT = raft.FetchSnapshotRequest(3, OTHER, raft.OffsetAndEpoch(9, 2), 100)
ADD = raft.AddVoterRequest(VOTER)
REMOVE = raft.RemoveVoterRequest(OTHER)
UPDATE = raft.UpdateVoterRequest(3, VOTER)
OF_THE_LOG = [VOTE, BEGIN, END, FETCH, SNAPSHOT]
ALL = [*OF_THE_LOG, ADD, REMOVE, UPDATE]


def named(request):
    return type(request).__name__


def receive(message, version=None):
    last = type(message).versions[1]
    return request_from_wire(message, last if version is None else version, node_id=ME.id, cluster_id="cluster")


def refusal(message, version=None):
    with pytest.raises(KafkaError) as refused:
        receive(message, version)
    return refused.value.code


@pytest.mark.parametrize("request_", ALL, ids=named)
def test_a_request_for_another_cluster_is_refused_before_anything_else(request_):
    """Also if nothing else of it makes sense; a request that names no cluster is for any."""
    message = request_to_wire(request_)
    message.cluster_id = "another"
    if request_ in OF_THE_LOG:
        message.topics = []
    assert refusal(message) is ErrorCode.INCONSISTENT_CLUSTER_ID
    for named_cluster in (None, "cluster"):
        message = request_to_wire(request_)
        message.cluster_id = named_cluster
        assert receive(message).cluster_id == named_cluster


@pytest.mark.parametrize("request_", OF_THE_LOG, ids=named)
def test_a_request_names_one_topic_and_one_partition(request_):
    """None or several are refused as a whole."""
    for count in (0, 2):
        message = request_to_wire(request_)
        message.topics *= count
        assert refusal(message) is ErrorCode.INVALID_REQUEST
        message = request_to_wire(request_)
        message.topics[0].partitions *= count
        assert refusal(message) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("request_", OF_THE_LOG, ids=named)
def test_a_request_for_another_log_is_refused(request_):
    """By topic and by partition; for a snapshot with the code that Kafka has for it."""
    wanted = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if request_ is SNAPSHOT else ErrorCode.INVALID_REQUEST
    message = request_to_wire(request_)
    topic = message.topics[0]
    name = "topic_id" if request_ is FETCH else "name" if request_ is SNAPSHOT else "topic_name"
    known = getattr(topic, name)
    setattr(topic, name, ZERO_UUID if request_ is FETCH else "flights")
    assert refusal(message) is wanted
    setattr(topic, name, known)
    assert receive(message)
    partition = topic.partitions[0]
    setattr(partition, "partition" if request_ in (FETCH, SNAPSHOT) else "partition_index", 1)
    assert refusal(message) is wanted


def test_a_fetch_by_topic_name_is_refused(carried):
    """Up to version 12 there is no topic id, and the quorum knows its log by no other name."""
    message = request_to_wire(FETCH)
    message.topics[0].topic = "__cluster_metadata"
    assert refusal(carried(message, 12), 12) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("field", "value"),
    [("fetch_offset", -1), ("last_fetched_epoch", -1), ("last_fetched_epoch", 4), ("current_leader_epoch", 1)],
)
def test_a_fetch_with_numbers_that_cannot_be_is_refused(field, value):
    """Negative ones, and a last record from an epoch after the one that the replica is in."""
    message = request_to_wire(FETCH)
    setattr(message.topics[0].partitions[0], field, value)
    assert refusal(message) is ErrorCode.INVALID_REQUEST


def test_a_fetch_that_would_wait_for_a_negative_time_is_refused():
    """As in Kafka."""
    message = request_to_wire(FETCH)
    message.max_wait_ms = -1
    assert refusal(message) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("request_", "field"),
    [(VOTE, "replica_id"), (BEGIN, "leader_id"), (END, "leader_id")],
    ids=["vote", "begin", "end"],
)
def test_a_candidate_or_leader_has_an_id(request_, field):
    """A negative one stands for no node."""
    message = request_to_wire(request_)
    setattr(message.topics[0].partitions[0], field, -1)
    assert refusal(message) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("request_", [ADD, REMOVE, UPDATE], ids=named)
def test_a_voter_has_an_id(request_):
    """A negative one stands for no node."""
    message = request_to_wire(request_)
    message.voter_id = -1
    assert refusal(message) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("levels", [(1, 0), (-1, 1)])
def test_a_voter_runs_a_range_of_levels(levels):
    """From the lowest to the highest, none below 0."""
    message = request_to_wire(UPDATE)
    message.kraft_version_feature = KRaftVersionFeature(
        min_supported_version=levels[0], max_supported_version=levels[1]
    )
    assert refusal(message) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("request_", [VOTE, BEGIN], ids=named)
def test_a_request_that_names_no_voter_is_for_the_one_that_gets_it(request_):
    """Version 0 has no room for it."""
    message = request_to_wire(request_)
    message.voter_id = -1
    assert receive(message).voter == ReplicaKey(ME.id)


@pytest.mark.parametrize("request_", [BEGIN, ADD, UPDATE], ids=named)
def test_names_of_listeners_have_no_case(request_):
    """As in Kafka they are compared in upper case."""
    message = request_to_wire(request_)
    (message.leader_endpoints if request_ is BEGIN else message.listeners)[0].name = "Controller"
    assert receive(message) == receive(request_to_wire(request_))


@pytest.mark.parametrize("request_", [ADD, UPDATE], ids=named)
@pytest.mark.parametrize(("listener", "kept"), [("controller", True), ("OTHER", False), (None, True)])
def test_a_voter_that_replicas_cannot_reach_has_no_endpoints(request_, listener, kept):
    """The leader refuses it, after it has looked at what comes first in Kafka."""
    message = request_to_wire(request_)
    request = request_from_wire(message, 0, node_id=ME.id, cluster_id="cluster", listener=listener)
    assert request.voter.endpoints == (VOTER.endpoints if kept else ())


def test_a_replica_that_cannot_tell_its_high_watermark_has_one_above_any():
    """So a new high watermark is no news to it: it could not show that it has it."""
    message = request_to_wire(FETCH)
    message.topics[0].partitions[0].high_watermark = 2**63 - 1
    assert receive(message).high_watermark == 2**63 - 1


def test_other_messages_are_no_requests_of_the_quorum():
    """That is a fault of the caller."""
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    with pytest.raises(TypeError, match="HeartbeatRequest"):
        receive(message)
