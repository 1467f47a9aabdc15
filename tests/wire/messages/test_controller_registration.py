"""ControllerRegistration: what the messages carry."""

from stratalog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)
from stratalog.wire.schema import encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """The process, its listeners and its features."""
    request = ControllerRegistrationRequest(
        controller_id=3,
        incarnation_id=UUID,
        zk_migration_ready=False,
        listeners=[Listener(name="C", host="h", port=9093, security_protocol=0)],
        features=[Feature(name="f", min_supported_version=0, max_supported_version=1)],
    )
    assert encode_bytes(request, 0) == bytes.fromhex(
        "00000003" + UUID.hex() + "00 02 0243 0268 2385 0000 00 02 0266 0000 0001 00 00"
    )


def test_response_versions():
    """A code and a message."""
    answer = ControllerRegistrationResponse(error_code=41, error_message="no")
    assert encode_bytes(answer, 0) == bytes.fromhex("00000000 0029 036e6f 00")
