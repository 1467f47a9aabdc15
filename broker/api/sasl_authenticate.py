"""SaslAuthenticate (key 36): ILLEGAL_SASL_STATE, as on every PLAINTEXT listener of Kafka; the connection goes on."""

from __future__ import annotations

from typing import Final

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from stratalog.wire.schema import Message

__all__ = ["API"]

_MESSAGE: Final = "SaslAuthenticate request received after successful authentication"


def handle(_context: Context, _request: SaslAuthenticateRequest) -> Message:
    """Refuse: authentication is over when a request comes here (``ILLEGAL_SASL_STATE``)."""
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_MESSAGE, auth_bytes=b"")


API = Api(
    key=36,
    versions=(0, 2),
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    handle=handle,
    operation=Operation.ANY,
    resource=ResourceType.ANY,
)
