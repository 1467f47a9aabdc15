"""The coordinators' topics are made once, and as the settings say."""

import asyncio
import gc

import pytest

from stratalog.broker.coordinators.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC, InternalTopics, TopicMaking
from stratalog.broker.settings.config import load_config
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


@pytest.mark.parametrize("topic", [GROUP_TOPIC, TRANSACTION_TOPIC])
def test_a_topic_that_is_made_while_a_broker_is_away_has_a_replica_there(memory_controller, topic):
    """The first group may ask while one of three brokers is restarted: the topic is made once, and for good."""
    one = memory_controller()
    one.start(1, 2, 3)
    one.topic("t", (3, 1))
    while not one.beat(3, wants_shutdown=True).should_shut_down:
        one.beat(1)
        one.beat(2)
    config = load_config(environment={}, host_name="h")
    making = TopicMaking(
        config=lambda: config,
        image=lambda: one.image,
        control=one.control,
        rules=one.topic_rules,
        new_topic_id=one.new_topic_id,
        random_int=one.random_int,
    )
    one.run(InternalTopics(making).ensure(topic))
    states = one.image.topics.by_name[topic].partitions.values()
    assert {frozenset(state.replicas) for state in states} == {frozenset((1, 2, 3))}
    assert {frozenset(state.in_sync_replicas) for state in states} == {frozenset((1, 2))}


class SilentController:
    """A controller elsewhere that takes a request and answers when a test says so, with an error."""

    elsewhere = True

    def __init__(self) -> None:
        self.answer = asyncio.Event()

    async def ask(self, _request, _kind, _context):
        await self.answer.wait()
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "gone")


def test_an_error_that_no_client_waits_for_any_more_is_no_error_of_the_broker(memory_controller):
    """The log of a broker had a traceback for it: Task exception was never retrieved."""
    one = memory_controller()
    one.start(1)
    config = load_config(environment={}, host_name="h")

    async def ask() -> list[str]:
        said: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["message"]))
        controller = SilentController()
        making = TopicMaking(
            config=lambda: config,
            image=lambda: one.image,
            control=one.control,
            rules=one.topic_rules,
            new_topic_id=one.new_topic_id,
            random_int=one.random_int,
            forwarding=lambda: controller,
        )
        topics = InternalTopics(making)
        client = asyncio.ensure_future(topics.ensure(GROUP_TOPIC))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        client.cancel()
        await asyncio.wait({client})
        controller.answer.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not topics._wishes
        gc.collect()
        return said

    assert asyncio.run(ask()) == []
