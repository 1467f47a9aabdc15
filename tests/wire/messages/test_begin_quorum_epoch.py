"""BeginQuorumEpoch: what each version of the messages carries."""

from stratalog.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochPartition,
    BeginQuorumEpochPartitionResult,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BeginQuorumEpochTopic,
    BeginQuorumEpochTopicResult,
    LeaderEndpoint,
    NodeEndpoint,
)
from stratalog.wire.schema import encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """Version 1 is compact, and has directory, voter and the leader's listeners."""
    partition = BeginQuorumEpochPartition(partition_index=0, voter_directory_id=UUID, leader_id=2, leader_epoch=5)
    request = BeginQuorumEpochRequest(
        cluster_id="c",
        voter_id=3,
        topics=[BeginQuorumEpochTopic(topic_name="t", partitions=[partition])],
        leader_endpoints=[LeaderEndpoint(name="L", host="h", port=9)],
    )
    leader = "00000002 00000005"
    assert encode_bytes(request, 0) == bytes.fromhex("0001 63 00000001 0001 74 00000001 00000000" + leader)
    assert encode_bytes(request, 1) == bytes.fromhex(
        "0263 00000003 02 0274 02 00000000" + UUID.hex() + leader + "00 00 02 024c 0268 0009 00 00"
    )


def test_response_versions():
    """Version 1 is compact, and has the addresses of leaders as a tag."""
    result = BeginQuorumEpochPartitionResult(partition_index=0, error_code=125, leader_id=2, leader_epoch=5)
    response = BeginQuorumEpochResponse(
        error_code=104,
        topics=[BeginQuorumEpochTopicResult(topic_name="t", partitions=[result])],
        node_endpoints=[NodeEndpoint(node_id=2, host="h", port=9)],
    )
    tail = "00000000 007d 00000002 00000005"
    assert encode_bytes(response, 0) == bytes.fromhex("0068 00000001 0001 74 00000001" + tail)
    assert encode_bytes(response, 1) == bytes.fromhex(
        "0068 02 0274 02" + tail + "00 00 01 00 0a 02 00000002 0268 0009 00"
    )
