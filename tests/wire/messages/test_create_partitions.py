"""CreatePartitions: what each version of the messages carries."""

from stratalog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """Null assignments leave the choice to the broker; an empty list is not the same."""
    chosen = CreatePartitionsTopic(name="t", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[1])])
    left = CreatePartitionsTopic(name="u", count=3, assignments=None)
    request = CreatePartitionsRequest(topics=[chosen, left], timeout_ms=1000, validate_only=True)
    old = "00000002 0001 74 00000002 00000001 00000001 00000001 0001 75 00000003 ffffffff 000003e8 01"
    assert encode_bytes(request, 0) == encode_bytes(request, 1) == bytes.fromhex(old)
    compact = "03 0274 00000002 02 02 00000001 00 00 0275 00000003 00 00 000003e8 01 00"
    assert encode_bytes(request, 2) == encode_bytes(request, 3) == bytes.fromhex(compact)


def test_response_versions():
    """A code and a message for each topic."""
    result = CreatePartitionsTopicResult(name="t", error_code=37, error_message="no")
    response = CreatePartitionsResponse(results=[result])
    assert encode_bytes(response, 1) == bytes.fromhex("00000000 00000001 0001 74 0025 0002 6e6f")
    assert encode_bytes(response, 3) == bytes.fromhex("00000000 02 0274 0025 036e6f 00 00")
