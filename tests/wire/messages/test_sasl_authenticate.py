"""SaslAuthenticate: what each version of the messages carries."""

from stratalog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """A token; compact from 2 on."""
    request = SaslAuthenticateRequest(auth_bytes=b"\1\2")
    assert encode_bytes(request, 0) == bytes.fromhex("00000002 0102")
    assert encode_bytes(request, 2) == bytes.fromhex("03 0102 00")


def test_response_versions():
    """The life of the session since 1."""
    response = SaslAuthenticateResponse(error_code=34, error_message="no", auth_bytes=b"\1", session_lifetime_ms=5)
    assert encode_bytes(response, 0) == bytes.fromhex("0022 0002 6e6f 00000001 01")
    assert encode_bytes(response, 1) == bytes.fromhex("0022 0002 6e6f 00000001 01 0000000000000005")
    assert encode_bytes(response, 2) == bytes.fromhex("0022 036e6f 0201 0000000000000005 00")
