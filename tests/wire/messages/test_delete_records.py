"""DeleteRecords: what each version of the messages carries."""

from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from stratalog.wire.schema import decode, encode_bytes


def test_request_versions():
    """Old lengths in 0 and 1, compact ones in 2."""
    partition = DeleteRecordsPartition(partition_index=1, offset=-1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=1000)
    old = "00000001 0001 74 00000001 00000001 ffffffffffffffff 000003e8"
    assert encode_bytes(request, 0) == encode_bytes(request, 1) == bytes.fromhex(old)
    compact = "02 0274 02 00000001 ffffffffffffffff 00 00 000003e8 00"
    assert encode_bytes(request, 2) == bytes.fromhex(compact)
    assert decode(DeleteRecordsRequest, 2, bytes.fromhex(compact)) == request


def test_response():
    """The answer has the new start of each log and its error."""
    partition = DeleteRecordsPartitionResult(partition_index=1, low_watermark=-1, error_code=1)
    response = DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=[partition])])
    assert encode_bytes(response, 2) == bytes.fromhex("00000000 02 0274 02 00000001 ffffffffffffffff 0001 00 00 00")
