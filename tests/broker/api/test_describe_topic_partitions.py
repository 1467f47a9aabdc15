"""DescribeTopicPartitions: topics in order, page by page."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import describe_topic_partitions
from stratalog.broker.api.describe_topic_partitions import API
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from tests.broker.api.at_once import PlainRows, pauses


def ask(broker, *names, limit=2000, cursor=None):
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return broker.link().call(request, 0)


def page(answer):
    """Topics with their partitions, and where the next page begins."""
    cursor = answer.next_cursor
    topics = {one.name: [each.partition_index for each in one.partitions] for one in answer.topics}
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_a_partition_is_described_in_full(broker):
    """Leader, epoch, replicas; no eligible leader beside the in-sync ones, and what the caller may do."""
    topic_id = broker.create("t").topic_id
    (topic,) = ask(broker, "t").topics
    assert (topic.error_code, topic.name, topic.topic_id, topic.is_internal) == (0, "t", topic_id, False)
    assert topic.topic_authorized_operations > 0
    (one,) = topic.partitions
    node = broker.node.node_id
    assert (one.error_code, one.leader_id, one.leader_epoch) == (0, node, 0)
    assert (one.replica_nodes, one.isr_nodes, one.offline_replicas) == ([node], [node], [])
    assert (one.eligible_leader_replicas, one.last_known_elr) == ([], [])


def test_topics_come_once_and_in_order(broker):
    """Named ones as all of them; what is not there has its code."""
    for name, count in (("b", 2), ("a", 1), ("c", 1)):
        broker.create(name, count)
    assert page(ask(broker)) == ({"a": [0], "b": [0, 1], "c": [0]}, None)
    answer = ask(broker, "c", "absent", "a", "c", "b d")
    assert [(one.name, ErrorCode(one.error_code)) for one in answer.topics] == [
        ("a", ErrorCode.NONE),
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b d", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", ErrorCode.NONE),
    ]


@pytest.mark.parametrize("names", [(), ("c", "b", "a")])
def test_pages_follow_each_other_without_gap_or_double(broker, names):
    """Each limit gives all partitions once; a page that ends with a topic points at the first partition of the next."""
    counts = {"a": 3, "b": 2, "c": 4}
    for name, count in counts.items():
        broker.create(name, count)
    every = [(name, number) for name, count in counts.items() for number in range(count)]
    for limit in (1, 2, 3, 5, 8, 9, 2000):
        found, cursor = [], None
        while True:
            answer = ask(broker, *names, limit=limit, cursor=cursor)
            topics, cursor = page(answer)
            found.append([(name, number) for name, numbers in topics.items() for number in numbers])
            if cursor is None:
                break
        assert [one for each in found for one in each] == every
        assert all(len(each) == limit for each in found[:-1])
    assert page(ask(broker, *names, limit=3))[1] == ("b", 0)


@pytest.mark.parametrize("limit", [0, -5])
def test_a_page_has_at_least_one_partition(broker, limit):
    """A client that asks for none, or for a negative number, gets one partition and a cursor."""
    broker.create("t", 2)
    assert page(ask(broker, limit=limit)) == ({"t": [0]}, ("t", 1))


def test_the_broker_has_a_limit_of_its_own(start_node):
    """max.request.partition.size.limit."""
    node = start_node(max_request_partition_size_limit=2)
    node.create("t", 3)
    assert page(ask(node, "t")) == ({"t": [0, 1]}, ("t", 2))


def test_a_cursor_that_points_nowhere_is_invalid(broker):
    """At a topic that was not asked for, or at a negative partition; the error is said of each topic that was named."""
    broker.create("t")
    broker.create("u")
    for cursor in (("u", 0), ("t", -1)):
        (topic,) = ask(broker, "t", cursor=cursor).topics
        assert (topic.name, ErrorCode(topic.error_code)) == ("t", ErrorCode.INVALID_REQUEST)
    assert page(ask(broker, cursor=("tt", 3))) == ({"u": [0]}, None)
    assert page(ask(broker, cursor=("t", 9))) == ({"t": [], "u": [0]}, None)


def test_a_failure_as_a_whole_is_answered_for_each_topic():
    """There is no other place for it."""
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
    (topic,) = API.failure(request, 0, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "why")).topics
    assert (topic.name, topic.error_code) == ("t", -1)


def test_very_many_topics_that_are_not_there_are_answered_in_slices():
    """They take no room in a page: 9,900 took 75 ms at once. So do those that may not be described."""
    image = SimpleNamespace(topics=SimpleNamespace(by_name={}))
    config = SimpleNamespace(integer=lambda _name: 2000)
    context = SimpleNamespace(
        broker=SimpleNamespace(image=image, config=config),
        allows=lambda name: name != "t7",
        rows=lambda _name: PlainRows(),
        authorized_operations=lambda _kind, _name: 0,
    )
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=f"t{number}") for number in range(100)])
    paused, answer = pauses(describe_topic_partitions._steps(context, request))
    assert (paused, len(answer.topics), answer.topics[-1].name) == (200, 100, "t7")


def test_all_topics_are_those_of_one_moment(broker):
    """One that is deleted between two slices was answered as unknown to a client that had not named it."""
    for name in ("a", "b", "c"):
        broker.create(name)
    node = broker.node
    seen = SimpleNamespace(image=node.image, config=node.config, partitions=node.partitions, node_id=node.node_id)
    context = SimpleNamespace(
        broker=seen,
        allows=lambda _name: True,
        rows=lambda _name: PlainRows(),
        authorized_operations=lambda _kind, _name: 0,
        connection=SimpleNamespace(listener=SimpleNamespace(name="PLAINTEXT")),
    )
    steps = describe_topic_partitions._steps(context, DescribeTopicPartitionsRequest(topics=[]))
    for _ in range(4):
        next(steps)
    seen.image = EMPTY_IMAGE
    _, answer = pauses(steps)
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics] == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("c", 0, 1),
    ]
