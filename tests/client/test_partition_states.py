"""Partitions with their replicas: eligible ones page by page, brokers that do not tell them, and what a partition lacks."""

import pytest

from stratalog.client.client import Client, Partition
from stratalog.client.partition_states import Lack, describe_topics, lacking, min_in_sync_replicas
from stratalog.wire.errors import KafkaError
from tests.client import told_topics as told

TOPICS = {"a": [(1, (1, 2, 3), (1, 2), (3,)), (2, (2, 3, 1), (2, 3, 1), ())], "b": [(-1, (3,), (3,), (3,))]}


@pytest.fixture
def cluster(scripted):
    """A broker that tells two topics."""
    scripted.ranges = {3: (0, 13), 18: (0, 4), 32: (1, 4), 75: (0, 0)}
    scripted.answers[3] = told.metadata(scripted.port, (1, 2), TOPICS)
    return scripted


def test_eligible_replicas_come_page_by_page(cluster):
    """A page begins where the one before says; a cluster that keeps no account of them says None."""

    def page(request):
        if request.cursor is None:
            return told.topic_partitions({"a": {0: [3]}}, ("a", 1))
        assert (request.cursor.topic_name, request.cursor.partition_index) == ("a", 1)
        return told.topic_partitions({"a": {1: None}, "b": {0: []}})

    cluster.answers[75] = page
    with Client(cluster.address, 5) as client:
        found = describe_topics(client)
    assert [[part.eligible for part in topic.partitions] for topic in found] == [[(3,), None], [()]]
    assert [[part.offline for part in topic.partitions] for topic in found] == [[(3,), ()], [(3,)]]


def test_a_page_that_comes_again_ends_with_an_error(cluster):
    """Instead of asking for ever."""
    cluster.answers[75] = told.topic_partitions({"a": {0: [3]}}, ("a", 1))
    with Client(cluster.address, 5) as client, pytest.raises(KafkaError, match="once more"):
        describe_topics(client, ["a", "b"])


def test_a_broker_without_the_api_tells_the_rest(cluster):
    """As Kafka before 3.7."""
    del cluster.ranges[75]
    with Client(cluster.address, 5) as client:
        found = describe_topics(client)
    assert [part.in_sync for topic in found for part in topic.partitions] == [(1, 2), (2, 3, 1), (3,)]
    assert {part.eligible for topic in found for part in topic.partitions} == {None}


def test_min_in_sync_replicas_of_many_topics_are_asked_for_in_parts(cluster):
    """Only that setting, some hundred topics a request."""

    def answer(request):
        assert all(one.configuration_keys == ["min.insync.replicas"] for one in request.resources)
        return told.configs({one.resource_name: {"min.insync.replicas": "2"} for one in request.resources})

    cluster.answers[32] = answer
    names = [f"t{number}" for number in range(1100)]
    with Client(cluster.address, 5) as client:
        assert min_in_sync_replicas(client, names) == dict.fromkeys(names, 2)
    assert len([request for request, _ in cluster.requests if type(request).__name__ == "DescribeConfigsRequest"]) == 3


@pytest.mark.parametrize(
    ("leader", "in_sync", "adding", "expected"),
    [
        (1, (1, 2, 3), (), set()),
        (1, (1, 2), (), {Lack.UNDER_REPLICATED, Lack.AT_MIN_ISR}),
        (1, (1, 2), (3,), {Lack.AT_MIN_ISR}),
        (1, (1,), (), {Lack.UNDER_REPLICATED, Lack.UNDER_MIN_ISR}),
        (-1, (), (), {Lack.UNDER_REPLICATED, Lack.UNDER_MIN_ISR, Lack.UNAVAILABLE}),
        (9, (1, 2, 3), (), {Lack.UNAVAILABLE}),
    ],
)
def test_the_lacks_of_a_partition(leader, in_sync, adding, expected):
    """As kafka-topics counts them; min.insync.replicas is 2."""
    part = Partition(0, leader, 1, (1, 2, 3), in_sync, ())
    assert lacking(part, adding, 2, {1, 2, 3}) == expected
