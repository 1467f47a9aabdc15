"""OffsetDelete: the bytes of its only version."""

from stratalog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from stratalog.wire.schema import encode_bytes


def test_request():
    """A group and the partitions of its topics."""
    topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=2)])
    request = OffsetDeleteRequest(group_id="g", topics=[topic])
    assert encode_bytes(request, 0) == bytes.fromhex("0001 67 00000001 0001 74 00000001 00000002")


def test_response():
    """The error of the whole stands before the throttle time."""
    partition = OffsetDeleteResponsePartition(partition_index=2, error_code=86)
    topic = OffsetDeleteResponseTopic(name="t", partitions=[partition])
    response = OffsetDeleteResponse(error_code=3, throttle_time_ms=1, topics=[topic])
    assert encode_bytes(response, 0) == bytes.fromhex("0003 00000001 00000001 0001 74 00000001 00000002 0056")
