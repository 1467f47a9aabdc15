"""The coordinators' topics are made once, and as the settings say."""

import asyncio

import pytest

from stratalog.broker.coordinators.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from stratalog.wire.errors import ErrorCode, KafkaError


def test_many_requests_at_once_make_one_topic(start_node):
    """The second finds it made."""
    node = start_node(offsets_topic_num_partitions=3)
    topics = node.node.coordinators.internal_topics

    async def ask() -> None:
        await asyncio.gather(*(topics.ensure(GROUP_TOPIC) for _ in range(5)))

    node.run(ask)
    assert len(node.node.image.topics.by_name[GROUP_TOPIC].partitions) == 3


def test_a_replication_factor_that_was_asked_for_is_not_lowered(start_node):
    """The default of three gives way to one broker, an explicit three does not: COORDINATOR_NOT_AVAILABLE says why."""
    node = start_node(transaction_state_log_replication_factor=3, transaction_state_log_num_partitions=2)
    with pytest.raises(KafkaError) as caught:
        node.run(node.node.coordinators.internal_topics.ensure, TRANSACTION_TOPIC)
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert TRANSACTION_TOPIC in caught.value.message
    node.run(node.node.coordinators.internal_topics.ensure, GROUP_TOPIC)
    assert GROUP_TOPIC in node.node.image.topics.by_name
