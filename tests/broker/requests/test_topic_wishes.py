"""Topics that a broker wishes for."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.requests import topic_wishes
from stratalog.broker.requests.topic_wishes import wish_for_topics
from stratalog.metadata.controller.controller import NewTopic
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse

CONFIG = SimpleNamespace(integer={"num.partitions": 5, "default.replication.factor": 2}.__getitem__)


class Forwarding:
    """Answers with fixed codes, or not at all."""

    def __init__(self, **codes) -> None:
        self.codes = codes
        self.asked = []

    async def ask(self, request, response, context=None):
        self.asked.append((request, context))
        if not self.codes:
            await asyncio.sleep(60)
        results = [CreatableTopicResult(name=name, error_code=code) for name, code in self.codes.items()]
        return CreateTopicsResponse(topics=results)


async def test_counts_that_are_not_wanted_come_from_this_broker():
    """As in Kafka: the controller's own settings may be others."""
    forwarding = Forwarding(a=0, b=0)
    wanted = [NewTopic("a"), NewTopic("b", partition_count=1, replication_factor=1, configs={"k": "v"})]
    context = object()
    assert await wish_for_topics(forwarding, wanted, CONFIG, context) == {}
    ((request, asked_for),) = forwarding.asked
    assert asked_for is context
    assert [(each.num_partitions, each.replication_factor) for each in request.topics] == [(5, 2), (1, 1)]
    assert [(each.name, each.value) for each in request.topics[1].configs] == [("k", "v")]
    assert not request.validate_only


async def test_topics_that_are_there_already_are_no_errors():
    """Another broker may have wished for them, too."""
    forwarding = Forwarding(a=ErrorCode.TOPIC_ALREADY_EXISTS, b=ErrorCode.INVALID_REPLICATION_FACTOR)
    errors = await wish_for_topics(forwarding, [NewTopic("a"), NewTopic("b")], CONFIG)
    assert {name: error.code for name, error in errors.items()} == {"b": ErrorCode.INVALID_REPLICATION_FACTOR}


async def test_a_wish_does_not_wait_for_long(monkeypatch):
    """REQUEST_TIMED_OUT: the client would not wait either."""
    monkeypatch.setattr(topic_wishes, "WISH_SECONDS", 0.01)
    with pytest.raises(KafkaError) as caught:
        await wish_for_topics(Forwarding(), [NewTopic("a")], CONFIG)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
