"""Topics through the client: requests, answers, refusals."""

from __future__ import annotations

import pytest

from stratalog.client.admin import (
    ConfigSource,
    TopicConfig,
    add_partitions,
    alter_topic_configs,
    create_topic,
    delete_topics,
    delete_topics_one_by_one,
    describe_topic_configs,
)
from stratalog.client.client import Client
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from stratalog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from stratalog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from stratalog.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from stratalog.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

CREATE, DELETE, DESCRIBE, GROW, ALTER = 19, 20, 32, 37, 44
TOPIC = 2


@pytest.fixture
def client(scripted):
    """A client of a broker that serves the five administrative requests."""
    scripted.ranges = {CREATE: (2, 7), DELETE: (1, 6), DESCRIBE: (1, 4), GROW: (0, 3), ALTER: (0, 1)}
    with Client(scripted.address, 5) as client:
        yield client


def test_a_topic_is_created_with_its_settings(scripted, client) -> None:
    """-1 stands for the broker's defaults; the answer says what it became."""
    scripted.answers[CREATE] = CreateTopicsResponse(
        topics=[CreatableTopicResult(name="orders", topic_id=b"t" * 16, num_partitions=6, replication_factor=1)]
    )
    made = create_topic(client, "orders", configs={"retention.ms": "-1"})
    assert (made.topic_id, made.partition_count, made.replication_factor) == (b"t" * 16, 6, 1)
    (asked,) = scripted.requests[-1][0].topics
    assert (asked.num_partitions, asked.replication_factor) == (-1, -1)
    assert [(config.name, config.value) for config in asked.configs] == [("retention.ms", "-1")]


def test_a_refusal_carries_code_and_words(scripted, client) -> None:
    """The broker's message, with the topic's name before it."""
    scripted.answers[CREATE] = CreateTopicsResponse(
        topics=[CreatableTopicResult(name="orders", error_code=36, error_message="Topic 'orders' already exists.")]
    )
    with pytest.raises(KafkaError, match=r"topic orders: Topic 'orders' already exists\.$") as caught:
        create_topic(client, "orders")
    assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("version", [1, 5, 6])
def test_topics_are_deleted_by_name_in_every_version(scripted, client, version) -> None:
    """Names moved into structs in version 6."""
    scripted.ranges[DELETE] = (1, version)
    scripted.answers[DELETE] = DeleteTopicsResponse(responses=[DeletableTopicResult(name="orders")])
    delete_topics(client, ["orders"])
    asked = scripted.requests[-1][0]
    assert ([state.name for state in asked.topics] or asked.topic_names) == ["orders"]


def test_a_topic_that_is_not_there_cannot_be_deleted(scripted, client) -> None:
    """Without words of the broker, those of the code. The others are gone."""
    answers = [DeletableTopicResult(name="nope", error_code=3), DeletableTopicResult(name="orders")]
    scripted.answers[DELETE] = DeleteTopicsResponse(responses=answers)
    with pytest.raises(KafkaError, match="topic nope: unknown topic or partition"):
        delete_topics(client, ["nope", "orders"])
    refused = delete_topics_one_by_one(client, ["nope", "orders"])
    assert {name: (one.code, one.message) for name, one in refused.items()} == {
        "nope": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic nope: unknown topic or partition")
    }


def config(name: str, value: str | None, source: int) -> DescribeConfigsResourceResult:
    """One setting in an answer."""
    return DescribeConfigsResourceResult(
        name=name, value=value, read_only=False, config_source=source, is_sensitive=False, synonyms=[]
    )


def test_settings_come_with_their_source(scripted, client) -> None:
    """A source that is not defined yet is unknown, not an error."""
    scripted.answers[DESCRIBE] = DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_type=TOPIC,
                resource_name="orders",
                configs=[config("retention.ms", "-1", 1), config("flush.ms", None, 5), config("new", "x", 99)],
            )
        ]
    )
    assert describe_topic_configs(client, ["orders"]) == {
        "orders": [
            TopicConfig("retention.ms", "-1", ConfigSource.TOPIC),
            TopicConfig("flush.ms", None, ConfigSource.DEFAULT),
            TopicConfig("new", "x", ConfigSource.UNKNOWN),
        ]
    }
    assert scripted.requests[-1][0].resources[0].configuration_keys is None


def test_settings_are_set_and_given_back(scripted, client) -> None:
    """Set is operation 0, delete operation 1 without a value."""
    answer = AlterConfigsResourceResponse(resource_type=TOPIC, resource_name="orders")
    scripted.answers[ALTER] = IncrementalAlterConfigsResponse(responses=[answer])
    alter_topic_configs(client, "orders", set_to={"retention.ms": "5"}, delete=["flush.ms"], validate_only=True)
    asked = scripted.requests[-1][0]
    assert asked.validate_only is True
    assert [(one.name, one.config_operation, one.value) for one in asked.resources[0].configs] == [
        ("retention.ms", 0, "5"),
        ("flush.ms", 1, None),
    ]
    answer.error_code, answer.error_message = ErrorCode.INVALID_CONFIG, "Unknown topic config name: x"
    with pytest.raises(KafkaError, match="Unknown topic config name: x"):
        alter_topic_configs(client, "orders", set_to={"x": "1"})


def test_partitions_are_added_where_the_broker_likes(scripted, client) -> None:
    """The total is asked for, without assignments; a refusal has the broker's words."""
    scripted.answers[GROW] = CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name="orders")])
    add_partitions(client, "orders", 6, validate_only=True)
    request = scripted.requests[-1][0]
    (asked,) = request.topics
    assert (asked.name, asked.count, asked.assignments, request.validate_only) == ("orders", 6, None, True)
    refused = CreatePartitionsTopicResult(
        name="orders", error_code=37, error_message="Topic already has 6 partition(s)."
    )
    scripted.answers[GROW] = CreatePartitionsResponse(results=[refused])
    with pytest.raises(KafkaError, match=r"topic orders: Topic already has 6 partition\(s\)\.") as caught:
        add_partitions(client, "orders", 6)
    assert caught.value.code is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize(
    ("source", "value", "default", "is_changed"),
    [
        (ConfigSource.TOPIC, "1", "1", True),
        (ConfigSource.CLUSTER, "1", "1", False),
        (ConfigSource.CLUSTER, "2", "1", True),
        (ConfigSource.FILE, "2", None, True),
        (ConfigSource.DEFAULT, "1", "1", False),
    ],
)
def test_a_setting_is_changed_where_it_is_set_at_the_topic_or_has_another_value(source, value, default, is_changed):
    """The cluster has a setting of ``min.insync.replicas`` from its first records on, mostly the default."""
    assert TopicConfig("min.insync.replicas", value, source, default).is_changed == is_changed
