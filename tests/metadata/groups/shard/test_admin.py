"""The administrators' view of groups."""

import pytest

from stratalog.metadata.groups.group_events import DeleteGroup, DescribeGroup, ListGroups
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.group import OffsetCommitKey, decode_key


def describe(world, group_id="g", version=5):
    world.answers.pop("describe", None)
    return world.ask("describe", DescribeGroup(), version, group_id).groups[0]


def listed(world, states=(), types=()):
    world.answers.pop("list", None)
    world.take(world.shard.step(ListGroups("list", frozenset(states), frozenset(types)), world.now))
    return [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in world.answers["list"].groups]


def test_a_stable_group_is_described(classic_world):
    """With subscriptions and assignments."""
    world = classic_world()
    world.join("s", group_instance_id="i")
    world.stable("a", protocols={"range": b"wants"})
    one = describe(world)
    assert (one.error_code, one.group_state, one.protocol_type, one.protocol_data) == (0, "Stable", "consumer", "range")
    assert [(member.member_id, member.group_instance_id) for member in one.members] == [
        ("i-s", "i"),
        ("client-a", None),
    ]
    member = one.members[1]
    assert (member.client_id, member.client_host) == ("client", "/10.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"wants", b"client-a")


def test_a_group_that_rebalances_is_described(classic_world):
    """Its members, and the partitions they had; not those they want."""
    world = classic_world()
    world.stable("a")
    world.join("b")
    one = describe(world)
    assert (one.group_state, one.protocol_data) == ("PreparingRebalance", "")
    assert {(member.member_metadata, member.member_assignment) for member in one.members} == {
        (b"", b"client-a"),
        (b"", b""),
    }


def test_a_group_that_is_not_there(classic_world):
    """Dead; from version 6 on not found (KIP-1043)."""
    world = classic_world()
    old, new = describe(world, version=5), describe(world, version=6)
    assert (old.error_code, old.group_state, old.members) == (0, "Dead", [])
    assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert new.error_message == "Group g not found."


def test_a_description_waits_for_the_log(classic_world):
    """Assignments that may yet be lost are not shown."""
    world = classic_world()
    world.join("a")
    world.advance(0)
    world.held = True
    world.sync("a", "client-a", 1, given={})
    assert world.ask("describe", DescribeGroup(), 5) is None
    world.commit()
    assert world.answers["describe"].groups[0].group_state == "Stable"


def test_groups_are_listed(classic_world):
    """All, or those in some states and of some types."""
    world = classic_world()
    world.stable("a")
    world.commit_offset("offsets")
    stable, simple = ("g", "consumer", "Stable", "classic"), ("offsets", "", "Empty", "classic")
    assert listed(world) == [stable, simple]
    assert listed(world, states=["stable", "dead"]) == [stable]
    assert listed(world, states=["empty"], types=["classic"]) == [simple]
    assert listed(world, types=["consumer"]) == []


def test_a_group_is_deleted(classic_world):
    """With its offsets, and for good."""
    world = classic_world()
    world.stable("a")
    assert world.commit_offset() == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.ask("no", DeleteGroup()).code == ErrorCode.NON_EMPTY_GROUP
    world.leave(("client-a", None))
    assert world.commit_offset() == 0
    world.held = True
    assert world.ask("yes", DeleteGroup()) is None
    assert world.shard.groups == {}
    world.commit()
    assert world.answers["yes"].results[0].error_code == 0
    assert [value for _, value in world.log[-2:]] == [None, None]
    assert isinstance(decode_key(world.log[-2].key), OffsetCommitKey)
    world.restart()
    assert world.shard.groups == {}
    with pytest.raises(KafkaError, match="Group g not found"):
        raise world.ask("again", DeleteGroup())
