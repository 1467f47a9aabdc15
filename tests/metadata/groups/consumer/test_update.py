"""The causes of a new epoch, and the records of a change."""

import pytest

from stratalog.metadata.coordination import Now
from stratalog.metadata.groups.consumer.state import ConsumerState
from stratalog.metadata.groups.consumer.update import assignment_is_due, metadata_hash
from stratalog.metadata.groups.group_limits import GroupLimits
from stratalog.wire.records import group as records

START_MS = 1_700_000_000_000


@pytest.fixture
def world(group_world):
    """Two topics."""
    return group_world({"a": 4, "b": 2})


def _kinds(log):
    return [(type(records.decode_key(key)).__name__, value is not None) for key, value in log]


def test_the_hash_changes_with_ids_and_partitions_only(world):
    """It changes with partitions and ids of the topics, not with others, nor with the order; 0 without topics."""
    topics = world.image.topics
    number = metadata_hash(["a", "b"], topics)
    assert number == metadata_hash(["b", "a", "none"], topics) != metadata_hash(["a"], topics)
    world.create("c", 1)
    assert metadata_hash(["a", "b"], world.image.topics) == number
    world.grow("a", 5)
    grown = metadata_hash(["a", "b"], world.image.topics)
    assert grown != number
    world.delete("a")
    world.create("a", 5)
    assert metadata_hash(["a", "b"], world.image.topics) not in {number, grown}
    assert metadata_hash(["none"], topics) == metadata_hash([], topics) == 0


def test_records_of_a_join(world):
    """They stand in the log in Kafka's order."""
    world.join("x", "a")
    assert _kinds(world.log) == [
        ("ConsumerGroupMemberMetadataKey", True),
        ("ConsumerGroupMetadataKey", True),
        ("ConsumerGroupTargetAssignmentMemberKey", True),
        ("ConsumerGroupTargetAssignmentMetadataKey", True),
        ("ConsumerGroupCurrentMemberAssignmentKey", True),
    ]
    value = records.decode_value(records.decode_key(world.log[3].key), world.log[3].value)
    assert (value.assignment_epoch, value.assignment_timestamp) == (1, world.now.wall_ms)


def test_records_of_an_expression(world):
    """An expression that is new is resolved with the join; the record says when, and for which metadata."""
    world.join("x", pattern="a.*")
    assert _kinds(world.log)[:2] == [
        ("ConsumerGroupMemberMetadataKey", True),
        ("ConsumerGroupRegularExpressionKey", True),
    ]
    value = records.decode_value(records.decode_key(world.log[1].key), world.log[1].value)
    assert (value.topics, value.timestamp) == (["a"], world.now.wall_ms)
    assert value.version == world.image.provenance.offset


def test_records_of_a_leave(world):
    """Three deletions and the new epoch; targets wait for the next heartbeat."""
    world.join("x", "a")
    world.join("y", "a")
    before = len(world.log)
    world.beat("x", -1)
    assert _kinds(world.log[before:]) == [
        ("ConsumerGroupCurrentMemberAssignmentKey", False),
        ("ConsumerGroupTargetAssignmentMemberKey", False),
        ("ConsumerGroupMemberMetadataKey", False),
        ("ConsumerGroupMetadataKey", True),
    ]


def test_only_targets_that_change_are_written(world):
    """A member whose target stays has no record of it."""
    world.join("x", "a")
    world.join("y", "b")
    before = len(world.log)
    world.join("z", "b")
    targets = [
        records.decode_key(key).member_id
        for key, _ in world.log[before:]
        if isinstance(records.decode_key(key), records.ConsumerGroupTargetAssignmentMemberKey)
    ]
    assert sorted(targets) == ["y", "z"]


def test_resolved_again_after_the_interval(world):
    """Expressions are resolved again after the interval, even if no topic is new; it is no rebalance."""
    world.join("x", pattern="a")
    epoch = world.facts.epoch
    for _ in range(31):
        world.advance(20_000)
        world.beat("x", 1)
    assert world.facts.patterns["a"].timestamp_ms == world.now.wall_ms
    assert world.facts.epoch == epoch


class Slow:
    """Patterns that do not know yet what one of them matches."""

    def __init__(self, patterns, unknown):
        self._patterns = patterns
        self.unknown = unknown

    def check(self, pattern):
        """As the patterns do."""
        self._patterns.check(pattern)

    def matching(self, pattern, topics):
        """As the patterns do, or None."""
        return None if pattern == self.unknown else self._patterns.matching(pattern, topics)


def test_an_expression_that_came_before_it_was_matched(world):
    """It is resolved as soon as it is known, though others were matched with the same topics, and a moment ago."""
    world.join("x", pattern="a")
    world.shard.patterns = slow = Slow(world.shard.patterns, "b")
    world.advance(15_000)
    world.create("c", 1)
    world.beat("x", 1)  # compares its expression with these topics: nothing is new
    assert world.join("y", pattern="b") == {}
    world.beat("y", world.member("y").epoch)
    slow.unknown = None
    assert world.given(world.beat("y", world.member("y").epoch)) == {"b": {0, 1}}


def test_an_expression_that_cannot_be_matched_any_more(world):
    """Its topics stay, and the others are resolved when they are due: not with every heartbeat."""
    world.join("x", pattern="a")
    world.join("y", pattern="b")
    world.shard.patterns = Slow(world.shard.patterns, "b")
    written = 0
    for _ in range(40):  # 800 s: past the interval
        before = len(world.log)
        world.advance(20_000)
        for name in ("x", "y"):
            world.beat(name, world.member(name).epoch)
        written += len(world.log) - before
    assert world.facts.patterns["a"].timestamp_ms > START_MS + 600_000
    assert written < 10
    assert world.facts.patterns["b"].topics == {"b"}


def test_record_of_kafka_before_4_1_is_removed(world):
    """The topics that an older Kafka kept in a record of their own are deleted with the next epoch."""
    world.join("x", "a")
    key = records.ConsumerGroupPartitionMetadataKey(group_id="g")
    world.group.replay(key, records.ConsumerGroupPartitionMetadataValue(topics=[]))
    world.join("y", "a")
    assert ("ConsumerGroupPartitionMetadataKey", False) in _kinds(world.log)
    assert not world.facts.has_partition_metadata


def test_epoch_after_a_load(world):
    """A group that is loaded compares its topics with the newest: what changed meanwhile is noticed, nothing else."""
    world.join("x", "a")
    world.reload()
    world.beat("x", 1)
    assert world.facts.epoch == 1
    world.grow("a", 5)
    world.reload()
    world.beat("x", 1)
    assert world.facts.epoch == 2


@pytest.mark.parametrize(("elapsed_ms", "due"), [(0, False), (999, False), (1_000, True), (-1, True)])
def test_assignment_is_due(elapsed_ms, due):
    """After the interval; a clock that was set back does not prolong it."""
    facts = ConsumerState("g")
    facts.epoch, facts.target_epoch, facts.target_timestamp_ms = 2, 1, 50_000
    assert assignment_is_due(facts, GroupLimits(1, 1, 1_000), Now(0, 50_000 + elapsed_ms)) is due
    facts.target_epoch = 2
    assert not assignment_is_due(facts, GroupLimits(1, 1, 0), Now(0, 60_000))
