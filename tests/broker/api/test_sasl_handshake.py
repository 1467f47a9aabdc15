"""SaslHandshake: the listener is PLAINTEXT."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.sasl_handshake import SaslHandshakeRequest


@pytest.mark.parametrize("version", range(2))
def test_there_is_nothing_to_authenticate(shared_broker, version):
    """ILLEGAL_SASL_STATE without mechanisms; the connection goes on."""
    link = shared_broker.link()
    for _ in range(2):
        answer = link.call(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
