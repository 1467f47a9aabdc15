"""DescribeQuorum: what each version of the messages carries."""

from stratalog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    RequestedPartition,
    RequestedTopic,
    TopicData,
)
from stratalog.wire.schema import encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """The same in every version."""
    topic = RequestedTopic(topic_name="t", partitions=[RequestedPartition(partition_index=0)])
    request = DescribeQuorumRequest(topics=[topic])
    for version in range(3):
        assert encode_bytes(request, version) == bytes.fromhex("02 0274 02 00000000 00 00 00")


def test_response_versions():
    """Times since 1; directories, messages and nodes since 2."""
    voter = ReplicaState(
        replica_id=1, replica_directory_id=UUID, log_end_offset=9, last_fetch_timestamp=5, last_caught_up_timestamp=6
    )
    quorum = PartitionData(
        partition_index=0, leader_id=1, leader_epoch=2, high_watermark=9, current_voters=[voter], observers=[]
    )
    response = DescribeQuorumResponse(
        topics=[TopicData(topic_name="t", partitions=[quorum])],
        nodes=[Node(node_id=1, listeners=[Listener(name="L", host="h", port=65535)])],
    )
    start, epoch = "02 0274 02 00000000 0000", "00000001 00000002 0000000000000009 02 00000001"
    end_offset, times = "0000000000000009", "0000000000000005 0000000000000006"
    tail = "00 01 00 00"
    assert encode_bytes(response, 0) == bytes.fromhex("0000" + start + epoch + end_offset + tail + "00")
    assert encode_bytes(response, 1) == bytes.fromhex("0000" + start + epoch + end_offset + times + tail + "00")
    nodes = "02 00000001 02 024c 0268 ffff 00 00"
    assert encode_bytes(response, 2) == bytes.fromhex(
        "0000 00" + start + "00" + epoch + UUID.hex() + end_offset + times + tail + nodes + "00"
    )
