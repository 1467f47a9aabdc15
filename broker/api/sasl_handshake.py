"""SaslHandshake (key 17): ILLEGAL_SASL_STATE, as on every PLAINTEXT listener of Kafka.

Behaviour: nothing is to be authenticated there, so there are no mechanisms either; the connection goes on.
"""

from __future__ import annotations

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(_context: Context, _request: SaslHandshakeRequest) -> Message:
    """Refuse: authentication is over when a request comes here (``ILLEGAL_SASL_STATE``)."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


API = Api(
    key=17,
    versions=(0, 1),
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    handle=handle,
    operation=Operation.ANY,
    resource=ResourceType.ANY,
)
