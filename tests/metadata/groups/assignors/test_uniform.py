"""The uniform assignor with equal subscriptions: balance, and no move that balance does not need."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.groups.assignors.member_spec import MemberSpec
from stratalog.metadata.groups.assignors.uniform import assign_uniformly

TOPICS = [bytes([number]) * 16 for number in range(1, 5)]
A, B = TOPICS[:2]


def _sizes(targets):
    return sorted(sum(map(len, target.values())) for target in targets.values())


def _owners(targets):
    return {
        (topic, partition): member_id
        for member_id, target in targets.items()
        for topic, partitions in target.items()
        for partition in partitions
    }


def _group(targets, topics):
    return {member_id: MemberSpec(frozenset(topics), target) for member_id, target in targets.items()}


def test_all_to_the_first():
    """The first member of a group has everything."""
    assert assign_uniformly({"x": MemberSpec(frozenset({A, B}), {})}, {A: 2, B: 1}) == {"x": {A: {0, 1}, B: {0}}}


def test_an_unchanged_target_is_the_same_object():
    """A target that stays is the very object it was, so that nothing has to be compared or written."""
    targets = assign_uniformly(_group({"x": {}, "y": {}}, [A]), {A: 4})
    again = assign_uniformly(_group(targets, [A]), {A: 4})
    assert all(again[name] is targets[name] for name in targets)


def test_partitions_of_a_topic_without_subscribers_are_dropped():
    """Partitions of a topic without subscribers are dropped, the others stay."""
    targets = assign_uniformly(_group({"x": {}, "y": {}}, [A, B]), {A: 4, B: 4})
    left = assign_uniformly(_group(targets, [A]), {A: 4})
    assert _sizes(left) == [2, 2]
    assert set(_owners(left)) == {(A, partition) for partition in range(4)}


@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    changes=st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1, max_size=12),
)
def test_a_join_or_leave_moves_as_few_partitions_as_possible(counts, changes):
    """After each join and leave sizes differ by one at most, and only as many partitions moved as had to."""
    topics = TOPICS[: len(counts)]
    partition_counts = dict(zip(topics, counts, strict=True))
    total = sum(counts)
    targets = assign_uniformly(_group({"m-0": {}}, topics), partition_counts)
    for number, (joins, pick) in enumerate(changes):
        before = _owners(targets)
        group = dict(targets)
        if joins:
            group[f"m-{pick}-{number}"] = {}  # never the name of a present member
        elif len(group) > 1:
            del group[sorted(group)[pick % len(group)]]
        sizes = sorted((sum(map(len, target.values())) for target in group.values()), reverse=True)
        targets = assign_uniformly(_group(group, topics), partition_counts)
        assert max(_sizes(targets)) - min(_sizes(targets)) <= 1
        quota, larger = divmod(total, len(group))
        shares = [quota + (place < larger) for place in range(len(group))]
        unavoidable = sum(max(0, size - share) for size, share in zip(sizes, shares, strict=True))
        after = _owners(targets)
        moved = sum(1 for partition, owner in before.items() if owner in group and after[partition] != owner)
        assert moved == unavoidable
