"""AddOffsetsToTxn (key 25): a transaction will commit offsets of a group.

Behaviour: the partition of ``__consumer_offsets`` that keeps the group's offsets becomes part of the transaction. The
topic is made if this is the first that is heard of any group.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.internal_topics import GROUP_TOPIC
from stratalog.broker.requests.dispatch import PENDING, Api, Operation, Pending, ResourceType
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.errors import for_version
from stratalog.metadata.transactions.events import AddPartitions
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["API"]

_KEY: Final = 25


def handle(context: Context, request: AddOffsetsToTxnRequest) -> Pending:
    """The coordinator answers when the partition is in its log."""
    if not context.allows(request.transactional_id, Operation.WRITE):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows(request.group_id, Operation.READ, ResourceType.GROUP):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if GROUP_TOPIC in context.broker.image.topics.by_name:
        _ask(context, request)
        return PENDING
    task = context.dispatcher.spawn(_create(context, request))
    context.on_abandon = task.cancel
    return PENDING


async def _create(context: Context, request: AddOffsetsToTxnRequest) -> None:
    try:
        await context.broker.coordinators.internal_topics.ensure(GROUP_TOPIC)
        _ask(context, request)
    except KafkaError as error:
        context.fail(error)


def _ask(context: Context, request: AddOffsetsToTxnRequest) -> None:
    number = context.broker.groups.host.partition_of(request.group_id)
    assert number is not None, "the topic is there: `handle` has seen it, or `_create` has made it"
    event = AddPartitions(
        context,
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        frozenset([TopicPartition(GROUP_TOPIC, number)]),
        0,
        AddOffsetsToTxnResponse(error_code=ErrorCode.NONE),
    )
    context.broker.transactions.submit(request.transactional_id, event)


def _failure(_request: AddOffsetsToTxnRequest, version: int, error: KafkaError) -> Message:
    return AddOffsetsToTxnResponse(error_code=for_version(error, _KEY, version))


API = Api(
    key=_KEY,
    versions=(0, 4),
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
    handle=handle,
    operation=Operation.WRITE,
    resource=ResourceType.TRANSACTIONAL_ID,
    failure=_failure,
)
