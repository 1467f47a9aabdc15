"""SaslAuthenticate: the listener is PLAINTEXT."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.sasl_authenticate import SaslAuthenticateRequest


@pytest.mark.parametrize("version", range(3))
def test_there_is_nothing_to_authenticate(shared_broker, version):
    """ILLEGAL_SASL_STATE with a message; the connection goes on."""
    link = shared_broker.link()
    for _ in range(2):
        answer = link.call(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
        assert answer.error_message
