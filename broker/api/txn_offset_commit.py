"""TxnOffsetCommit (key 28): offsets of a group that count if the transaction commits.

Behaviour: the partition of ``__consumer_offsets`` that keeps the group must be in the transaction; up to version 4 it
was added by AddOffsetsToTxn, from version 5 on (transactions v2, KIP-890) this request adds it. Topics that do not
exist or may not be read are refused each for itself. Until the marker the offsets stay hidden; a consumer that asks for
stable ones has to come again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.coordinators.shard_driver import ShardDriver
from stratalog.broker.requests.dispatch import PENDING, Api, Operation, Pending, ResourceType
from stratalog.metadata.coordination import Producer
from stratalog.metadata.groups.offsets.topics import topic_id_of
from stratalog.metadata.transactions.errors import for_produce
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_KEY: Final = 28
_LOADING_SINCE: Final = 2
_ADDS_SINCE: Final = 5

_Refused = Mapping[tuple[str, int], ErrorCode]


class _Commit:
    """One request: waits for its transaction (`Enlisted`), then for its group."""

    __slots__ = ("_asked", "_context", "_driver", "_refused", "_request", "_topic_ids", "leader", "partition")

    def __init__(self, context: Context, request: TxnOffsetCommitRequest, driver: ShardDriver) -> None:
        self.partition = driver.unified.topic_partition
        self.leader = driver.leader
        self._driver = driver
        self._context = context
        self._request = request
        self._refused = _refused(context, request)
        image = context.broker.image
        self._topic_ids = {topic.name: topic_id_of(topic.name, image) for topic in request.topics}
        self._asked = TxnOffsetCommitRequest(
            transactional_id=request.transactional_id,
            group_id=request.group_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            topics=[self._admitted(topic) for topic in request.topics],
        )

    def _refuse_gone(self) -> None:
        """Refuse the topics that were deleted meanwhile: their offsets would count for the next ones of their names."""
        image = self._context.broker.image
        gone = [one for one in self._asked.topics if topic_id_of(one.name, image) != self._topic_ids[one.name]]
        if gone:
            places = [(topic.name, one.partition_index) for topic in gone for one in topic.partitions]
            self._refused = {**self._refused, **dict.fromkeys(places, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
            self._asked.topics = [self._admitted(topic) for topic in self._request.topics]

    def _admitted(self, topic: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitRequestTopic:
        return TxnOffsetCommitRequestTopic(
            name=topic.name,
            partitions=[one for one in topic.partitions if (topic.name, one.partition_index) not in self._refused],
        )

    @property
    def asks_anything(self) -> bool:
        """Whether a partition is left that may be committed."""
        return any(topic.partitions for topic in self._asked.topics)

    def go_on(self) -> None:
        """The offsets' partition is in the transaction.

        Unless it has been ended meanwhile: behind its marker the offsets would begin a transaction without an end, and
        an append that the log refuses costs the whole shard its state. Between two leaderships another broker may
        have written it.
        """
        request, driver = self._request, self._driver
        try:
            present = self._context.broker.groups.host.driver(self.partition.partition)
            if present is not driver or driver.leader is not self.leader:
                raise KafkaError(
                    ErrorCode.NOT_COORDINATOR, f"{self.partition} has another leadership than when it was asked for"
                )
            if driver.ends(Producer(request.producer_id, request.producer_epoch)):
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the transaction was ended before its offsets")
            driver.unified.log.producer_state.check_producer_epoch(request.producer_id, request.producer_epoch)
        except KafkaError as error:
            self.fail(error)
            return
        self._refuse_gone()
        if not self.asks_anything:
            self.respond(TxnOffsetCommitResponse(topics=[]))
            return
        self._context.broker.groups.ask(self, self._context, self._request.group_id, self._asked)

    def refuse(self, error: KafkaError) -> None:
        """It is not."""
        if error.code is ErrorCode.NETWORK_EXCEPTION:  # upon the other one, clients do not look for the group anew
            self.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message))
            return
        refusal = for_produce(error, _KEY, self._context.api_version)
        if refusal.code is ErrorCode.NOT_ENOUGH_REPLICAS:
            refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, refusal.message)
        self.fail(refusal)

    def respond(self, response: TxnOffsetCommitResponse) -> None:
        """The group has spoken about what it was asked."""
        codes = {
            (topic.name, one.partition_index): one.error_code for topic in response.topics for one in topic.partitions
        }
        self._context.respond(_answer(self._request, {**codes, **self._refused}))

    def fail(self, error: KafkaError) -> None:
        """All of it is refused, apart from what was before."""
        code = _known(error, self._context.api_version)
        self._context.respond(_answer(self._request, self._refused, code))


def handle(context: Context, request: TxnOffsetCommitRequest) -> Message | Pending:
    """Through the transaction coordinator, if the transaction is not open in the group's partition, to the group."""
    if not context.allows(request.transactional_id, Operation.WRITE, ResourceType.TRANSACTIONAL_ID):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows(request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if request.producer_id < 0:  # no marker would end what it brings
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.producer_epoch < 0:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    broker = context.broker
    number = broker.groups.host.partition_of(request.group_id)
    if number is None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR, "no group has a coordinator yet; find it first")
    driver = broker.groups.host.driver(number)
    commit = _Commit(context, request, driver)
    if not commit.asks_anything:
        commit.respond(TxnOffsetCommitResponse(topics=[]))
        return PENDING
    producer = Producer(request.producer_id, request.producer_epoch)
    adds = context.api_version >= _ADDS_SINCE
    verifies = broker.config.boolean("transaction.partition.verification.enable")
    enlistment = broker.transactions.enlistment
    is_open = driver.unified.log.producer_state.has_open_transaction(*producer)
    if (is_open and not enlistment.is_asking(commit.partition, producer)) or not (adds or verifies):
        commit.go_on()
    else:
        enlistment.enlist(request.transactional_id, producer, [commit], adds=adds)
    return PENDING


def _refused(context: Context, request: TxnOffsetCommitRequest) -> _Refused:
    """The partitions that cannot be committed, whatever the group says."""
    topics = context.broker.image.topics.by_name
    refused: dict[tuple[str, int], ErrorCode] = {}
    for topic in request.topics:
        allowed = context.allows(topic.name, Operation.READ, ResourceType.TOPIC)
        for one in topic.partitions:
            if not allowed:
                refused[topic.name, one.partition_index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic.name not in topics or one.partition_index not in topics[topic.name].partitions:
                refused[topic.name, one.partition_index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _known(error: KafkaError, version: int) -> ErrorCode:
    """Old clients die of COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error.code


def _answer(
    request: TxnOffsetCommitRequest, codes: Mapping[tuple[str, int], int], otherwise: int = 0
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=codes.get((topic.name, one.partition_index), otherwise),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _failure(request: TxnOffsetCommitRequest, version: int, error: KafkaError) -> Message:
    return _answer(request, {}, _known(error, version))


API = Api(
    key=_KEY,
    versions=(0, 5),
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.GROUP,
    failure=_failure,
)
