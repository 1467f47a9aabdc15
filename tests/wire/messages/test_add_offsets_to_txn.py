"""AddOffsetsToTxn: what each version of the messages carries."""

from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from stratalog.wire.schema import decode, encode_bytes


def test_versions():
    """Version 3 is flexible; nothing else changes."""
    request = AddOffsetsToTxnRequest(transactional_id="x", producer_id=7, producer_epoch=1, group_id="g")
    assert encode_bytes(request, 0).hex() == "000178" + "0000000000000007" + "0001" + "000167"
    assert encode_bytes(request, 3).hex() == "0278" + "0000000000000007" + "0001" + "0267" + "00"
    assert decode(AddOffsetsToTxnRequest, 4, encode_bytes(request, 4)) == request
    assert encode_bytes(AddOffsetsToTxnResponse(error_code=51), 3).hex() == "00000000" + "0033" + "00"
