"""Which group a request is for, and what happens where there is none."""

from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.group import GroupSettings
from stratalog.metadata.groups.shard.routes import is_unused
from stratalog.wire.errors import ErrorCode


def test_requests_to_a_group_that_is_not_there(classic_world):
    """It has no members, and none is made."""
    world = classic_world()
    assert world.beat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync("m", "m", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave(("m", None)).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join("m", "m").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.shard.groups == {}


def test_groups_are_apart(classic_world):
    """Each has its members and its generation."""
    world = classic_world()
    world.stable("a")
    world.join("b", group_id="h")
    world.advance(0)
    assert world.answers["join-b"].generation_id == 1
    assert world.state == "Stable"


def test_classic_members_take_the_place_of_an_empty_consumer_group(group_world):
    """The records of the other kind are deleted; a member that does not know that it is gone is refused."""
    world = group_world({"t": 2}, initial_rebalance_delay_ms=0)
    world.join("m", "t")
    world.beat("m", -1)
    assert (world.group.type.value, world.group.state) == ("consumer", "Empty")
    assert world.classic_join("old", "t").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    token = world.classic_join("", "t", version=3)
    world.advance(1)
    assert world.answer_to(token).generation_id == 1
    assert isinstance(world.group, ClassicGroup)
    world.reload()
    assert "g" not in world.shard.groups


def test_a_group_without_members_is_unused(classic_world):
    """A group without members that expects none."""
    world = classic_world()
    assert is_unused(ClassicGroup("g", GroupSettings()))
    world.join("a", version=9)
    assert not is_unused(world.group)
    world.rejoin("a", "client-a")
    assert not is_unused(world.group)
