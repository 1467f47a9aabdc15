"""CreateTopics (key 19): new topics, with counts or explicit assignments, and their settings.

Behaviour: the answer leaves when the topics are on disk in the metadata log and every partition can be written.
Each topic succeeds or fails for itself. Version 4 takes -1 for the broker's defaults; version 5 answers with the
settings that hold, version 7 with the topic id. Counts and settings are shown to those who may see them
(DESCRIBE_CONFIGS).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.authorizer import CLUSTER_NAME
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.requests.quotas import mutation_permit
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.controller.controller import CreatedTopic, Failure, NewTopic, creating_topics
from stratalog.metadata.image.decision import charged_once
from stratalog.metadata.image.same_image import same_to_topics
from stratalog.metadata.settings.configs import ConfigEntry
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_STRICT_SINCE: Final = 6


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(each.partition_index, tuple(each.broker_ids)) for each in topic.assignments],
        configs={each.name: each.value for each in topic.configs},
    )


def _config(entry: ConfigEntry) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=entry.name,
        value=entry.text,
        read_only=False,
        config_source=entry.source,
        is_sensitive=entry.definition.is_sensitive,
    )


def _result(name: str, outcome: CreatedTopic | Failure, *, shows: bool) -> CreatableTopicResult:
    if isinstance(outcome, Failure):
        return CreatableTopicResult(name=name, error_code=outcome.code, error_message=outcome.message)
    if not shows:
        return CreatableTopicResult(
            name=name,
            topic_id=outcome.topic_id,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=[],
        )
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.topic_id,
        num_partitions=outcome.partition_count,
        replication_factor=outcome.replication_factor,
        configs=[_config(entry) for _, entry in sorted(outcome.configs.items()) if not entry.is_hidden],
    )


async def _create(context: Context, request: CreateTopicsRequest) -> Steps[Message]:
    broker = context.broker
    on_cluster = context.allows(CLUSTER_NAME, Operation.CREATE, ResourceType.CLUSTER)
    refused = dict.fromkeys(topic.name for topic in request.topics if not (on_cluster or context.allows(topic.name)))
    permit = charged_once(mutation_permit(context, _STRICT_SINCE))
    wanted = [_wanted(topic) for topic in request.topics if topic.name not in refused]
    outcomes = await broker.control.execute(
        lambda image: creating_topics(
            image,
            wanted,
            broker.topic_rules(),
            new_topic_id=broker.new_topic_id,
            next_int=broker.random_int,
            validate_only=request.validate_only,
            permit=permit(),
        ),
        source=context.connection,
        size=sum(max(1, len(topic.assignments) or topic.partition_count) for topic in wanted),
        only_asks=request.validate_only,
        same=same_to_topics([topic.name for topic in wanted]),
    )
    return _answer(context, outcomes, refused)


def _answer(
    context: Context, outcomes: Iterable[tuple[str, CreatedTopic | Failure]], refused: Iterable[str]
) -> Steps[Message]:
    topics = context.rows("topics")
    for name, outcome in outcomes:
        shows = context.allows(name, Operation.DESCRIBE_CONFIGS)
        yield from topics.add(_result(name, outcome, shows=shows))
    for name in refused:
        yield from topics.add(CreatableTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return CreateTopicsResponse(topics=topics.close())


def handle(context: Context, request: CreateTopicsRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    return context.run(_create(context, request))


def _failure(request: CreateTopicsRequest, _version: int, error: KafkaError) -> Message:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


API = Api(
    key=19,
    versions=(2, 7),
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    handle=handle,
    operation=Operation.CREATE,
    resource=ResourceType.TOPIC,
    failure=_failure,
    forwarded=True,
)
