"""FindCoordinator (key 10): which broker coordinates a group or a transaction.

The coordinator of a key leads the partition of the coordinators' topic that the key's hash names. The topic is made at
the first permitted request for a coordinator. Version 4 batches the keys. Key types: 0 groups, 1 transactions; 2, share
groups, is not served.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.record_texts import check_text
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from stratalog.wire.partitioner import coordinator_partition
from stratalog.wire.schema import Message

__all__ = ["API"]

_BATCHED_SINCE: Final = 4
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
"""Kafka's words for an unknown type of keys."""
_NO_NODE: Final = -1
_TOPICS: Final = {0: GROUP_TOPIC, 1: TRANSACTION_TOPIC}
_RESOURCES: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
_DENIED: Final = {0: ErrorCode.GROUP_AUTHORIZATION_FAILED, 1: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


def handle(context: Context, request: FindCoordinatorRequest) -> Pending:
    """The coordinator of each key; COORDINATOR_NOT_AVAILABLE while its partition has no leader."""
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _MALFORMED)
    keys = request.coordinator_keys if context.api_version >= _BATCHED_SINCE else [request.key]
    permitted = any(context.allows(key, Operation.DESCRIBE, _RESOURCES[request.key_type]) for key in keys)
    if not permitted or topic in context.broker.image.topics.by_name:
        return context.sliced(_answer(context, request, topic))
    return context.run(_create(context, request, topic))


async def _create(context: Context, request: FindCoordinatorRequest, topic: str) -> Steps[Message]:
    await context.broker.coordinators.internal_topics.ensure(topic)
    return _answer(context, request, topic)


def _answer(context: Context, request: FindCoordinatorRequest, topic: str) -> Steps[Message]:
    if context.api_version < _BATCHED_SINCE:
        found = _find(context, request.key_type, request.key, topic)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    coordinators = context.rows("coordinators")
    for key in request.coordinator_keys:
        yield from coordinators.add(_find(context, request.key_type, key, topic))
    return FindCoordinatorResponse(coordinators=coordinators.close())


def _find(context: Context, key_type: int, key: str, topic: str) -> Coordinator:
    if not context.allows(key, Operation.DESCRIBE, _RESOURCES[key_type]):
        return _no_coordinator(key, KafkaError(_DENIED[key_type]))
    try:
        check_text("The key", key)
    except KafkaError as error:
        return _no_coordinator(key, error)
    image = context.broker.image
    coordinators = image.topics.by_name.get(topic)  # it may be deleted between two keys of a request
    partitions = {} if coordinators is None else coordinators.partitions
    leader = partitions[coordinator_partition(key, len(partitions))].leader if partitions else _NO_NODE
    broker = image.brokers.brokers.get(leader)
    at = None if broker is None or broker.is_fenced else broker.listeners.get(context.connection.listener.name)
    if at is None:
        return _no_coordinator(
            key, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
        )
    return Coordinator(key=key, node_id=leader, host=at.host, port=at.port, error_code=ErrorCode.NONE)


def _no_coordinator(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key, node_id=_NO_NODE, host="", port=_NO_NODE, error_code=error.code, error_message=error.message
    )


def _failure(request: FindCoordinatorRequest, version: int, error: KafkaError) -> Message:
    if version < _BATCHED_SINCE:
        return FindCoordinatorResponse(
            error_code=error.code, error_message=error.message, node_id=_NO_NODE, host="", port=_NO_NODE
        )
    return FindCoordinatorResponse(coordinators=[_no_coordinator(key, error) for key in request.coordinator_keys])


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
