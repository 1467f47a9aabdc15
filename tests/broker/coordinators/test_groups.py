"""The group coordinator of a broker, as handlers see it."""

from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators.groups import GroupCoordinator, check_member_request, group_settings
from stratalog.broker.requests.dispatch import PENDING
from stratalog.broker.settings.config import load_config
from stratalog.metadata.groups.group import GroupSettings
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.messages.join_group import JoinGroupRequest


@pytest.fixture
def coordinator(start_node):
    """The coordinator of a running broker that has its topic."""
    node = start_node(offsets_topic_num_partitions="3", group_max_size="7")
    node.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    node.wait_until(lambda: not node.node.groups.loading)
    return node


def context(**more):
    return SimpleNamespace(api_version=4, client_id="me", connection=SimpleNamespace(host="10.0.0.7"), **more)


def test_the_settings_are_those_of_the_broker(coordinator):
    """Kafka's defaults, and what the configuration says."""
    config = coordinator.node.config
    assert group_settings(config) == GroupSettings(max_size=7)


def test_a_group_id_that_no_record_can_hold_is_refused(coordinator):
    """Before any shard hears of it."""
    with pytest.raises(KafkaError) as raised:
        coordinator.run(coordinator.node.groups.submit, context(), "g" * 32_768, JoinGroupRequest)
    assert raised.value.code is ErrorCode.INVALID_GROUP_ID


def test_settings_that_change_hold_at_once(coordinator):
    """Every shard hears of a setting that was changed for the whole cluster, and so does one that is loaded later."""

    def intervals():
        return {driver.shard.settings.consumer_assignment_interval_ms for driver in coordinator.node.groups.drivers()}

    assert coordinator.run(intervals) == {1_000}
    name = "group.consumer.assignment.interval.ms"
    resource = AlterConfigsResource(
        resource_type=4, resource_name="", configs=[AlterableConfig(name=name, config_operation=0, value="77")]
    )
    coordinator.link().call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    coordinator.wait_until(lambda: intervals() == {77})
    coordinator.restart()
    coordinator.wait_until(lambda: intervals() == {77})


@pytest.mark.parametrize("names", ["uniform,range", "org.apache.kafka.coordinator.group.assignor.RangeAssignor"])
def test_assignors_by_name_or_class(tmp_path, names):
    """Kafka names its own assignors either way."""
    given = load_config(
        environment={},
        assignments=[f"group.consumer.assignors={names}", "node.id=1", f"log.dirs={tmp_path}"],
        host_name="localhost",
    )
    assert group_settings(given).consumer_assignors == (("uniform", "range") if "uniform" in names else ("range",))


def test_a_request_as_the_group_hears_it(coordinator):
    """The caller and its host; with a fresh id only where one may be needed, since that takes random bytes."""
    groups: GroupCoordinator = coordinator.node.groups
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    event = groups.event("token", context(), "g", beat)
    assert (event.token, event.group_id, event.api_version, event.client_id, event.client_host, event.fresh_id) == (
        "token",
        "g",
        4,
        "me",
        "/10.0.0.7",
        "",
    )
    join = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="", protocols=[])
    first, second = (groups.event(0, context(), "g", join).fresh_id for _ in range(2))
    assert len(first) == len(second) == 36
    assert first != second


def test_heartbeats_are_answered_at_once(coordinator):
    """Where they concern only the member; a stranger's goes to the shard."""
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    heard = []
    one = context(respond=heard.append)
    shard = coordinator.node.groups.host.of("g").shard
    assert coordinator.run(coordinator.node.groups.heartbeat, one, beat) is PENDING
    assert heard[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shard.heartbeat = lambda *_: ErrorCode.REBALANCE_IN_PROGRESS
    answer = coordinator.run(coordinator.node.groups.heartbeat, one, beat)
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_every_partition_has_its_shard(coordinator):
    """Also after a restart; each gets the topics."""
    for node in (coordinator, coordinator.restart()):
        node.wait_until(lambda: len(node.node.groups.drivers()) == 3)  # noqa: B023 - called at once
        shards = node.run(lambda: [driver.shard for driver in node.node.groups.drivers()])  # noqa: B023
        assert sorted(shard.number for shard in shards) == [0, 1, 2]
        assert all("__consumer_offsets" in shard.image.topics.by_name for shard in shards)


def test_one_of_many_groups(coordinator):
    """Its token hears of every error."""
    heard = []
    token = SimpleNamespace(respond=heard.append, fail=heard.append)
    groups = coordinator.node.groups
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    coordinator.run(groups.ask, token, context(), "g", beat)
    coordinator.run(groups.ask, token, context(), None, beat)
    assert heard[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert heard[1].code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("group_id", "allowed", "code"),
    [("", True, "INVALID_GROUP_ID"), ("g", False, "GROUP_AUTHORIZATION_FAILED")],
)
def test_membership_needs_a_group_name_and_read_permission(group_id, allowed, code):
    """A group with a name, and a caller that may read it."""
    with pytest.raises(KafkaError, match=code):
        check_member_request(SimpleNamespace(allows=lambda _: allowed), group_id)
    check_member_request(SimpleNamespace(allows=lambda _: True), "g")
