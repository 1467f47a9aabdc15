"""Whether members subscribe to the same topics."""

from stratalog.metadata.groups.assignors.member_spec import MemberSpec, same_topics

A, B = b"a" * 16, b"b" * 16


def test_common_topics_are_none_if_subscriptions_differ():
    """The common topics, or None when members subscribe to different ones or there are none."""
    both = frozenset({A, B})
    assert same_topics({"x": MemberSpec(both, {}), "y": MemberSpec(frozenset({B, A}), {})}) == both
    assert same_topics({"x": MemberSpec(both, {}), "y": MemberSpec(frozenset({A}), {})}) is None
    assert same_topics({}) is None
