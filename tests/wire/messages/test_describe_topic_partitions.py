"""DescribeTopicPartitions: what the messages carry."""

from stratalog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from stratalog.wire.schema import decode, encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """The cursor is a struct that may be null: one byte says which."""
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
    assert request.response_partition_limit == 2000
    assert encode_bytes(request, 0) == bytes.fromhex("02 0274 00 000007d0 ff 00")
    request.cursor = Cursor(topic_name="t", partition_index=7)
    encoded = bytes.fromhex("02 0274 00 000007d0 01 0274 00000007 00 00")
    assert encode_bytes(request, 0) == encoded
    assert decode(DescribeTopicPartitionsRequest, 0, encoded) == request


def test_response_versions():
    """Null eligible leaders are one byte each; the answer ends with the next cursor."""
    partition = DescribeTopicPartitionsResponsePartition(
        partition_index=1, leader_id=2, leader_epoch=3, replica_nodes=[2], isr_nodes=[2]
    )
    topic = DescribeTopicPartitionsResponseTopic(name="t", topic_id=UUID, partitions=[partition])
    response = DescribeTopicPartitionsResponse(topics=[topic], next_cursor=Cursor(topic_name="t", partition_index=2))
    expected = "00000000 02 0000 0274" + UUID.hex() + "00 02 0000 00000001 00000002 00000003 02 00000002 02 00000002"
    expected += "00 00 01 00 80000000 00 01 0274 00000002 00 00"
    assert encode_bytes(response, 0) == bytes.fromhex(expected)
