"""The uniform assignor with different subscriptions."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.groups.assignors import mixed
from stratalog.metadata.groups.assignors.member_spec import MemberSpec
from stratalog.metadata.groups.assignors.mixed import assign_mixed

A, B, C = TOPICS = [bytes([number]) * 16 for number in (1, 2, 3)]


def _size(target):
    return sum(map(len, target.values()))


def test_a_topic_goes_to_the_subscriber_with_the_least():
    """A topic goes to the subscriber that another topic has left with less."""
    members = {"x": MemberSpec(frozenset({A, B}), {}), "y": MemberSpec(frozenset({B}), {})}
    targets = assign_mixed(members, {A: 3, B: 3})
    assert targets["x"] == {A: {0, 1, 2}}
    assert targets["y"] == {B: {0, 1, 2}}


def test_moves_to_a_new_member():
    """A member that joins takes partitions of what it subscribes to from those who have most."""
    members = {
        "x": MemberSpec(frozenset({A}), {A: frozenset(range(6))}),
        "y": MemberSpec(frozenset({A, B}), {B: frozenset({0})}),
    }
    targets = assign_mixed(members, {A: 6, B: 1})
    assert (_size(targets["x"]), _size(targets["y"])) == (4, 3)
    assert targets["x"][A] < members["x"].target[A]
    assert targets["y"][B] == {0}


def test_a_balanced_assignment_stays():
    """Every member keeps its partitions."""
    members = {
        "x": MemberSpec(frozenset({A}), {A: frozenset({2, 4})}),
        "y": MemberSpec(frozenset({A, B}), {A: frozenset({0, 1}), B: frozenset({0})}),
        "z": MemberSpec(frozenset({B, C}), {C: frozenset({0, 1}), B: frozenset({1})}),
        "w": MemberSpec(frozenset({A}), {A: frozenset({3, 5})}),
    }
    targets = assign_mixed(members, {A: 6, B: 2, C: 2})
    assert targets == {name: spec.target for name, spec in members.items()}


@given(
    counts=st.tuples(*[st.integers(0, 12)] * 3),
    subscriptions=st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=8),
)
def test_no_move_would_help(counts, subscriptions):
    """No owner of a topic's partition has two more than another subscriber of it."""
    members = {f"m{number}": MemberSpec(frozenset(topics), {}) for number, topics in enumerate(subscriptions)}
    targets = assign_mixed(members, dict(zip(TOPICS, counts, strict=True)))
    for name, target in targets.items():
        for topic in target:
            for other, spec in members.items():
                if topic in spec.topics:
                    assert _size(target) - _size(targets[other]) <= 1, (name, other)


def test_topics_with_the_same_subscribers_are_looked_at_together(monkeypatch):
    """A thousand members times a thousand topics are a million looks: nothing else has its turn meanwhile."""
    built = []
    monkeypatch.setattr(mixed, "heapify", lambda heap: built.append(len(heap)))
    topics = [number.to_bytes(16) for number in range(1, 101)]
    members = {f"m{number:02}": MemberSpec(frozenset(topics[number == 0 :]), {}) for number in range(50)}
    targets = assign_mixed(members, dict.fromkeys(topics, 1))
    assert sorted(built) == [49, 50]
    assert [_size(target) for target in targets.values()] == [2] * 50


def test_a_topic_with_the_same_subscribers_is_handed_out_by_what_others_have_given_them():
    """The one that is alone with a topic of its own has more by then."""
    d = bytes([4]) * 16
    members = {"x": MemberSpec(frozenset({A, B, d}), {}), "y": MemberSpec(frozenset({A, d}), {})}
    targets = assign_mixed(members, {A: 8, B: 3, d: 7})
    assert [_size(target) for target in targets.values()] == [9, 9]
    assert targets["x"][B] == {0, 1, 2}
