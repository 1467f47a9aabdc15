"""OffsetCommit: what each version of the messages carries."""

from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from stratalog.wire.schema import decode, encode_bytes

PARTITION = OffsetCommitRequestPartition(
    partition_index=2, committed_offset=7, committed_leader_epoch=5, committed_metadata="m"
)
REQUEST = OffsetCommitRequest(
    group_id="g",
    generation_id_or_member_epoch=3,
    member_id="i",
    group_instance_id="s",
    retention_time_ms=9,
    topics=[OffsetCommitRequestTopic(name="t", topic_id=b"\x11" * 16, partitions=[PARTITION])],
)


def test_request_versions():
    """A retention until 4, leader epochs since 6, an instance id since 7, flexible since 8, topic ids since 10."""
    head = "0001 67 00000003 0001 69"
    topic = "00000001 0001 74 00000001 00000002 0000000000000007"
    assert encode_bytes(REQUEST, 2) == bytes.fromhex(head + "0000000000000009" + topic + "0001 6d")
    assert encode_bytes(REQUEST, 5) == bytes.fromhex(head + topic + "0001 6d")
    assert encode_bytes(REQUEST, 7) == bytes.fromhex(head + "0001 73" + topic + "00000005 0001 6d")
    compact = "0267 00000003 0269 0273 02"
    partitions = "02 00000002 0000000000000007 00000005 026d 00 00 00"
    assert encode_bytes(REQUEST, 9) == bytes.fromhex(compact + "0274" + partitions)
    assert encode_bytes(REQUEST, 10) == bytes.fromhex(compact + "11" * 16 + partitions)


def test_request_defaults():
    """Without member, instance, epoch and text: -1 and null."""
    received = decode(
        OffsetCommitRequest, 6, bytes.fromhex("0001 67 ffffffff 0000 00000001 0001 74 00000001" + "00" * 16 + "ffff")
    )
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_leader_epoch=0, committed_metadata=None
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    assert received == OffsetCommitRequest(group_id="g", member_id="", topics=[topic])


def test_response_versions():
    """A throttle time since 3, flexible since 8, topic ids since 10."""
    partition = OffsetCommitResponsePartition(partition_index=2, error_code=12)
    topic = OffsetCommitResponseTopic(name="t", topic_id=b"\x11" * 16, partitions=[partition])
    response = OffsetCommitResponse(throttle_time_ms=1, topics=[topic])
    assert encode_bytes(response, 2) == bytes.fromhex("00000001 0001 74 00000001 00000002 000c")
    assert encode_bytes(response, 3) == bytes.fromhex("00000001 00000001 0001 74 00000001 00000002 000c")
    assert encode_bytes(response, 8) == bytes.fromhex("00000001 02 0274 02 00000002 000c 00 00 00")
    assert encode_bytes(response, 10) == bytes.fromhex("00000001 02" + "11" * 16 + "02 00000002 000c 00 00 00")
