"""FetchSnapshot: what each version of the messages carries."""

from stratalog.wire.messages.fetch_snapshot import (
    CurrentLeader,
    FetchSnapshotPartition,
    FetchSnapshotPartitionResult,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopic,
    FetchSnapshotTopicResult,
    NodeEndpoint,
    SnapshotId,
)
from stratalog.wire.schema import decode, encode, encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """The cluster is a tag of the request, the directory one of the partition since 1."""
    partition = FetchSnapshotPartition(
        partition=0,
        current_leader_epoch=5,
        snapshot_id=SnapshotId(end_offset=9, epoch=4),
        position=100,
        replica_directory_id=UUID,
    )
    request = FetchSnapshotRequest(
        cluster_id="c", replica_id=3, max_bytes=1000, topics=[FetchSnapshotTopic(name="t", partitions=[partition])]
    )
    start = "00000003 000003e8 02 0274 02 00000000 00000005 0000000000000009 00000004 00 0000000000000064"
    assert encode_bytes(request, 0) == bytes.fromhex(start + "00 00 01 00 02 0263")
    assert encode_bytes(request, 1) == bytes.fromhex(start + "01 00 10" + UUID.hex() + "00 01 00 02 0263")


def response(**fields):
    result = FetchSnapshotPartitionResult(
        index=0, snapshot_id=SnapshotId(end_offset=9, epoch=4), size=200, position=100, **fields
    )
    return FetchSnapshotResponse(
        topics=[FetchSnapshotTopicResult(name="t", partitions=[result])],
        node_endpoints=[NodeEndpoint(node_id=2, host="h", port=9)],
    )


def test_response_versions():
    """The leader is a tag of the partition, addresses one of the answer since 1."""
    answer = response(current_leader=CurrentLeader(leader_id=2, leader_epoch=5), unaligned_records=b"abc")
    start = "00000000 0000 02 0274 02 00000000 0000 0000000000000009 00000004 00"
    piece = "00000000000000c8 0000000000000064 04 616263 01 00 09 00000002 00000005 00 00"
    assert encode_bytes(answer, 0) == bytes.fromhex(start + piece + "00")
    assert encode_bytes(answer, 1) == bytes.fromhex(start + piece + "01 00 0a 02 00000002 0268 0009 00")


def test_response_records():
    """A piece of a snapshot is a part of its own when it is sent, and a view of its frame when it is received."""
    parts = encode(response(unaligned_records=b"piece"), 1)
    assert parts[1] == b"piece"
    frame = bytearray(b"".join(parts))
    records = decode(FetchSnapshotResponse, 1, frame).topics[0].partitions[0].unaligned_records
    frame[frame.index(b"piece")] = ord("n")
    assert records == b"niece"
