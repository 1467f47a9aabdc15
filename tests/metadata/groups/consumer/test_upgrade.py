"""From a classic group to a consumer group, online."""

import pytest

from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.consumer import upgrade
from stratalog.metadata.groups.consumer.group import ConsumerGroup
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.sync_group import SyncGroupRequestAssignment
from stratalog.wire.records.consumer_protocol import ConsumerProtocolAssignment, OwnedPartitions, encode_protocol
from stratalog.wire.records.group import GroupMetadataKey, encode_key


def _assignment(user_data=None, **partitions):
    parts = [OwnedPartitions(topic=name, partitions=numbers) for name, numbers in partitions.items()]
    return encode_protocol(ConsumerProtocolAssignment(assigned_partitions=parts, user_data=user_data), 1)


def _classic(world, *, assign=True, user_data=None, **fields):
    """A classic group of two stable members that share ``a``, or one whose leader has not assigned yet."""
    strategy = fields.get("protocols", ("range",))[0]
    tokens = [world.classic_join("", "a", version=3, **fields) for _ in range(2)]
    for _ in range(2):  # once more for the one who came second
        world.advance(3_000)
    answers = [world.answer_to(token) for token in tokens]
    members = [answer.member_id for answer in answers]
    if not assign:
        return members, world.classic_sync(members[1], 1)
    given = [
        SyncGroupRequestAssignment(member_id=members[0], assignment=_assignment(user_data, a=[0, 1])),
        SyncGroupRequestAssignment(member_id=members[1], assignment=_assignment(user_data, a=[2, 3], gone=[0])),
    ]
    world.classic_sync(members[0], 1, assignments=given, protocol_name=strategy)
    return members


def test_the_first_consumer_makes_it_a_consumer_group(group_world):
    """The first consumer turns the group: classic members keep what they have, in the epoch of their generation."""
    world = group_world({"a": 4})
    first, second = _classic(world)
    assert world.join("x", "a") == {}
    assert isinstance(world.group, ConsumerGroup)
    assert world.facts.epoch == 2
    assert {name: world.member(name).epoch for name in (first, second)} == {first: 1, second: 1}
    assert world.member(second).assigned == {world.id("a"): {2: 1, 3: 1}}
    assert world.classic_beat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.classic_join(first, "a").generation_id == 2


def test_every_partition_has_one_owner_after_the_upgrade(group_world):
    """After the classic members have joined again, every partition has one owner."""
    world = group_world({"a": 4})
    members = _classic(world)
    world.join("x", "a")
    for _ in range(2):
        for name in members:
            generation = world.classic_join(name, "a").generation_id
            world.classic_sync(name, generation)
        world.beat("x", world.member("x").epoch)
    owned = [partition for member in world.facts.members.values() for partition in member.assigned[world.id("a")]]
    assert sorted(owned) == [0, 1, 2, 3]
    assert world.facts.state.value == "Stable"


def test_the_upgrade_is_one_batch(group_world):
    """The records of the classic group's end and of the consumer group's beginning are in one batch, in this order."""
    world = group_world({"a": 4})
    _classic(world)
    before = len(world.log)
    world.join("x", "a")
    assert world.log[before] == (encode_key(GroupMetadataKey(group="g")), None)
    facts = world.facts
    world.reload()
    assert world.facts.members == facts.members
    assert (world.facts.epoch, world.facts.target_epoch) == (facts.epoch, facts.target_epoch)


