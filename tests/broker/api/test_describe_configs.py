"""DescribeConfigs: the value that holds, and why."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import describe_configs
from stratalog.client.admin import alter_topic_configs
from stratalog.metadata.image.decision import Decision
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.records.metadata import ConfigRecord

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
TOPIC_SOURCE, EVERYONES_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 3, 4, 5
LOGGER_SOURCE, METRICS_SOURCE, GROUP_SOURCE = 6, 7, 8


def ask(link, kind, name, *keys, version=4, **options):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return link.call(DescribeConfigsRequest(resources=[resource], **options), version).results[0]


def alter(broker, kind, name, key, value):
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    assert [one.error_code for one in broker.link().call(request, 1).responses] == [0]


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_setting_and_where_it_comes_from(start_node, version):
    """The topic's own value, then the broker's file, then the default, with all of them as synonyms."""
    node = start_node(log_retention_ms=5000)
    node.create("t", segment_bytes=2_000_000)
    found = ask(node.link(), TOPIC, "t", version=version, include_synonyms=True, include_documentation=True)
    assert found.error_code == 0
    rows = {one.name: one for one in found.configs}
    assert (rows["segment.bytes"].value, rows["segment.bytes"].config_source) == ("2000000", TOPIC_SOURCE)
    assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("5000", STATIC_SOURCE)
    assert (rows["segment.ms"].value, rows["segment.ms"].config_source) == ("604800000", DEFAULT_SOURCE)
    assert [(one.name, one.value, one.source) for one in rows["retention.ms"].synonyms] == [
        ("log.retention.ms", "5000", STATIC_SOURCE),
        ("log.retention.hours", "168", DEFAULT_SOURCE),
    ]
    assert not any(one.is_sensitive for one in found.configs)
    if version >= 3:
        assert rows["retention.ms"].config_type == 5
        assert "segment" in rows["retention.ms"].documentation
    else:
        assert rows["retention.ms"].documentation is None


def test_only_the_names_asked_for_are_answered(broker):
    """Null and an empty list ask for everything."""
    broker.create("t")
    link = broker.link()
    assert [one.name for one in ask(link, TOPIC, "t", "segment.ms", "no.such").configs] == ["segment.ms"]
    assert len(ask(link, TOPIC, "t").configs) > 30


def test_a_brokers_settings(start_node):
    """Settings of its file are static and read-only; another broker's are not known here. All share one minimum (KIP-966)."""
    node = start_node(num_partitions=7)
    link = node.link()
    rows = {one.name: one for one in ask(link, BROKER, str(node.node.node_id)).configs}
    assert (rows["num.partitions"].value, rows["num.partitions"].config_source) == ("7", STATIC_SOURCE)
    assert rows["node.id"].read_only
    assert not rows["log.retention.ms"].read_only
    assert ask(link, BROKER, "77").error_code == ErrorCode.INVALID_REQUEST
    (row,) = ask(link, BROKER, "", include_synonyms=True).configs
    assert (row.name, row.value) == ("min.insync.replicas", "1")
    assert [one.source for one in row.synonyms] == [EVERYONES_SOURCE], "a default is that of a broker"


def test_advertised_listeners_are_the_addresses_clients_get(start_node):
    """Unset, they have the ports that were bound and the source of the listeners."""
    node = start_node()
    name = str(node.node.node_id)
    (row,) = ask(node.link(), BROKER, name, "advertised.listeners").configs
    assert (row.value, row.config_source) == (f"PLAINTEXT://{node.address}", STATIC_SOURCE)
    assert row.read_only
    other = start_node(directory="other", advertised_listeners="PLAINTEXT://somewhere:1234")
    (row,) = ask(other.link(), BROKER, name, "advertised.listeners").configs
    assert (row.value, row.config_source) == ("PLAINTEXT://somewhere:1234", STATIC_SOURCE)


def test_a_node_that_is_no_broker_of_the_image_has_no_addresses(broker):
    """A controller alone, and a broker that was unregistered a moment ago: the other settings are described."""
    node = broker.node
    image = SimpleNamespace(configs=node.image.configs, brokers=SimpleNamespace(brokers={}))
    context = SimpleNamespace(broker=node, allows=lambda *_: True)
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=str(node.node_id))
    found = describe_configs._describe(context, image, DescribeConfigsRequest(resources=[]), resource)
    rows = {one.name: one for one in found.configs}
    assert rows["node.id"].value == str(node.node_id)
    assert (rows["advertised.listeners"].value, rows["advertised.listeners"].config_source) == (None, DEFAULT_SOURCE)


def test_the_value_of_a_secret_is_null(start_node):
    """It is marked as sensitive. Secrets in a metadata log of another time are read, although none can be set now."""
    node = start_node()
    name = str(node.node.node_id)
    record = ConfigRecord(resource_type=BROKER, resource_name=name, name="ssl.keystore.password", value="hunter2")
    node.run(node.node.control.execute, lambda image: Decision((record,), None))
    (row,) = ask(node.link(), BROKER, str(node.node.node_id), "ssl.keystore.password").configs
    assert (row.value, row.is_sensitive) == (None, True)


