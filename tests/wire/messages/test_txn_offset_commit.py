"""TxnOffsetCommit: what each version of the messages carries."""

from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """Leader epochs since 2; since 3 flexible, with generation, member and instance."""
    partition = TxnOffsetCommitRequestPartition(
        partition_index=2, committed_offset=7, committed_leader_epoch=5, committed_metadata=None
    )
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=9,
        producer_epoch=4,
        generation_id=3,
        member_id="m",
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    head = "0001 78 0001 67 0000000000000009 0004 00000001 0001 74 00000001 00000002 0000000000000007"
    assert encode_bytes(request, 0) == bytes.fromhex(head + "ffff")
    assert encode_bytes(request, 2) == bytes.fromhex(head + "00000005 ffff")
    assert encode_bytes(request, 3) == bytes.fromhex(
        "0278 0267 0000000000000009 0004 00000003 026d 00 02 0274 02 00000002 0000000000000007 00000005 00 00 00 00"
    )


def test_response_versions():
    """Flexible since 3."""
    partition = TxnOffsetCommitResponsePartition(partition_index=2, error_code=22)
    topic = TxnOffsetCommitResponseTopic(name="t", partitions=[partition])
    response = TxnOffsetCommitResponse(throttle_time_ms=1, topics=[topic])
    assert encode_bytes(response, 0) == bytes.fromhex("00000001 00000001 0001 74 00000001 00000002 0016")
    assert encode_bytes(response, 5) == bytes.fromhex("00000001 02 0274 02 00000002 0016 00 00 00")
