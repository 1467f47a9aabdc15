"""AlterPartition (key 56): the leader of partitions asks the active controller for other in-sync replicas (KIP-497).

Behaviour: partitions are granted or refused each for itself, in the order and by the codes of Kafka's controller; only a
stale broker epoch refuses the request. A success carries the state that holds now. Version 2 names members without
broker epochs: they pass only if they are in sync already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from stratalog.broker.api.controller_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import Member, Proposal, ProposalAnswer, altering_partitions
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_EPOCHS_SINCE = 3


def _members(partition: AlterPartitionPartition, version: int) -> tuple[Member, ...]:
    if version < _EPOCHS_SINCE:
        return tuple(Member(broker_id) for broker_id in partition.new_isr)
    return tuple(Member(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs)


def _proposals(request: AlterPartitionRequest, version: int) -> Iterator[Proposal]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield Proposal(
                key=PartitionKey(topic.topic_id, partition.partition_index),
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                members=_members(partition, version),
                leader_recovery=partition.leader_recovery_state,
                leader_epoch_above=partition.leader_epoch_above,
            )


def _result(answer: ProposalAnswer) -> AlterPartitionPartitionResult:
    state = answer.state
    if state is None:
        return AlterPartitionPartitionResult(
            partition_index=answer.key.number,
            error_code=answer.code,
            leader_id=0,
            leader_epoch=0,
            isr=[],
            partition_epoch=0,
        )
    return AlterPartitionPartitionResult(
        partition_index=answer.key.number,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.in_sync_replicas),
        leader_recovery_state=state.leader_recovery,
        partition_epoch=state.partition_epoch,
    )


def _topics(answers: Sequence[ProposalAnswer]) -> list[AlterPartitionTopicResult]:
    return [
        AlterPartitionTopicResult(topic_id=topic_id, partitions=[_result(each) for each in group])
        for topic_id, group in groupby(answers, key=lambda each: each.key.topic_id)
    ]


async def _alter(context: Context, request: AlterPartitionRequest) -> Message:
    broker = context.broker
    proposals = tuple(_proposals(request, context.api_version))
    answers = await broker.control.execute(
        lambda image: altering_partitions(
            broker.cluster_view(image), request.broker_id, request.broker_epoch, proposals
        ),
        source=context.connection,
        size=len(proposals),
    )
    return AlterPartitionResponse(topics=_topics(answers))


def handle(context: Context, request: AlterPartitionRequest) -> Pending:
    """Runs as a task: waits for the metadata log."""
    return context.run(_alter(context, request))


API = Api(
    key=56,
    versions=(2, 3),
    request=AlterPartitionRequest,
    response=AlterPartitionResponse,
    handle=handle,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
