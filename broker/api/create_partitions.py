"""CreatePartitions (key 37): more partitions for topics that exist.

Behaviour: the answer leaves when the partitions are on disk in the metadata log and each of them can be written.
Topics succeed or fail for themselves.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.requests.quotas import mutation_permit
from stratalog.metadata.controller.controller import Failure, NewPartitions, creating_partitions
from stratalog.metadata.image.decision import charged_once
from stratalog.metadata.image.same_image import same_to_topics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_STRICT_SINCE: Final = 3


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    given = topic.assignments
    return NewPartitions(topic.name, topic.count, None if given is None else [each.broker_ids for each in given])


def _result(name: str, failure: Failure | None) -> CreatePartitionsTopicResult:
    if failure is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(name=name, error_code=failure.code, error_message=failure.message)


async def _create(context: Context, request: CreatePartitionsRequest) -> Message:
    broker = context.broker
    refused = dict.fromkeys(topic.name for topic in request.topics if not context.allows(topic.name))
    permit = charged_once(mutation_permit(context, _STRICT_SINCE))
    wanted = [_wanted(topic) for topic in request.topics if topic.name not in refused]
    outcomes = await broker.control.execute(
        lambda image: creating_partitions(
            image,
            wanted,
            next_int=broker.random_int,
            validate_only=request.validate_only,
            permit=permit(),
        ),
        source=context.connection,
        size=sum(max(1, each.total) for each in wanted),
        only_asks=request.validate_only,
        same=same_to_topics([each.topic for each in wanted]),
    )
    results = [_result(name, failure) for name, failure in outcomes]
    results += [
        CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in refused
    ]
    return CreatePartitionsResponse(results=results)


def handle(context: Context, request: CreatePartitionsRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    return context.run(_create(context, request))


def _failure(request: CreatePartitionsRequest, _version: int, error: KafkaError) -> Message:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


API = Api(
    key=37,
    versions=(0, 3),
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
    handle=handle,
    operation=Operation.ALTER,
    resource=ResourceType.TOPIC,
    failure=_failure,
    forwarded=True,
)
