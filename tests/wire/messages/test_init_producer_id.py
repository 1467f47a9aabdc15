"""InitProducerId: what each version of the messages carries."""

from stratalog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from stratalog.wire.schema import decode, encode_bytes


def test_request_versions():
    """The id and epoch that a producer had are named from version 3 on (KIP-360)."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
    assert encode_bytes(request, 0).hex() == "ffff" + "0000ea60"
    assert encode_bytes(request, 2).hex() == "00" + "0000ea60" + "00"
    assert encode_bytes(request, 3).hex() == "00" + "0000ea60" + "ff" * 8 + "ffff" + "00"
    assert decode(InitProducerIdRequest, 0, bytes.fromhex("0001 78 0000ea60")) == InitProducerIdRequest(
        transactional_id="x", transaction_timeout_ms=60000, producer_id=-1, producer_epoch=-1
    )


def test_response():
    """The answer is an error or an id and an epoch."""
    response = InitProducerIdResponse(producer_id=7, producer_epoch=1)
    assert encode_bytes(response, 1).hex() == "00000000" + "0000" + "0000000000000007" + "0001"
    assert encode_bytes(response, 5).hex() == "00000000" + "0000" + "0000000000000007" + "0001" + "00"
