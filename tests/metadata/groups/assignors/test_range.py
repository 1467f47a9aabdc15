"""The range assignor: facts, co-partitioning, the order of members."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.groups.assignors.member_spec import MemberSpec
from stratalog.metadata.groups.assignors.range import assign_ranges

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


def _members(names, *topics):
    return {name: MemberSpec(frozenset(topics), {}) for name in names}


def test_five_partitions_three_members():
    """Five partitions for three members are {0,1}, {2,3} and {4}."""
    targets = assign_ranges(_members("xyz", A), {A: 5})
    assert targets == {"x": {A: {0, 1}}, "y": {A: {2, 3}}, "z": {A: {4}}}


def test_two_topics_two_members():
    """Topics of 5 and 3 partitions for two members: A0-2 with B0-1, and A3-4 with B2."""
    targets = assign_ranges(_members("xy", A, B), {A: 5, B: 3})
    assert targets == {"x": {A: {0, 1, 2}, B: {0, 1}}, "y": {A: {3, 4}, B: {2}}}


def test_idle_member_gets_work():
    """The last of five members of a topic with four partitions is idle, until partitions are added."""
    members = _members("abcde", A)
    before = assign_ranges(members, {A: 4})
    assert [before[name] for name in "abcde"] == [{A: {0}}, {A: {1}}, {A: {2}}, {A: {3}}, {}]
    assert assign_ranges(members, {A: 5})["e"] == {A: {4}}


def test_equal_topics_are_cut_at_the_same_places():
    """Topics with as many partitions and the same subscribers are cut at the same places."""
    targets = assign_ranges(_members("xyz", A, B, C), {A: 7, B: 7, C: 7})
    assert all(target[A] == target[B] == target[C] for target in targets.values())


def test_static_members_first():
    """Static members come first, by instance id: a new member id changes nothing for them."""
    before = {
        "zz": MemberSpec(frozenset({A}), {}, "first"),
        "aa": MemberSpec(frozenset({A}), {}, None),
        "bb": MemberSpec(frozenset({A}), {}, "second"),
    }
    targets = assign_ranges(before, {A: 6})
    assert targets == {"zz": {A: {0, 1}}, "bb": {A: {2, 3}}, "aa": {A: {4, 5}}}
    restarted = {"cc" if name == "zz" else name: spec for name, spec in before.items()}
    assert assign_ranges(restarted, {A: 6})["cc"] == targets["zz"]


def test_a_topic_is_divided_among_its_subscribers_only():
    """A topic is divided among its own subscribers only."""
    members = {"x": MemberSpec(frozenset({A}), {}), "y": MemberSpec(frozenset({A, B}), {})}
    assert assign_ranges(members, {A: 3, B: 3}) == {"x": {A: {0, 1}}, "y": {A: {2}, B: {0, 1, 2}}}


@given(count=st.integers(0, 40), member_count=st.integers(1, 12))
def test_each_share_is_a_run_of_neighbours(count, member_count):
    """Each share is a run of neighbours, in the order of members, and the sizes differ by one at most."""
    names = [f"m{number:02}" for number in range(member_count)]
    targets = assign_ranges(_members(names, A), {A: count})
    shares = [sorted(targets[name].get(A, ())) for name in names]
    assert [partition for share in shares for partition in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
