"""AllocateProducerIds: what the messages carry."""

from stratalog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """The broker and its epoch."""
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=7)
    assert encode_bytes(request, 0) == bytes.fromhex("00000001 0000000000000007 00")


def test_response_versions():
    """The first id and how many there are."""
    answer = AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000)
    assert encode_bytes(answer, 0) == bytes.fromhex("00000000 0000 00000000000003e8 000003e8 00")
