"""ElectLeaders: what each version of the messages carries."""

from stratalog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """The kind of election since 1; null partitions are all of them."""
    request = ElectLeadersRequest(election_type=1, topic_partitions=[TopicPartitions(topic="t", partitions=[3])])
    old = "00000001 0001 74 00000001 00000003 0000ea60"
    assert encode_bytes(request, 0) == bytes.fromhex(old)
    assert encode_bytes(request, 1) == bytes.fromhex("01" + old)
    assert encode_bytes(request, 2) == bytes.fromhex("01 02 0274 02 00000003 00 0000ea60 00")
    assert encode_bytes(ElectLeadersRequest(topic_partitions=None), 0) == bytes.fromhex("ffffffff 0000ea60")


def test_response_versions():
    """A code for the whole since 1."""
    result = PartitionResult(partition_id=3, error_code=84, error_message=None)
    response = ElectLeadersResponse(
        error_code=31, replica_election_results=[ReplicaElectionResult(topic="t", partition_result=[result])]
    )
    results = "00000001 0001 74 00000001 00000003 0054 ffff"
    assert encode_bytes(response, 0) == bytes.fromhex("00000000" + results)
    assert encode_bytes(response, 1) == bytes.fromhex("00000000 001f" + results)
    assert encode_bytes(response, 2) == bytes.fromhex("00000000 001f 02 0274 02 00000003 0054 00 00 00 00")