def test_missing_resources_have_a_code(broker):
    """Unknown topics, names no topic can have, and kinds of resources without settings."""
    link = broker.link()
    assert ask(link, TOPIC, "absent").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(link, TOPIC, "a/b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert ask(link, 77, "x").error_code == ErrorCode.INVALID_REQUEST
    assert ask(link, BROKER, "9" * 5000).error_code == ErrorCode.INVALID_REQUEST
    assert ask(link, LOGGER, "9" * 5000).error_code == ErrorCode.INVALID_REQUEST


def test_a_change_shows_at_once(broker):
    """The source turns to the topic's own, and back when the setting is deleted."""
    broker.create("t")
    client = broker.client()
    alter_topic_configs(client, "t", set_to={"segment.ms": "60000"})
    (row,) = ask(broker.link(), TOPIC, "t", "segment.ms").configs
    assert (row.value, row.config_source) == ("60000", TOPIC_SOURCE)
    alter_topic_configs(client, "t", set_to={}, delete=["segment.ms"])
    (row,) = ask(broker.link(), TOPIC, "t", "segment.ms").configs
    assert (row.value, row.config_source) == ("604800000", DEFAULT_SOURCE)


def test_an_internal_setting_is_listed_only_where_it_is_set(broker):
    """A topic without it does not show it, one with it does."""
    broker.create("plain")
    broker.create("small", internal_segment_bytes=2000)
    link = broker.link()
    told = {name: {one.name for one in ask(link, TOPIC, name).configs} for name in ("plain", "small")}
    assert "internal.segment.bytes" not in told["plain"]
    assert "internal.segment.bytes" in told["small"]


@pytest.mark.parametrize("version", range(1, 5))
def test_an_unexpected_failure_is_answered_for_the_resource(broker, monkeypatch, version):
    """UNKNOWN_SERVER_ERROR with a message and no settings; the connection goes on."""
    broker.create("t")
    link = broker.link()
    with monkeypatch.context() as patch:
        patch.setattr(type(broker.node), "topic_rules", lambda self: 1 / 0)
        found = ask(link, TOPIC, "t", version=version)
    assert (found.error_code, found.resource_type, found.resource_name) == (ErrorCode.UNKNOWN_SERVER_ERROR, TOPIC, "t")
    assert found.error_message
    assert found.configs == []
    assert ask(link, TOPIC, "t", version=version).error_code == 0


def test_a_groups_settings(start_node):
    """Its own, then the broker's, then the default; the group need not exist."""
    node = start_node(group_consumer_heartbeat_interval_ms=6000)
    alter(node, GROUP, "g", "consumer.session.timeout.ms", "50000")
    rows = {one.name: one for one in ask(node.link(), GROUP, "g", include_synonyms=True).configs}
    found = rows["consumer.session.timeout.ms"]
    assert (found.value, found.config_source, found.read_only) == ("50000", GROUP_SOURCE, False)
    assert [one.name for one in found.synonyms] == ["consumer.session.timeout.ms", "group.consumer.session.timeout.ms"]
    found = rows["consumer.heartbeat.interval.ms"]
    assert (found.value, found.config_source) == ("6000", STATIC_SOURCE)
    assert rows["share.isolation.level"].config_source == DEFAULT_SOURCE
    assert ask(node.link(), GROUP, "").error_code == ErrorCode.INVALID_REQUEST


def test_the_settings_of_client_metrics(broker):
    """They are kept for the day on which clients push."""
    alter(broker, METRICS, "m", "interval.ms", "1000")
    rows = {one.name: one for one in ask(broker.link(), METRICS, "m").configs}
    assert (rows["interval.ms"].value, rows["interval.ms"].config_source) == ("1000", METRICS_SOURCE)
    assert (rows["match"].value, rows["match"].config_source) == ("", DEFAULT_SOURCE)
    assert ask(broker.link(), METRICS, "").error_code == ErrorCode.INVALID_REQUEST


def test_loggers_and_their_levels(broker):
    """All of this process, by Kafka's names of levels."""
    name = str(broker.node.node_id)
    rows = {one.name: one for one in ask(broker.link(), LOGGER, name).configs}
    assert {"root", "stratalog.broker.node"} <= set(rows)
    assert {one.value for one in rows.values()} <= {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
    assert {one.config_source for one in rows.values()} == {LOGGER_SOURCE}
    assert ask(broker.link(), LOGGER, "77").error_code == ErrorCode.INVALID_REQUEST
    assert ask(broker.link(), LOGGER, "").error_code == ErrorCode.INVALID_REQUEST


def test_a_resource_named_again_is_answered_once(broker):
    """Each mention takes some bytes of a frame, and its answer a hundred times as many, and milliseconds."""
    broker.create("t")
    keys = (None, [], ["retention.ms"], ["retention.ms"], None)
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=one) for one in keys
    ]
    every, single = broker.link().call(DescribeConfigsRequest(resources=resources * 1000), 4).results
    assert (len(every.configs) > 1, len(single.configs)) == (True, 1)
