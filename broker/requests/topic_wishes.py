"""Topics that a broker wishes for, created by the active controller elsewhere: those of coordinators, and of clients' requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from stratalog.broker.requests.context import RequestContext
from stratalog.broker.requests.forwarding import Forwarding
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.controller.controller import NewTopic
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

__all__ = ["WISH_SECONDS", "wish_for_topics"]

WISH_SECONDS: Final = 5.0
"""How long a request waits for the topics that it asks for; the client asks again anyway."""

_TIMEOUT_MS: Final = 30_000


async def wish_for_topics(
    forwarding: Forwarding,
    wanted: Sequence[NewTopic],
    config: BrokerConfig,
    context: RequestContext[Any] | None = None,
) -> dict[str, KafkaError]:
    """Have topics created by the active controller; the errors of those that are not there then, by name.

    They are created for the client of ``context``, or in this node's own name. As in Kafka, counts that are not wanted
    come from the settings of this broker. Raises `KafkaError` where the controller does not answer, REQUEST_TIMED_OUT after
    `WISH_SECONDS`.
    """
    request = CreateTopicsRequest(topics=[_topic(each, config) for each in wanted], timeout_ms=_TIMEOUT_MS)
    try:
        async with asyncio.timeout(WISH_SECONDS):
            answer = await forwarding.ask(request, CreateTopicsResponse, context)
    except TimeoutError as error:
        why = f"The active controller has not created the topics within {WISH_SECONDS:g} s."
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why) from error
    return {
        each.name: KafkaError(ErrorCode(each.error_code), each.error_message)
        for each in answer.topics
        if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }


def _topic(wanted: NewTopic, config: BrokerConfig) -> CreatableTopic:
    count, factor = wanted.partition_count, wanted.replication_factor
    return CreatableTopic(
        name=wanted.name,
        num_partitions=config.integer("num.partitions") if count < 0 else count,
        replication_factor=config.integer("default.replication.factor") if factor < 0 else factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in wanted.configs.items()],
    )
