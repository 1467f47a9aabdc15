"""FindCoordinator (key 10): which broker coordinates a group or a transaction.

Behaviour: every key is answered COORDINATOR_NOT_AVAILABLE, which clients take for "not yet" and ask again: this
release has no groups. It must be served all the same: librdkafka compresses with lz4 only for brokers that list it.
Version 4 batches the keys.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.context import RequestContext
from stratalog.broker.dispatch import Api, Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from stratalog.wire.schema import Message

__all__ = ["API"]

_BATCHED_SINCE: Final = 4
_NO_NODE: Final = -1
_KEY_TYPES: Final = (0, 1, 2)
_MESSAGE: Final = "The coordinator is not available."


def handle(context: RequestContext, request: FindCoordinatorRequest) -> Message:
    """Not yet; INVALID_REQUEST for a kind of key that does not exist."""
    if request.key_type in _KEY_TYPES:
        return _refused(request, context.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE, _MESSAGE)
    message = f"key type {request.key_type} is not known"
    return _refused(request, context.api_version, ErrorCode.INVALID_REQUEST, message)


def _refused(
    request: FindCoordinatorRequest, version: int, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    if version < _BATCHED_SINCE:
        return FindCoordinatorResponse(error_code=code, error_message=message, node_id=_NO_NODE, host="", port=_NO_NODE)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=_NO_NODE, host="", port=_NO_NODE, error_code=code, error_message=message)
            for key in request.coordinator_keys
        ]
    )


def _failure(request: FindCoordinatorRequest, version: int, error: KafkaError) -> Message:
    return _refused(request, version, error.code, error.message)


API = Api(
    key=10,
    versions=(0, 6),
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=ResourceType.GROUP,
    failure=_failure,
)
