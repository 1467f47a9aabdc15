"""Settings that change while the broker runs."""

import pytest

from stratalog.broker.control.dynamic_config import effective_config
from stratalog.broker.settings.config import load_config
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.records.metadata import ConfigRecord

BROKER = 4
SET, DELETE = 0, 1


def record(name, key, value):
    return ConfigRecord(resource_type=BROKER, resource_name=name, name=key, value=value)


@pytest.fixture
def given(tmp_path):
    """A broker whose file says 77 connections."""
    return load_config(
        environment={}, assignments=["max.connections=77", "node.id=1", f"log.dirs={tmp_path}"], host_name="localhost"
    )


@pytest.fixture
def alter(broker):
    """Changes one setting of the broker, or of all brokers; the code of the answer."""

    def alter(key, value, name=None):
        operation = DELETE if value is None else SET
        resource = AlterConfigsResource(
            resource_type=BROKER,
            resource_name=str(broker.node.node_id) if name is None else name,
            configs=[AlterableConfig(name=key, config_operation=operation, value=value)],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        (answer,) = broker.link().call(request, 1).responses
        return ErrorCode(answer.error_code), answer.error_message

    return alter


def test_the_nearer_place_wins(given):
    """The broker's own setting, then that of all brokers, then the file."""
    image = EMPTY_IMAGE
    assert effective_config(given, image) is given
    image = image.apply([record("", "max.connections", "88")])
    assert effective_config(given, image).integer("max.connections") == 88
    image = image.apply([record("1", "max.connections", "99"), record("2", "max.connections", "5")])
    assert effective_config(given, image).integer("max.connections") == 99
    image = image.apply([record("", "max.connections", None), record("1", "max.connections", None)])
    assert effective_config(given, image).integer("max.connections") == 77


def test_everything_else_stays(given):
    """Settings that cannot change, and those given on the command line."""
    changed = effective_config(given, EMPTY_IMAGE.apply([record("1", "max.connections", "5")]))
    different = {name for name in given.values if given.values[name] != changed.values[name]}
    assert different == {"max.connections"}
    assert (changed.static, changed.log_dirs, changed.listeners) == (given.static, given.log_dirs, given.listeners)


def test_connections_are_counted_against_the_new_limit_at_once(broker, alter):
    """Those that are open stay; a restart keeps the limit."""
    held = broker.link()
    assert alter("max.connections", "1")[0] is ErrorCode.NONE
    held.api_ranges()
    with pytest.raises(Exception, match=r"(?i)connect|closed|reset"):
        broker.link().api_ranges()
    assert held.api_ranges()
    broker.restart()
    assert broker.node.server.limits.connections_max == 1


@pytest.mark.parametrize("name", [None, ""])
def test_a_change_holds_at_once_and_after_a_restart(broker, alter, name):
    """For one broker or for all of them."""
    rate = "remote.log.manager.copy.max.bytes.per.second"
    assert alter(rate, "12345", name)[0] is ErrorCode.NONE
    assert broker.node.tiering.config.integer(rate) == 12345
    assert alter("remote.fetch.max.wait.ms", "250", name)[0] is ErrorCode.NONE
    assert broker.node.config.integer("remote.fetch.max.wait.ms") == 250
    broker.restart()
    assert broker.node.tiering.config.integer(rate) == broker.node.config.integer(rate) == 12345
    assert alter(rate, None, name)[0] is ErrorCode.NONE
    assert broker.node.tiering.config.integer(rate) == (1 << 63) - 1


@pytest.mark.parametrize(
    "key", ["listeners", "node.id", "log.dirs", "num.partitions", "listener.security.protocol.map"]
)
def test_start_up_settings_are_refused(alter, key):
    """In Kafka's words."""
    code, message = alter(key, "1")
    assert code is ErrorCode.INVALID_REQUEST
    assert message == f"Cannot update these configs dynamically: [{key}]"


def test_a_text_that_cannot_be_read_keeps_the_former_value(given):
    """Not that of the file, as long as the node runs; other changes hold meanwhile."""
    image = EMPTY_IMAGE.apply([record("", "max.connections", "88")])
    former = effective_config(given, image)
    image = image.apply([record("", "max.connections", "many"), record("", "max.connections.per.ip", "9")])
    config = effective_config(given, image, former)
    assert (config.integer("max.connections"), config.integer("max.connections.per.ip")) == (88, 9)
    assert effective_config(given, image).integer("max.connections") == 77


@pytest.mark.parametrize("text", ["127.0.0.1", "x:1", "127.0.0.1:-1", "localhost:3", ":5", "10.0.0.1:1,10.0.0.1:2"])
@pytest.mark.parametrize("name", [None, ""])
def test_counts_of_addresses_are_read_before_they_are_accepted(broker, alter, name, text):
    """A text without a count once ended every node that applied it."""
    code, message = alter("max.connections.per.ip.overrides", text, name)
    assert code is ErrorCode.INVALID_REQUEST
    assert "Value must be a list of address:count" in message
    assert alter("max.connections.per.ip.overrides", "[::1]:5, 10.0.0.1:7", name)[0] is ErrorCode.NONE
    assert broker.node.server.limits.per_ip_overrides == {"::1": 5, "10.0.0.1": 7}
