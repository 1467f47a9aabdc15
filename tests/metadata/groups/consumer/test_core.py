"""The parts of their group that all requests of members need."""

import pytest

from stratalog.metadata.coordination import CoordinatorRecord, Reply, Write
from stratalog.metadata.groups.consumer.core import Timer, outcome
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.heartbeat import HeartbeatResponse


def test_an_answer_leaves_with_its_records():
    """An answer leaves with its records; without any, when what it tells of is committed."""
    answer = HeartbeatResponse()
    assert outcome("t", answer, []) == [Reply("t", answer, durable=True)]
    record = CoordinatorRecord(b"k", None)
    assert outcome("t", answer, [record]) == [Write([record], [Reply("t", answer)])]


def test_a_replaced_instance_is_fenced(group_world):
    """Instances are found by their ids; who has been replaced is fenced."""
    world = group_world({"a": 2})
    world.join("x", "a", instance_id="i")
    group = world.group
    assert group.static_member("i") is group.known_instance("i", "x")
    assert group.static_member("j") is None
    for instance_id, member_id, code in (
        ("j", "x", ErrorCode.UNKNOWN_MEMBER_ID),
        ("i", "y", ErrorCode.FENCED_INSTANCE_ID),
    ):
        with pytest.raises(KafkaError) as caught:
            group.known_instance(instance_id, member_id)
        assert caught.value.code is code


def test_limits_of_a_group_follow_the_settings(group_world):
    """The times of a group are those that hold now, and are not worked out again while nothing changes."""
    world = group_world({"a": 2})
    world.join("x", "a")
    limits = world.group.limits
    assert world.group.limits is limits
    world.configure("g", consumer_heartbeat_interval_ms="6000")
    assert world.group.limits.heartbeat_interval_ms == 6_000
    world.set(consumer_max_heartbeat_interval_ms=5_500)
    assert world.group.limits.heartbeat_interval_ms == 5_500


def test_timers_end_with_the_member(group_world):
    """A member that has left has no deadlines."""
    world = group_world({"a": 2})
    world.join("x", "a")
    world.beat("x", -1)
    assert not any((timer, "x") in world.group.timers for timer in Timer)
    assert world.group.deadline() is None
