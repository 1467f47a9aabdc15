"""AlterConfigs: all settings of a resource are replaced."""

import pytest

from stratalog.broker.api.alter_configs import API
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource

TOPIC, BROKER = 2, 4


def resource(kind, name, **settings):
    """A resource with all the settings that it is to have."""
    configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def ask(broker, *resources, version=2, validate_only=False):
    request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return broker.link().call(request, version).responses


@pytest.mark.parametrize("version", range(3))
def test_unnamed_settings_go_back_to_their_defaults(broker, version):
    """The partitions obey at once, and after a restart."""
    broker.create("t", segment_ms=1234)
    (answer,) = ask(broker, resource(TOPIC, "t", max_message_bytes="100"), version=version)
    assert (answer.error_code, answer.error_message, answer.resource_type, answer.resource_name) == (0, None, 2, "t")
    for _ in range(2):
        config = broker.partition("t").log.config
        assert (config.max_message_bytes, config.segment_ms) == (100, 604_800_000)
        broker.restart()


def test_each_resource_succeeds_or_fails_for_itself(broker):
    """One bad value leaves its resource as it was."""
    broker.create("t", segment_ms=1234)
    broker.create("u")
    answers = ask(
        broker,
        resource(TOPIC, "t", max_message_bytes="100", retention_ms="never"),
        resource(TOPIC, "u", segment_ms="5000"),
        resource(TOPIC, "absent", segment_ms="5000"),
        resource(TOPIC, "u2", segment_ms=None),
    )
    codes = {one.resource_name: ErrorCode(one.error_code) for one in answers}
    assert codes == {
        "t": ErrorCode.INVALID_CONFIG,
        "u": ErrorCode.NONE,
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "u2": ErrorCode.INVALID_REQUEST,
    }
    assert broker.partition("t").log.config.segment_ms == 1234
    assert broker.partition("u").log.config.segment_ms == 5000


def test_a_setting_named_twice_and_another_broker_are_refused(broker):
    """INVALID_REQUEST, and nothing changes."""
    broker.create("t", segment_ms=1234)
    twice = resource(TOPIC, "t", segment_ms="5000")
    twice.configs *= 2
    other = resource(BROKER, str(broker.node.node_id + 1), log_retention_ms="5000")
    answers = ask(broker, twice, other)
    assert [one.error_code for one in answers] == [ErrorCode.INVALID_REQUEST] * 2
    assert broker.partition("t").log.config.segment_ms == 1234


def test_validation_changes_nothing(broker):
    """The answer is that of the change."""
    broker.create("t", segment_ms=1234)
    (good,) = ask(broker, resource(TOPIC, "t"), validate_only=True)
    (bad,) = ask(broker, resource(TOPIC, "t", no_such="1"), validate_only=True)
    assert (good.error_code, bad.error_code) == (0, ErrorCode.INVALID_CONFIG)
    assert broker.partition("t").log.config.segment_ms == 1234


def test_a_failure_as_a_whole_is_answered_for_each_resource():
    """With its type and name."""
    request = AlterConfigsRequest(resources=[resource(BROKER, "1")], validate_only=False)
    (answer,) = API.failure(request, 2, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "why")).responses
    assert (answer.error_code, answer.error_message, answer.resource_type, answer.resource_name) == (-1, "why", 4, "1")
