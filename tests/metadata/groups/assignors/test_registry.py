"""The promise of both assignors: every partition of a subscribed topic has one owner, a subscriber of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.groups.assignors.registry import ASSIGNORS, MemberSpec

TOPICS = [bytes([number]) * 16 for number in range(1, 7)]


@st.composite
def groups(draw):
    """Members with any subscriptions and disjoint former targets, some of them on partitions that are gone."""
    counts = {topic: draw(st.integers(0, 9)) for topic in TOPICS}
    names = [f"m{number}" for number in range(draw(st.integers(1, 7)))]
    everything = [(topic, partition) for topic in TOPICS for partition in range(counts[topic] + 1)]
    owners = draw(st.lists(st.sampled_from([*names, None]), min_size=len(everything), max_size=len(everything)))
    members = {}
    for name in names:
        target = {}
        for (topic, partition), owner in zip(everything, owners, strict=True):
            if owner == name:
                target.setdefault(topic, set()).add(partition)
        members[name] = MemberSpec(
            topics=frozenset(draw(st.sets(st.sampled_from(TOPICS)))),
            target={topic: frozenset(partitions) for topic, partitions in target.items()},
            instance_id=draw(st.sampled_from([None, f"i{name}"])),
        )
    return members, counts


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(group=groups())
def test_each_partition_once(name, group):
    """Every partition of every subscribed topic has exactly one owner, one of the subscribers."""
    members, counts = group
    targets = ASSIGNORS[name](members, counts)
    assert set(targets) == set(members)
    owned = [
        (topic, partition)
        for target in targets.values()
        for topic, partitions in target.items()
        for partition in partitions
    ]
    subscribed = set().union(*(spec.topics for spec in members.values()))
    assert sorted(owned) == sorted((topic, number) for topic in subscribed for number in range(counts[topic]))
    for member_id, target in targets.items():
        assert set(target) <= members[member_id].topics
        assert all(target.values())


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(group=groups())
def test_an_assignment_computed_from_itself_stays(name, group):
    """An assignment that is computed again from its own result does not change."""
    members, counts = group
    targets = ASSIGNORS[name](members, counts)
    again = {member_id: spec._replace(target=targets[member_id]) for member_id, spec in members.items()}
    assert ASSIGNORS[name](again, counts) == targets


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_without_members_there_is_no_assignment(name):
    """A group without members, or without topics, is assigned nothing."""
    assert ASSIGNORS[name]({}, {}) == {}
    assert ASSIGNORS[name]({"m": MemberSpec(frozenset(), {})}, {}) == {"m": {}}
