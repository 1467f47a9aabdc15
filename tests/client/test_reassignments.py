"""Reassignments by the client, against a broker that answers as a test wants."""

import pytest

from stratalog.client.client import Client
from stratalog.client.reassignments import Reassignment, elect_preferred_leaders, list_reassignments, reassign
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from stratalog.wire.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from stratalog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def cluster(scripted):
    """A broker that knows the three requests."""
    scripted.ranges = {18: (0, 4), 43: (0, 2), 45: (0, 1), 46: (0, 0)}
    return scripted


def test_running_moves_have_their_target(cluster):
    """The replicas in the end: what is removed does not belong to them."""
    one = OngoingPartitionReassignment(
        partition_index=3, replicas=[4, 1, 2], adding_replicas=[4], removing_replicas=[2]
    )
    cluster.answers[46] = ListPartitionReassignmentsResponse(
        topics=[OngoingTopicReassignment(name="t", partitions=[one])]
    )
    with Client(cluster.address, 5) as client:
        found = list_reassignments(client)
    assert found == {TopicPartition("t", 3): Reassignment((4, 1, 2), (4,), (2,))}
    assert found[TopicPartition("t", 3)].target == (4, 1)


def test_refusals_come_partition_by_partition(cluster):
    """Others are on their way; an error of the whole answer is raised."""
    refused = ReassignablePartitionResponse(
        partition_index=1, error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, error_message="no broker 9"
    )
    begun = ReassignablePartitionResponse(partition_index=0)
    answer = AlterPartitionReassignmentsResponse(
        responses=[ReassignableTopicResponse(name="t", partitions=[begun, refused])]
    )
    cluster.answers[45] = answer
    with Client(cluster.address, 5) as client:
        found = reassign(client, {TopicPartition("t", 0): (1, 2), TopicPartition("t", 1): None})
        assert found == {TopicPartition("t", 1): "no broker 9"}
        (sent,) = [one for one, _ in cluster.requests if hasattr(one, "allow_replication_factor_change")]
        assert [part.replicas for part in sent.topics[0].partitions] == [[1, 2], None]
        answer.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError):
            reassign(client, {TopicPartition("t", 0): (1, 2)})


def test_very_many_partitions_are_divided_over_requests(cluster):
    """A broker closes the connection at more than 10,000 elements: 2,500 partitions of three replicas were too many."""
    cluster.answers[45] = AlterPartitionReassignmentsResponse(responses=[])
    cluster.answers[43] = ElectLeadersResponse(replica_election_results=[])
    names = [TopicPartition("t", number) for number in range(1201)]
    with Client(cluster.address, 5) as client:
        assert reassign(client, dict.fromkeys(names, (1, 2, 3))) == {}
        assert elect_preferred_leaders(client, names) == 0
    counts = [
        [len(topic.partitions) for topic in getattr(one, field)]
        for field in ("topics", "topic_partitions")
        for one, _ in cluster.requests
        if type(one).__name__.startswith(("AlterPartition", "ElectLeaders")) and hasattr(one, field)
    ]
    assert counts == [[500], [500], [201]] * 2


def test_an_election_counts_the_leaders_that_changed(cluster):
    """A preferred replica that leads already, or cannot lead now, is no failure; another refusal is."""
    codes = [0, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 0]
    rows = [PartitionResult(partition_id=number, error_code=code) for number, code in enumerate(codes)]
    cluster.answers[43] = ElectLeadersResponse(
        replica_election_results=[ReplicaElectionResult(topic="t", partition_result=rows)]
    )
    wanted = [TopicPartition("t", number) for number in range(4)]
    with Client(cluster.address, 5) as client:
        assert elect_preferred_leaders(client, wanted) == 2
        rows[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError, match="t-0"):
            elect_preferred_leaders(client, wanted)
