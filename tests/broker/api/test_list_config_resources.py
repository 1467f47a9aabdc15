"""ListConfigResources: everything that can have settings."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def ask(broker, *types, version=1):
    answer = broker.link().call(ListConfigResourcesRequest(resource_types=list(types)), version)
    found = [(one.resource_type, one.resource_name) for one in answer.config_resources]
    return ErrorCode(answer.error_code), found


@pytest.fixture
def with_settings(broker):
    """A broker with two topics, and a group and a client metrics subscription with settings."""
    broker.create("b")
    broker.create("a")
    for kind, name, key, value in (
        (GROUP, "g", "consumer.session.timeout.ms", "50000"),
        (METRICS, "m", "interval.ms", "1000"),
    ):
        config = AlterableConfig(name=key, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        (answer,) = broker.link().call(request, 1).responses
        assert answer.error_code == 0, answer.error_message
    return broker


def test_all_types_where_none_is_named(with_settings):
    """Topics and brokers that exist, groups and client metrics that have settings."""
    node = str(with_settings.node.node_id)
    assert ask(with_settings) == (
        ErrorCode.NONE,
        [(TOPIC, "a"), (TOPIC, "b"), (BROKER, node), (LOGGER, node), (METRICS, "m"), (GROUP, "g")],
    )


def test_types_one_by_one(with_settings):
    """Each once, however often it is named."""
    assert ask(with_settings, GROUP, TOPIC, GROUP) == (ErrorCode.NONE, [(TOPIC, "a"), (TOPIC, "b"), (GROUP, "g")])


def test_version_zero_is_about_client_metrics(with_settings):
    """It has no types, neither asked nor told."""
    assert ask(with_settings, version=0) == (ErrorCode.NONE, [(METRICS, "m")])


def test_a_type_that_does_not_exist_fails_the_request(broker):
    """UNSUPPORTED_VERSION: it may exist in a later one."""
    assert ask(broker, TOPIC, 77) == (ErrorCode.UNSUPPORTED_VERSION, [])
