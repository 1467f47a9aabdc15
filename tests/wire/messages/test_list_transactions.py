"""ListTransactions: what each version of the messages carries."""

from stratalog.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from stratalog.wire.schema import encode_bytes


def test_request():
    """Version 1 brings the duration (KIP-994), version 2 the pattern (KIP-1152)."""
    request = ListTransactionsRequest(state_filters=["Dead"], producer_id_filters=[7], transactional_id_pattern="a.*")
    before = "02" + "05" + b"Dead".hex() + "02" + "0000000000000007"
    assert encode_bytes(request, 0).hex() == before + "00"
    assert encode_bytes(request, 1).hex() == before + "ff" * 8 + "00"
    assert encode_bytes(request, 2).hex() == before + "ff" * 8 + "04" + b"a.*".hex() + "00"


def test_response():
    """The transactions that passed, and the states that do not exist."""
    state = TransactionState(transactional_id="x", producer_id=7, transaction_state="Dead")
    response = ListTransactionsResponse(unknown_state_filters=["q"], transaction_states=[state])
    passed = "02" + "0278" + "0000000000000007" + "05" + b"Dead".hex() + "00"
    assert encode_bytes(response, 2).hex() == "00000000" + "0000" + "02" + "0271" + passed + "00"
