"""How a shard comes to consumer groups, and they to their records."""

import pytest

from stratalog.metadata.groups.consumer.group import ConsumerGroup
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.records import group as records


def _fails(call, *arguments, **fields):
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **fields)
    return caught.value.code, caught.value.message


def test_checked_before_anything_else(group_world):
    """A malformed heartbeat is refused as such, whether there is a group or not."""
    world = group_world({"a": 1})
    assert _fails(world.beat, "", 1)[0] is ErrorCode.INVALID_REQUEST
    assert _fails(world.join, "x", "a", server_assignor="none")[0] is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_only_a_joining_member_makes_a_group(group_world):
    """Only a member that joins makes a group."""
    world = group_world({"a": 1})
    assert _fails(world.beat, "x", 1) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")
    assert _fails(world.describe) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")


def test_a_classic_group_is_no_consumer_group(group_world):
    """A classic group is no consumer group: neither for who does not join nor for who describes it."""
    world = group_world({"a": 1})
    world.classic_join("", "a")
    assert _fails(world.beat, "x", 1) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")
    assert _fails(world.describe) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")


def test_offsets_before_the_group(group_world):
    """Records of a consumer group make it, in the place of one of offsets alone."""
    world = group_world({"a": 1})
    world.join("x", "a")
    assert isinstance(world.reload().groups["g"], ConsumerGroup)


def test_tombstones_of_no_group(group_world):
    """A tombstone for a missing group does nothing."""
    world = group_world({"a": 1})
    world.shard.replay(
        records.encode_key(records.ConsumerGroupMetadataKey(group_id="g")), None, offset=0, producer=None
    )
    assert not world.shard.groups


def test_records_of_both_kinds(group_world):
    """A consumer group's record where a classic group has a generation is damage."""
    world = group_world({"a": 1})
    value = records.GroupMetadataValue(protocol_type="consumer", generation=1, protocol=None, leader=None, members=[])
    key = records.encode_key(records.GroupMetadataKey(group="g"))
    world.shard.replay(key, records.encode_value(value), offset=0, producer=None)
    consumer = records.encode_key(records.ConsumerGroupMetadataKey(group_id="g"))
    epoch = records.encode_value(records.ConsumerGroupMetadataValue(epoch=1))
    with pytest.raises(Corrupt):
        world.shard.replay(consumer, epoch, offset=1, producer=None)


def test_deadlines_are_the_shards(group_world):
    """The shard wakes up for sessions of consumer groups."""
    world = group_world({"a": 1})
    world.join("x", "a")
    assert world.shard.deadline() <= 45_000
    assert world.advance(45_000) > 0
    assert not world.facts.members
