"""The state that the records of a consumer group make."""

import pytest

from stratalog.metadata.groups.consumer.member import ClassicMember, ConsumerMember
from stratalog.metadata.groups.consumer.state import ConsumerGroupState, ConsumerState, ResolvedPattern
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import group as records

A = b"a" * 16


@pytest.fixture
def facts():
    """A group ``g`` without any records."""
    return ConsumerState("g")


def _join(facts, member_id, **fields):
    member = ConsumerMember(member_id, **fields)
    facts.put_member(member)
    facts.put_assignment(member)
    return member


def test_the_state_follows_from_epochs_and_members(facts):
    """Empty, Assigning, Reconciling, Stable and Dead follow from epochs and members."""
    assert facts.state is ConsumerGroupState.EMPTY
    facts.put_epoch(1, 0)
    _join(facts, "x")
    assert facts.state is ConsumerGroupState.ASSIGNING
    facts.put_target_epoch(1, 5)
    assert facts.state is ConsumerGroupState.RECONCILING
    facts.put_assignment(ConsumerMember("x", epoch=1))
    assert facts.state is ConsumerGroupState.STABLE
    facts.member_tombstones("x")
    assert facts.state is ConsumerGroupState.EMPTY
    for key, value in facts.tombstones():
        facts.replay(records.decode_key(key), value)
    assert facts.state is ConsumerGroupState.DEAD
    assert facts.gone


def test_records_in_order(facts):
    """The records of a member's end are in the order in which Kafka reads them: what it has, its target, what it said."""
    _join(facts, "x")
    keys = [type(records.decode_key(key)) for key, value in facts.member_tombstones("x") if value is None]
    assert keys == [
        records.ConsumerGroupCurrentMemberAssignmentKey,
        records.ConsumerGroupTargetAssignmentMemberKey,
        records.ConsumerGroupMemberMetadataKey,
    ]
    assert not facts.members


def test_a_partition_is_owned_until_it_is_given_up(facts):
    """A partition is held by the member that has it, or is giving it up, and is free after that."""
    _join(facts, "x", assigned={A: {0: 1}}, revoking={A: {1: 1}})
    assert [facts.owner(A, partition) for partition in range(3)] == ["x", "x", None]
    facts.put_assignment(ConsumerMember("x", assigned={A: {0: 1}}))
    assert [facts.owner(A, partition) for partition in range(3)] == ["x", None, None]
    _join(facts, "y", assigned={A: {0: 2}})
    facts.put_assignment(ConsumerMember("x"))
    assert facts.owner(A, 0) == "y"


def test_topics_of_a_group_are_those_of_its_members(facts):
    """The topics of a group are those of its members, by name or by an expression that is resolved."""
    by_name = _join(facts, "x", topic_names=frozenset({"a", "b"}))
    by_both = _join(facts, "y", topic_names=frozenset({"b"}), topic_pattern="c.*")
    by_pattern = _join(facts, "z", topic_pattern="c.*")
    assert facts.topics() == {"a", "b"}
    facts.put_pattern("c.*", ResolvedPattern(frozenset({"c1", "c2"}), 7, 9))
    facts.put_pattern("d.*", ResolvedPattern(frozenset({"d"}), 7, 9))
    assert facts.topics() == {"a", "b", "c1", "c2"}
    assert facts.topics_of(by_name) == {"a", "b"}
    assert facts.topics_of(by_both) == {"b", "c1", "c2"}
    assert facts.topics_of(by_pattern) == {"c1", "c2"}
    for member_id in "xyz":
        facts.member_tombstones(member_id)
    assert facts.topics() == frozenset()
    assert not facts.pattern_subscribers


def test_the_assignor_is_elected_by_the_members(facts):
    """The assignor most asked for; of equals the first by name; the default without votes."""
    assert facts.assignor("uniform") == "uniform"
    _join(facts, "x", assignor="uniform")
    _join(facts, "y", assignor="range")
    assert facts.assignor("other") == "range"
    _join(facts, "z", assignor="uniform")
    assert facts.assignor("other") == "uniform"


def test_an_instance_id_leads_to_its_present_member(facts):
    """An instance id leads to its member, also after another took its place under another id."""
    _join(facts, "x", instance_id="i")
    _join(facts, "y", instance_id="i")
    facts.member_tombstones("x")
    assert facts.static_members == {"i": "y"}


def test_target_without_partitions(facts):
    """A target that is empty, or was never set, is no partitions."""
    facts.put_target("x", {})
    assert facts.target("x") == facts.target("never") == {}
    facts.put_target("x", {A: frozenset({1})})
    assert facts.target("x") == {A: {1}}


def test_topics_of_older_records_are_remembered_until_deleted(facts):
    """The topics that Kafka before 4.1 wrote are remembered until they are deleted."""
    key = records.ConsumerGroupPartitionMetadataKey(group_id="g")
    facts.replay(key, records.ConsumerGroupPartitionMetadataValue(topics=[]))
    assert facts.has_partition_metadata
    facts.delete(key)
    assert not facts.has_partition_metadata


def test_tombstones_of_strangers(facts):
    """Deleting what is not there is nothing: compaction may have taken it already."""
    for key in (
        records.ConsumerGroupMemberMetadataKey(group_id="g", member_id="x"),
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="x"),
        records.ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="x"),
        records.ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="x"),
    ):
        facts.delete(key)
    assert not facts.members


def test_records_of_other_kinds_are_ignored(facts):
    """A record of another kind is no record of a consumer group."""
    with pytest.raises(Corrupt):
        facts.replay(records.GroupMetadataKey(group="g"), None)


def test_the_bytes_that_are_kept_are_counted(facts):
    """The names that members want, and the topics that their expressions match, until they say something else or go."""
    _join(facts, "x", topic_names=frozenset({"a" * 300, "b" * 200}))
    _join(facts, "y", topic_pattern="c.*", classic=ClassicMember(1, (("range", bytes(1_000)),)))
    assert facts.held_bytes == 500 + len("c.*") + len("range") + 1_000
    for names in ({"c1"}, {"c1", "c2"}):
        facts.put_pattern("c.*", ResolvedPattern(frozenset(names), 1, 1))
    assert facts.held_bytes == 1_508 + 2 * 64
    _join(facts, "x", topic_names=frozenset({"a"}))
    assert facts.held_bytes == 1_009 + 2 * 64
    facts.member_tombstones("x")
    facts.member_tombstones("y")
    facts.delete_pattern("c.*")
    assert facts.held_bytes == 0
