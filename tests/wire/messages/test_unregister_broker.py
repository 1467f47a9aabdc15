"""UnregisterBroker: what the messages carry."""

from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """The broker's id."""
    assert encode_bytes(UnregisterBrokerRequest(broker_id=7), 0) == bytes.fromhex("00000007 00")


def test_response_versions():
    """A code and a message."""
    response = UnregisterBrokerResponse(error_code=102, error_message="no")
    assert encode_bytes(response, 0) == bytes.fromhex("00000000 0066 036e6f 00")
