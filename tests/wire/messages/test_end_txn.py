"""EndTxn: what each version of the messages carries."""

from stratalog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from stratalog.wire.schema import decode, encode_bytes


def test_request():
    """True is a commit; version 3 is flexible."""
    request = EndTxnRequest(transactional_id="x", producer_id=7, producer_epoch=1, committed=True)
    assert encode_bytes(request, 0).hex() == "000178" + "0000000000000007" + "0001" + "01"
    assert encode_bytes(request, 5).hex() == "0278" + "0000000000000007" + "0001" + "01" + "00"
    assert decode(EndTxnRequest, 2, encode_bytes(request, 2)) == request


def test_response():
    """From version 5 on the producer gets the id and epoch to go on with (KIP-890)."""
    response = EndTxnResponse(error_code=0, producer_id=7, producer_epoch=2)
    assert encode_bytes(response, 4).hex() == "00000000" + "0000" + "00"
    assert encode_bytes(response, 5).hex() == "00000000" + "0000" + "0000000000000007" + "0002" + "00"
    assert EndTxnResponse(error_code=51).producer_epoch == -1