def test_waiting_members_are_sent_again(group_world):
    """A SyncGroup that waits for its leader is answered REBALANCE_IN_PROGRESS; the member has nothing yet."""
    world = group_world({"a": 4})
    (_, second), waiting = _classic(world, assign=False)
    world.join("x", "a")
    assert world.answer_to(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.member(second).assigned == {}


def test_offsets_survive_the_upgrade(group_world):
    """The group's offsets are not touched by the change."""
    world = group_world({"a": 4})
    _classic(world)
    before = world.shard.offsets
    world.join("x", "a")
    assert world.shard.offsets is before


@pytest.mark.parametrize(
    ("settings", "fields", "reason"),
    [
        ({"consumer_migration_policy": "disabled"}, {}, "online upgrade is disabled"),
        ({"consumer_migration_policy": "downgrade"}, {}, "online upgrade is disabled"),
        ({"consumer_max_size": 1}, {}, "exceeds the consumer group maximum size"),
        ({}, {"protocol_type": "connect"}, "does not use the consumer embedded protocol"),
        ({}, {"user_data": b"x", "protocols": ("own",)}, "an unsupported custom assignor is in use"),
    ],
)
def test_a_refused_upgrade_leaves_the_group_as_it_was(group_world, settings, fields, reason):
    """GROUP_ID_NOT_FOUND with the reason; the group is as it was."""
    world = group_world({"a": 4}, **settings)
    _classic(world, **fields)
    with pytest.raises(KafkaError, match=reason) as caught:
        world.join("x", "a")
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(world.group, ClassicGroup)


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_data_beside_the_assignments_of_a_known_strategy(group_world, strategy):
    """librdkafka gives members of sticky groups their own data back with their assignments: nothing is lost without it."""
    world = group_world({"a": 4})
    _, second = _classic(world, user_data=b"sticky", protocols=(strategy,))
    world.join("x", "a")
    assert world.member(second).assigned == {world.id("a"): {2: 1, 3: 1}}


def test_a_newcomer_with_a_wrong_expression_does_not_upgrade_the_group(group_world):
    """A newcomer whose expression is wrong does not turn the group."""
    world = group_world({"a": 4})
    _classic(world)
    with pytest.raises(KafkaError) as caught:
        world.join("x", pattern="(")
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert isinstance(world.group, ClassicGroup)


def test_a_newcomer_that_is_refused_leaves_the_group_as_it_was(group_world):
    """There is no room for it: the classic members go on, those that wait are not answered, and no record is written."""
    world = group_world({"a": 4}, consumer_max_size=2)
    members, waiting = _classic(world, assign=False)
    written = len(world.log)
    with pytest.raises(KafkaError) as caught:
        world.join("x", "a")
    assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert isinstance(world.group, ClassicGroup)
    assert len(world.log) == written
    given = [SyncGroupRequestAssignment(member_id=name, assignment=b"x") for name in members]
    world.classic_sync(members[0], 1, assignments=given, protocol_name="range")
    assert world.answer_to(waiting).assignment == b"x"


def test_empty_classic_group(group_world):
    """A classic group without members makes way for a consumer group, whatever the policy."""
    world = group_world({"a": 4}, consumer_migration_policy="disabled")
    members = _classic(world)
    world.classic_leave(*((name, None) for name in members))
    assert world.join("x", "a") == {"a": {0, 1, 2, 3}}
    world.reload()
    assert isinstance(world.group, ConsumerGroup)


def test_more_topics_and_partitions_than_are_read_in_one_turn(group_world, monkeypatch):
    """Those of all members count together, what they were given as well: here seven. The group stays as it is."""
    world = group_world({"a": 4})
    _classic(world)
    monkeypatch.setattr(upgrade, "_ELEMENTS_MAX", 8)
    with pytest.raises(KafkaError, match=r"Cannot upgrade classic group g.*elements") as caught:
        world.join("x", "a")
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(world.group, ClassicGroup)
    monkeypatch.setattr(upgrade, "_ELEMENTS_MAX", 10)
    world.join("x", "a")
    assert isinstance(world.group, ConsumerGroup)


def test_members_that_no_append_can_take(group_world, monkeypatch):
    """Classic members were written with the chosen protocol only; here they would be with all, in one batch."""
    world = group_world({"a": 4})
    _classic(world, protocols=("range", "sticky", "roundrobin"))
    written = len(world.log)
    monkeypatch.setattr(upgrade, "WRITE_BYTES_MAX", 200)
    with pytest.raises(KafkaError, match=r"Cannot upgrade classic group g.*bytes") as caught:
        world.join("x", "a")
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (type(world.group), len(world.log)) == (ClassicGroup, written)
    monkeypatch.setattr(upgrade, "WRITE_BYTES_MAX", 400)
    with pytest.raises(KafkaError, match=r"Cannot upgrade classic group g.*bytes"):
        world.join("x", "a" * 200, "b" * 200)
    assert (type(world.group), len(world.log)) == (ClassicGroup, written)
    world.join("x", "a")
    assert isinstance(world.group, ConsumerGroup)
