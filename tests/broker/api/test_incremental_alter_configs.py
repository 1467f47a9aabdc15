"""IncrementalAlterConfigs: single settings change, hold at once, and last."""

import logging

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def change(*changes, kind=TOPIC, name="t"):
    """One resource with ``(setting, operation, value)`` changes."""
    configs = [AlterableConfig(name=one, config_operation=operation, value=value) for one, operation, value in changes]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def ask(broker, *resources, version=1, validate_only=False):
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return broker.link().call(request, version).responses


@pytest.mark.parametrize("version", range(2))
def test_a_change_holds_at_once_and_after_a_restart(broker, version):
    """The partitions obey the new setting from the next append on, and another start still does."""
    broker.create("t")
    (answer,) = ask(broker, change(("max.message.bytes", SET, "100")), version=version)
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (0, TOPIC, "t")
    assert broker.append("t", b"x" * 500).error_code
    with pytest.raises(Exception, match=r"max\.message\.bytes"):
        broker.produce("t", b"x" * 500)
    broker.restart()
    assert broker.partition("t").log.config.max_message_bytes == 100
    ask(broker, change(("max.message.bytes", DELETE, None)), version=version)
    assert broker.produce("t", b"x" * 500) == [0]


def test_lists_are_added_to_and_taken_from(broker):
    """APPEND and SUBTRACT work on lists only."""
    broker.create("t")
    ask(broker, change(("cleanup.policy", APPEND, "compact")))
    assert broker.partition("t").log.config.cleanup_policy == {"delete", "compact"}
    ask(broker, change(("cleanup.policy", SUBTRACT, "delete")))
    assert broker.partition("t").log.config.cleanup_policy == {"compact"}
    (refused,) = ask(broker, change(("segment.ms", APPEND, "5")))
    assert refused.error_code == ErrorCode.INVALID_CONFIG


def test_resources_succeed_or_fail_for_themselves_and_wholly(broker):
    """One bad value leaves all settings of its resource as they were; other resources change."""
    broker.create("t")
    broker.create("u")
    answers = ask(
        broker,
        change(("segment.ms", SET, "5000"), ("retention.ms", SET, "never")),
        change(("segment.ms", SET, "6000"), name="u"),
        change(("segment.ms", SET, "6000"), name="absent"),
        change(("no.such.setting", SET, "1"), name="u"),
    )
    codes = [ErrorCode(one.error_code) for one in answers]
    assert codes[0] is ErrorCode.INVALID_CONFIG
    assert codes[2] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.partition("t").log.config.segment_ms == 604_800_000


def test_validation_changes_nothing(broker):
    """The answer is that of the change."""
    broker.create("t")
    (good,) = ask(broker, change(("segment.ms", SET, "5000")), validate_only=True)
    (bad,) = ask(broker, change(("segment.ms", SET, "x")), validate_only=True)
    assert (good.error_code, bad.error_code) == (0, ErrorCode.INVALID_CONFIG)
    assert broker.partition("t").log.config.segment_ms == 604_800_000


@pytest.mark.parametrize("cluster_wide", [True, False])
def test_a_brokers_setting_reaches_the_topics_that_have_none(broker, cluster_wide):
    """log.retention.ms for this broker, or for all brokers, is the default of every topic at once."""
    broker.create("t")
    broker.create("own", retention_ms=77)
    name = "" if cluster_wide else str(broker.node.node_id)
    (answer,) = ask(broker, change(("log.retention.ms", SET, "9000"), kind=BROKER, name=name))
    assert answer.error_code == 0
    assert broker.partition("t").log.config.retention_ms == 9000
    assert broker.partition("own").log.config.retention_ms == 77
    broker.restart()
    assert broker.partition("t").log.config.retention_ms == 9000


def test_read_only_settings_are_refused(broker):
    """Settings that are read at the start cannot be changed while the broker runs."""
    (answer,) = ask(broker, change(("num.partitions", SET, "3"), kind=BROKER, name=str(broker.node.node_id)))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message


def test_the_level_of_a_logger_changes_at_once(broker):
    """Only of this broker, and not for a validation; the rest of the request is carried out."""
    logger = logging.getLogger("stratalog.broker.node")
    broker.create("t")
    name, changed = str(broker.node.node_id), ("stratalog.broker.node", SET, "TRACE")
    try:
        (checked,) = ask(broker, change(changed, kind=LOGGER, name=name), validate_only=True)
        assert (checked.error_code, logger.level) == (0, logging.NOTSET)
        level, other, topic = ask(
            broker,
            change(changed, kind=LOGGER, name=name),
            change(changed, kind=LOGGER, name="77"),
            change(("segment.ms", SET, "5000")),
        )
        assert (level.error_code, logger.level, topic.error_code) == (0, 5, 0)
        assert (other.error_code, other.resource_name) == (ErrorCode.INVALID_REQUEST, "77")
    finally:
        logger.setLevel(logging.NOTSET)


def test_groups_and_client_metrics_have_settings(broker):
    """Within the broker's bounds; they last."""
    good = change(("consumer.session.timeout.ms", SET, "50000"), kind=GROUP, name="g")
    bad = change(("consumer.session.timeout.ms", SET, "1"), kind=GROUP, name="h")
    metrics = change(("interval.ms", SET, "1000"), kind=METRICS, name="m")
    codes = {one.resource_name: ErrorCode(one.error_code) for one in ask(broker, good, bad, metrics)}
    assert codes == {"g": ErrorCode.NONE, "h": ErrorCode.INVALID_CONFIG, "m": ErrorCode.NONE}
    broker.restart()
    configs = broker.node.image.configs
    assert configs.of((GROUP, "g")) == {"consumer.session.timeout.ms": "50000"}
    assert configs.of((METRICS, "m")) == {"interval.ms": "1000"}
