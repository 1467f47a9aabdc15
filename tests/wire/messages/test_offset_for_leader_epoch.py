"""OffsetForLeaderEpoch: what each version of the messages carries."""

from stratalog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from stratalog.wire.schema import decode, encode_bytes


def test_request_versions():
    """The sender is named from version 3 on; before, it is the consumer that may look beyond the high watermark."""
    partition = OffsetForLeaderPartition(partition=1, current_leader_epoch=4, leader_epoch=3)
    request = OffsetForLeaderEpochRequest(
        replica_id=2, topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])]
    )
    old = "00000001 0001 74 00000001 00000001 00000004 00000003"
    assert encode_bytes(request, 2) == bytes.fromhex(old)
    assert decode(OffsetForLeaderEpochRequest, 2, bytes.fromhex(old)).replica_id == -2
    assert encode_bytes(request, 3) == bytes.fromhex("00000002" + old)
    assert encode_bytes(request, 4) == bytes.fromhex("00000002 02 0274 02 00000001 00000004 00000003 00 00 00")


def test_response():
    """An epoch that is not known is answered with -1 and -1."""
    topic = OffsetForLeaderTopicResult(topic="t", partitions=[EpochEndOffset(partition=1)])
    response = OffsetForLeaderEpochResponse(topics=[topic])
    assert encode_bytes(response, 4) == bytes.fromhex("00000000 02 0274 02 0000 00000001" + "ff" * 12 + "00 00 00")
