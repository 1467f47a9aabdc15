"""Envelope: what the messages carry."""

from stratalog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """A request, the principal, which may be null, and an address."""
    request = EnvelopeRequest(request_data=b"ab", request_principal=None, client_host_address=bytes([127, 0, 0, 1]))
    assert encode_bytes(request, 0) == bytes.fromhex("03 6162 00 05 7f000001 00")


def test_response_versions():
    """An answer or null, and a code."""
    assert encode_bytes(EnvelopeResponse(response_data=b"a"), 0) == bytes.fromhex("02 61 0000 00")
    assert encode_bytes(EnvelopeResponse(error_code=31), 0) == bytes.fromhex("00 001f 00")
