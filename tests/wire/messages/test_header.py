"""Request and response headers, against kafka-python's."""

import pytest
from kafka.protocol.api_header import RequestHeader as TheirRequestHeader
from kafka.protocol.api_header import ResponseHeader as TheirResponseHeader

from stratalog.wire.messages.header import RequestHeader, ResponseHeader
from stratalog.wire.schema import decode, encode_bytes


@pytest.mark.parametrize("client_id", ["client", "", "é", None])
@pytest.mark.parametrize("version", [1, 2])
def test_request_header(client_id, version):
    """The client id keeps its two-byte length in flexible headers, which end with tags."""
    header = RequestHeader(request_api_key=3, request_api_version=12, correlation_id=7, client_id=client_id)
    theirs = TheirRequestHeader(request_api_key=3, request_api_version=12, correlation_id=7, client_id=client_id)
    assert encode_bytes(header, version) == theirs.encode(flexible=version == 2)
    assert decode(RequestHeader, version, encode_bytes(header, version)) == header


@pytest.mark.parametrize("version", [0, 1])
def test_response_header(version):
    """A response header is the correlation id, and from version 1 on tags."""
    header = ResponseHeader(correlation_id=7)
    assert encode_bytes(header, version) == TheirResponseHeader(correlation_id=7).encode(flexible=version == 1)
    assert encode_bytes(header, version).hex() == "00000007" + "00" * version
