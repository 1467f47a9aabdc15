"""Produce: what each version of the messages carries."""

from stratalog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from stratalog.wire.schema import decode, encode, encode_bytes

UUID = bytes(range(16))


def request(**named):
    data = [PartitionProduceData(index=3, records=memoryview(b"batch"))]
    topics = [TopicProduceData(**named, partition_data=data)]
    return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=topics)


def response(**named):
    partition = PartitionProduceResponse(
        index=3,
        error_code=6,
        base_offset=-1,
        record_errors=[BatchIndexAndErrorMessage(batch_index=2, batch_index_error_message="bad")],
        error_message="no",
        current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=9),
    )
    return ProduceResponse(
        responses=[TopicProduceResponse(**named, partition_responses=[partition])],
        node_endpoints=[NodeEndpoint(node_id=1, host="h", port=9092)],
    )


def test_request_versions():
    """Old lengths up to 8, compact ones from 9 on, topic ids from 13 on."""
    old = "ffff ffff 000003e8 00000001 0001 74 00000001 00000003 00000005"
    assert encode_bytes(request(name="t"), 8) == bytes.fromhex(old) + b"batch"
    compact = "00 ffff 000003e8 02 02 74 02 00000003 06"
    assert encode_bytes(request(name="t"), 9) == bytes.fromhex(compact) + b"batch\0\0\0"
    by_id = "00 ffff 000003e8 02" + UUID.hex() + "02 00000003 06"
    assert encode_bytes(request(topic_id=UUID), 13) == bytes.fromhex(by_id) + b"batch\0\0\0"


def test_request_records_view():
    """The batches of a request are a view of the frame that they came in."""
    frame = bytearray(encode_bytes(request(name="t"), 9))
    records = decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"batch")] = ord("c")
    assert records == b"catch"


def test_request_parts():
    """A request is sent as three parts: before, the batches, after."""
    assert [len(part) for part in encode(request(name="t"), 9)] == [16, 5, 3]


def test_response_versions():
    """Log start since 5, record errors since 8, the new leader and its address as tags since 10."""
    head = "00000001 0001 74 00000001 00000003 0006 ffffffffffffffff ffffffffffffffff"
    assert encode_bytes(response(name="t"), 4) == bytes.fromhex(head + "00000000")
    assert encode_bytes(response(name="t"), 5) == bytes.fromhex(head + "ffffffffffffffff 00000000")
    errors = "00000001 00000002 0003 626164 0002 6e6f"
    assert encode_bytes(response(name="t"), 8) == bytes.fromhex(head + "ffffffffffffffff" + errors + "00000000")
    partition = "02 00000003 0006" + "ff" * 24 + "02 00000002 04626164 00 036e6f"
    leader = "01 00 09 00000001 00000009 00"
    node = "01 00 0d 02 00000001 0268 00002384 00 00"
    flexible = "02 02 74" + partition + leader + "00 00000000" + node
    assert encode_bytes(response(name="t"), 10) == bytes.fromhex(flexible)
    by_id = "02" + UUID.hex() + partition + leader + "00 00000000" + node
    assert encode_bytes(response(topic_id=UUID), 13) == bytes.fromhex(by_id)
