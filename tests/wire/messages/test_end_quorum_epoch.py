"""EndQuorumEpoch: what each version of the messages carries."""

from stratalog.wire.messages.end_quorum_epoch import (
    EndQuorumEpochPartition,
    EndQuorumEpochPartitionResult,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EndQuorumEpochTopic,
    EndQuorumEpochTopicResult,
    LeaderEndpoint,
    NodeEndpoint,
    PreferredCandidate,
)
from stratalog.wire.schema import encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """Successors are ids in 0, ids with directories in 1."""
    partition = EndQuorumEpochPartition(
        partition_index=0,
        leader_id=2,
        leader_epoch=5,
        preferred_successors=[3],
        preferred_candidates=[PreferredCandidate(candidate_id=3, candidate_directory_id=UUID)],
    )
    request = EndQuorumEpochRequest(
        topics=[EndQuorumEpochTopic(topic_name="t", partitions=[partition])],
        leader_endpoints=[LeaderEndpoint(name="L", host="h", port=9)],
    )
    leader = "00000000 00000002 00000005"
    assert encode_bytes(request, 0) == bytes.fromhex("ffff 00000001 0001 74 00000001" + leader + "00000001 00000003")
    assert encode_bytes(request, 1) == bytes.fromhex(
        "00 02 0274 02" + leader + "02 00000003" + UUID.hex() + "00 00 00 02 024c 0268 0009 00 00"
    )


def test_response_versions():
    """Version 1 is compact, and has the addresses of leaders as a tag."""
    result = EndQuorumEpochPartitionResult(partition_index=0, error_code=42, leader_id=2, leader_epoch=5)
    response = EndQuorumEpochResponse(
        topics=[EndQuorumEpochTopicResult(topic_name="t", partitions=[result])],
        node_endpoints=[NodeEndpoint(node_id=2, host="h", port=9)],
    )
    tail = "00000000 002a 00000002 00000005"
    assert encode_bytes(response, 0) == bytes.fromhex("0000 00000001 0001 74 00000001" + tail)
    assert encode_bytes(response, 1) == bytes.fromhex(
        "0000 02 0274 02" + tail + "00 00 01 00 0a 02 00000002 0268 0009 00"
    )
