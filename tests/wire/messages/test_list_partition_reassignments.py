"""ListPartitionReassignments: what the messages carry."""

from stratalog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """Null asks for all of them."""
    topics = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[1])]
    assert encode_bytes(ListPartitionReassignmentsRequest(topics=topics), 0) == bytes.fromhex(
        "0000ea60 02 0274 02 00000001 00 00"
    )
    assert encode_bytes(ListPartitionReassignmentsRequest(), 0) == bytes.fromhex("0000ea60 00 00")


def test_response_versions():
    """The replicas of a moving partition, those that come and those that go."""
    moving = OngoingPartitionReassignment(partition_index=1, replicas=[2], adding_replicas=[3], removing_replicas=[])
    topic = OngoingTopicReassignment(name="t", partitions=[moving])
    assert encode_bytes(ListPartitionReassignmentsResponse(topics=[topic]), 0) == bytes.fromhex(
        "00000000 0000 00 02 0274 02 00000001 02 00000002 02 00000003 01 00 00 00"
    )
