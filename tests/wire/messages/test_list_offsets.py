"""ListOffsets: what each version of the messages carries."""

from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from stratalog.wire.schema import decode, encode_bytes

REQUEST = ListOffsetsRequest(
    replica_id=-1,
    isolation_level=1,
    topics=[
        ListOffsetsTopic(
            name="t", partitions=[ListOffsetsPartition(partition_index=2, current_leader_epoch=5, timestamp=-4)]
        )
    ],
    timeout_ms=3000,
)


def test_request_versions():
    """Isolation since 2, leader epochs since 4, flexible since 6, a timeout since 10."""
    topic = "00000001 0001 74 00000001 00000002"
    assert encode_bytes(REQUEST, 1) == bytes.fromhex("ffffffff" + topic + "fffffffffffffffc")
    assert encode_bytes(REQUEST, 5) == bytes.fromhex("ffffffff 01" + topic + "00000005 fffffffffffffffc")
    compact = "ffffffff 01 02 0274 02 00000002 00000005 fffffffffffffffc 00 00"
    assert encode_bytes(REQUEST, 9) == bytes.fromhex(compact + "00")
    assert encode_bytes(REQUEST, 11) == bytes.fromhex(compact + "00000bb8" + "00")
    assert decode(ListOffsetsRequest, 11, bytes.fromhex(compact + "00000bb8" + "00")) == REQUEST


def test_response_nothing_found():
    """A look-up that found nothing is -1 everywhere."""
    partition = ListOffsetsPartitionResponse(partition_index=2)
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])
    assert encode_bytes(response, 6) == bytes.fromhex("00000000 02 0274 02 00000002 0000" + "ff" * 20 + "00 00 00")
    assert encode_bytes(response, 1) == bytes.fromhex("00000001 0001 74 00000001 00000002 0000" + "ff" * 16)
