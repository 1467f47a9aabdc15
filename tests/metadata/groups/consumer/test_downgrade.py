"""From a consumer group back to a classic one, online."""

import pytest

from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.consumer import downgrade
from stratalog.metadata.groups.consumer.group import ConsumerGroup
from stratalog.wire.errors import ErrorCode


@pytest.fixture
def mixed(group_world):
    """Make a group of one member of each protocol that share ``a``; both are stable."""

    def make(**settings):
        world = group_world({"a": 4}, **settings)
        world.join("x", "a")
        world.name = world.classic_join("", "a", version=3).member_id
        world.beat("x", 1)
        world.beat("x", 1, owned={"a": [0, 1]})
        world.classic_join(world.name, "a")
        world.classic_sync(world.name, 2)
        return world

    return make


@pytest.mark.parametrize("policy", ["bidirectional", "downgrade"])
def test_last_consumer_leaves(mixed, policy):
    """When only classic members are left the group is theirs: what they have is kept, and a rebalance begins."""
    world = mixed(consumer_migration_policy=policy)
    assert world.beat("x", -1).member_epoch == -1
    assert isinstance(world.group, ClassicGroup)
    assert (world.group.state, world.group.generation) == ("PreparingRebalance", 2)
    member = world.group.members.by_id[world.name]
    assert world.read_assignment(member.assignment) == {"a": {2, 3}}
    assert world.classic_beat(world.name, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = world.classic_join(world.name, "a")
    assert (answer.generation_id, answer.leader) == (3, world.name)


def test_last_consumer_is_silent(mixed):
    """So it is when its session ends."""
    world = mixed()
    world.advance(30_000)
    world.classic_beat(world.name, 2)
    world.advance(15_000)
    assert isinstance(world.group, ClassicGroup)


def test_in_the_log(mixed):
    """A shard that is loaded finds the classic group, stable, and nothing of the other."""
    world = mixed()
    world.beat("x", -1)
    world.reload()
    assert isinstance(world.group, ClassicGroup)
    assert (world.group.state, world.group.generation) == ("Stable", 2)
    assert set(world.group.members.by_id) == {world.name}


@pytest.mark.parametrize("settings", [{"consumer_migration_policy": "upgrade"}, {"max_size": 0}])
def test_a_group_stays_if_the_policy_or_its_size_forbids_a_downgrade(mixed, settings):
    """Without the policy, or if a classic group may not be that large, the group stays what it is."""
    world = mixed(**settings)
    world.beat("x", -1)
    assert isinstance(world.group, ConsumerGroup)
    assert set(world.facts.members) == {world.name}


def test_a_downgrade_without_members(group_world):
    """A group without any member stays a consumer group."""
    world = group_world({"a": 4})
    world.join("x", "a")
    world.beat("x", -1)
    assert isinstance(world.group, ConsumerGroup)


def test_static_consumer_returns_as_classic_member(mixed):
    """The last consumer that restarts with the classic protocol turns the group, without a rebalance."""
    world = mixed()
    world.beat("x", -1)
    world = mixed()
    world.join("s", "a", instance_id="i")
    world.beat("x", 2, owned={"a": [0, 1]})
    world.beat("x", -1)
    assert isinstance(world.group, ConsumerGroup)
    generation = world.classic_join(world.name, "a").generation_id
    world.classic_sync(world.name, generation)
    world.beat("s", world.member("s").epoch)
    answer = world.classic_join("", "a", instance_id="i")
    assert isinstance(world.group, ClassicGroup)
    assert set(world.group.members.by_id) == {world.name, answer.member_id}
    world.reload()
    assert isinstance(world.group, ClassicGroup)


def test_empty_group_becomes_classic(group_world):
    """A classic member that comes to a consumer group without members begins a classic one."""
    world = group_world({"a": 4}, consumer_migration_policy="disabled")
    world.join("x", "a")
    world.beat("x", -1)
    token = world.classic_join("", "a", version=3)
    world.advance(3_000)
    assert world.answer_to(token).generation_id == 1
    assert isinstance(world.group, ClassicGroup)
    world.reload()
    assert not isinstance(world.shard.groups.get("g"), ConsumerGroup)


def test_subscriptions_that_no_append_can_take(mixed, monkeypatch):
    """Each member's was written by itself; together they would not fit, and the shard would be lost."""
    world = mixed()
    monkeypatch.setattr(downgrade, "WRITE_BYTES_MAX", 10)
    assert world.beat("x", -1).member_epoch == -1
    assert isinstance(world.group, ConsumerGroup)
    assert set(world.facts.members) == {world.name}
    assert world.classic_beat(world.name, 2) == ErrorCode.REBALANCE_IN_PROGRESS


def test_ids_that_no_append_can_take(mixed, monkeypatch):
    """They stand in the record of a classic group as well, beside subscriptions that would fit."""
    world = mixed()
    held_bytes = len(world.member(world.name).classic.protocols[0][1]) + 260 + 4 * 2
    monkeypatch.setattr(downgrade, "WRITE_BYTES_MAX", held_bytes + len(world.name) - 1)
    world.beat("x", -1)
    assert isinstance(world.group, ConsumerGroup)
