"""Requests to other replicas of the metadata log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.broker.quorum.wire.received_requests import request_from_wire
from stratalog.broker.quorum.wire.sent_requests import oldest_version, request_to_wire
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter
from stratalog.wire.topic import ZERO_UUID

ME = ReplicaKey(2, b"me" * 8)
OTHER = ReplicaKey(1, b"he" * 8)
AT = (Endpoint("CONTROLLER", "node1", 9093),)


def in_version(request, version):
    """The part of a request that a version of its message carries."""

    def bare(key):
        return ReplicaKey(key.id)

    match request:
        case raft.VoteRequest() if version == 0:
            return replace(request, candidate=bare(request.candidate), voter=bare(ME))
        case raft.BeginQuorumEpochRequest() if version == 0:
            return replace(request, voter=bare(ME), endpoints=())
        case raft.EndQuorumEpochRequest() if version == 0:
            return replace(request, successors=tuple(map(bare, request.successors)))
        case raft.FetchRequest():
            known = request if version >= 18 else replace(request, high_watermark=2**63 - 1)
            return known if version >= 17 else replace(known, replica=bare(request.replica))
        case raft.FetchSnapshotRequest() if version == 0:
            return replace(request, replica=bare(request.replica))
    return request


def test_a_request_comes_out_as_it_went_in(drawn, carried):
    """In every version from the oldest that may carry it; what an older version lacks is known by id alone, or not."""

    @settings(deadline=None)
    @given(drawn.requests)
    def check(request):
        message = request_to_wire(request)
        first, last = oldest_version(request), type(message).versions[1]
        for version in range(first, last + 1):
            arrived = carried(message, version)
            assert request_from_wire(arrived, version, node_id=ME.id, cluster_id="cluster") == in_version(
                request, version
            )

    check()


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (raft.VoteRequest(3, OTHER, ME, 2, 7, pre_vote=True), 2),
        (raft.VoteRequest(3, OTHER, ME, 2, 7), 0),
        (raft.AddVoterRequest(Voter(OTHER, AT), ack_when_committed=False), 1),
        (raft.AddVoterRequest(Voter(OTHER, AT)), 0),
        (raft.FetchRequest(3, OTHER, 7, 2), 13),
        (raft.RemoveVoterRequest(OTHER), 0),
    ],
    ids=["pre-vote", "vote", "addition at append", "addition at commit", "fetch", "removal"],
)
def test_the_oldest_version_is_the_first_that_says_what_is_meant(request_, version):
    """A pre-vote in an older version would be a vote."""
    assert oldest_version(request_) == version


def test_a_fetch_is_that_of_kafka():
    """No session, no bound for the partition, the replica's id where each version looks for it."""
    message = request_to_wire(raft.FetchRequest(3, OTHER, 7, 2, 5, 500, "cluster"), max_bytes=1000)
    assert (message.session_id, message.session_epoch, message.min_bytes, message.max_bytes) == (0, -1, 0, 1000)
    assert (message.max_wait_ms, message.cluster_id, message.replica_id) == (500, "cluster", 1)
    assert (message.replica_state.replica_id, message.replica_state.replica_epoch) == (1, -1)
    ((topic,), ((asked,),)) = message.topics, [topic.partitions for topic in message.topics]
    assert topic.topic_id.hex() == "00000000000000000000000000000001"
    assert (asked.partition, asked.current_leader_epoch, asked.fetch_offset) == (0, 3, 7)
    assert (asked.last_fetched_epoch, asked.log_start_offset, asked.partition_max_bytes) == (2, -1, 0)
    assert (asked.replica_directory_id, asked.high_watermark) == (OTHER.directory_id, 5)


def test_a_leader_that_gives_up_names_its_successors_for_both_versions():
    """And not its own addresses: it leads no more."""
    message = request_to_wire(raft.EndQuorumEpochRequest(3, 1, (ME, OTHER), "cluster"))
    asked = message.topics[0].partitions[0]
    assert asked.preferred_successors == [2, 1]
    assert [(one.candidate_id, one.candidate_directory_id) for one in asked.preferred_candidates] == [ME, OTHER]
    assert message.leader_endpoints == []


def test_limits_of_an_answer_are_the_callers():
    """Bytes for a snapshot, time for a new voter, a name for ApiVersions."""
    snapshot = raft.FetchSnapshotRequest(3, OTHER, raft.OffsetAndEpoch(9, 2), 100)
    assert request_to_wire(snapshot, max_bytes=77).max_bytes == 77
    assert request_to_wire(snapshot).max_bytes == 1 << 20
    assert request_to_wire(raft.AddVoterRequest(Voter(OTHER, AT)), timeout_ms=123).timeout_ms == 123
    versions = request_to_wire(raft.ApiVersionsRequest(), software="tested")
    assert (versions.client_software_name, versions.client_software_version) == ("tested", "1")


@pytest.mark.parametrize("request_", [raft.VoteRequest(3, OTHER, ME, 2, 7), raft.RemoveVoterRequest(OTHER)])
def test_a_request_that_names_no_cluster_gets_the_callers(request_):
    """One that names a cluster keeps it."""
    assert request_to_wire(request_).cluster_id is None
    assert request_to_wire(request_, cluster_id="cluster").cluster_id == "cluster"
    named = replace(request_, cluster_id="its own")
    assert request_to_wire(named, cluster_id="cluster").cluster_id == "its own"


@settings(deadline=None)
@given(st.sampled_from([ZERO_UUID, OTHER.directory_id]))
def test_a_replica_without_a_known_directory_has_the_zero_id(directory_id):
    """As Kafka writes it."""
    message = request_to_wire(raft.RemoveVoterRequest(ReplicaKey(1, directory_id)))
    assert message.voter_directory_id == directory_id
