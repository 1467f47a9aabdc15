"""SaslHandshake: what each version of the messages carries."""

from stratalog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """The same in both versions, which never became flexible."""
    for version in (0, 1):
        assert encode_bytes(SaslHandshakeRequest(mechanism="PLAIN"), version) == bytes.fromhex("0005 504c41494e")


def test_response_versions():
    """A code and the mechanisms there are."""
    response = SaslHandshakeResponse(error_code=33, mechanisms=["P"])
    assert encode_bytes(response, 1) == bytes.fromhex("0021 00000001 0001 50")
