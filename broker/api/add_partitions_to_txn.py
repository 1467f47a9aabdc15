"""AddPartitionsToTxn (key 24): a transaction will write to these partitions.

Behaviour: up to version 3 one transaction of a client; if any of its partitions does not exist or may not be written,
those are refused and the others get OPERATION_NOT_ATTEMPTED. From version 4 on many transactions, of brokers,
which may also just ask whether partitions are in (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.gather import Gather
from stratalog.broker.requests.authorizer import CLUSTER_NAME, Operation, ResourceType
from stratalog.broker.requests.dispatch import Api, Pending
from stratalog.metadata.coordination import Producer
from stratalog.metadata.image.topic_names import TRANSACTION_STATE_TOPIC, is_internal
from stratalog.metadata.transactions.errors import for_version
from stratalog.metadata.transactions.events import AddPartitions, VerifyPartitions
from stratalog.metadata.transactions.queries import outcomes
from stratalog.metadata.transactions.transaction import EPOCH_BUMP_SINCE
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["API"]

_KEY: Final = 24
_BATCHED_SINCE: Final = 4


def handle(context: Context, request: AddPartitionsToTxnRequest) -> Message | Pending:
    """The coordinator answers when the partitions are in its log."""
    if context.api_version >= _BATCHED_SINCE:
        return _handle_batch(context, request)
    transactional_id = request.v3_and_below_transactional_id
    if not context.allows(transactional_id, Operation.WRITE):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    partitions = _partitions(request.v3_and_below_topics)
    refused = _refused(context, partitions)
    if refused:
        codes = {one: int(refused.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED)) for one in partitions}
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=outcomes(codes))
    done = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=outcomes(dict.fromkeys(partitions, 0)))
    producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    event = AddPartitions(context, transactional_id, producer, frozenset(partitions), 0, done)
    return context.broker.transactions.submit(transactional_id, event)


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _refused(context: Context, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Why partitions cannot be part of a client's transaction."""
    refused = {}
    for one in partitions:
        if is_internal(one.topic) or not context.allows(one.topic, Operation.WRITE, ResourceType.TOPIC):
            refused[one] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not _exists(context, one):
            refused[one] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _exists(context: Context, one: TopicPartition) -> bool:
    topic = context.broker.image.topics.by_name.get(one.topic)
    return topic is not None and one.partition in topic.partitions


def _cannot_be_in(context: Context, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Which partitions no broker may add: those that are not, and those of the coordinators' own log."""
    refused = {}
    for one in partitions:
        if one.topic == TRANSACTION_STATE_TOPIC:
            refused[one] = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif not _exists(context, one):
            refused[one] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _handle_batch(context: Context, request: AddPartitionsToTxnRequest) -> Pending:
    if not context.allows(CLUSTER_NAME, Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def assemble(answers: list[Any]) -> Message:
        results = [result for answer in answers for result in answer.results_by_transaction]
        for one in (one for result in results for topic in result.topic_results for one in topic.results_by_partition):
            said = KafkaError(ErrorCode(one.partition_error_code))
            one.partition_error_code = for_version(said, _KEY, context.api_version)
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    gather = Gather(context, assemble)
    for one in request.transactions:
        partitions = frozenset(_partitions(one.topics))
        producer = Producer(one.producer_id, one.producer_epoch)
        refused = {} if one.verify_only else _cannot_be_in(context, partitions)
        if refused:
            gather.answered(_result(one, {**dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED), **refused}))
            continue
        part = gather.part(partial(_failed, one, context.api_version))
        if one.verify_only:
            event: Any = VerifyPartitions(part, one.transactional_id, producer, partitions)
        else:
            done = _all(one, 0)
            event = AddPartitions(part, one.transactional_id, producer, partitions, EPOCH_BUMP_SINCE, done, waits=False)
        context.broker.transactions.ask(one.transactional_id, event)
    return gather.close()


def _all(one: AddPartitionsToTxnTransaction, code: int) -> AddPartitionsToTxnResponse:
    """One outcome for all partitions of a transaction."""
    return _result(one, dict.fromkeys(_partitions(one.topics), code))


def _result(one: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, int]) -> AddPartitionsToTxnResponse:
    results = outcomes({partition: int(code) for partition, code in codes.items()})
    result = AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=results)
    return AddPartitionsToTxnResponse(results_by_transaction=[result])


def _failed(one: AddPartitionsToTxnTransaction, version: int, error: KafkaError) -> AddPartitionsToTxnResponse:
    return _all(one, for_version(error, _KEY, version))


def _failure(request: AddPartitionsToTxnRequest, version: int, error: KafkaError) -> Message:
    code = for_version(error, _KEY, version)
    if version >= _BATCHED_SINCE:
        return AddPartitionsToTxnResponse(error_code=code)
    codes = dict.fromkeys(_partitions(request.v3_and_below_topics), int(code))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=outcomes(codes))


API = Api(
    key=_KEY,
    versions=(0, 5),
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
    handle=handle,
    operation=Operation.WRITE,
    resource=ResourceType.TRANSACTIONAL_ID,
    failure=_failure,
    of_nodes=lambda _request, version: version >= _BATCHED_SINCE,
)
