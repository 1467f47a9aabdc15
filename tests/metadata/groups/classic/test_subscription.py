"""The broker's reading of consumers' subscriptions."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.groups.classic.subscription import NAMES_MAX, same_topics, subscribed_topics


@given(st.lists(st.lists(st.text(max_size=5), max_size=3), max_size=3), st.integers(0, 9), st.binary(max_size=5))
def test_topics_of_all_members(members, version, rest):
    """Subscriptions of every version begin with the topics, and the bytes behind them are passed over."""
    subscriptions = []
    for topics in members:
        names = b"".join(len(name.encode()).to_bytes(2) + name.encode() for name in topics)
        subscriptions.append(version.to_bytes(2) + len(topics).to_bytes(4) + names + rest)
    assert subscribed_topics(subscriptions) == {name for topics in members for name in topics}


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "0000",
        "0000 00000001",
        "0000 00000001 0005 61",
        "0000 7fffffff 0000",
        "ffff 00000000",
        "0000 00000001 0001 ff",
    ],
)
def test_a_subscription_of_an_unknown_form_is_not_read(damaged):
    """A subscription of another making is not guessed at."""
    assert subscribed_topics([bytes.fromhex("0000 00000000"), bytes.fromhex(damaged)]) is None


def written(*names):
    """A subscription of version 0."""
    texts = [name.encode() for name in names]
    return bytes(2) + len(texts).to_bytes(4) + b"".join(len(text).to_bytes(2) + text for text in texts) + b"\xff" * 4


def test_more_names_than_are_read_in_one_turn():
    """A stranger chooses how many there are: millions of empty ones fit into a frame."""
    began = time.process_time()
    assert subscribed_topics([bytes(2) + (2_000_000).to_bytes(4) + bytes(4_000_000)]) is None
    assert subscribed_topics([written(*[f"{one}-{n}" for n in range(NAMES_MAX // 2 + 1)]) for one in "ab"]) is None
    assert time.process_time() - began < 0.3


def test_lists_that_are_equal_count_once():
    """The members of a group mostly want the same topics, and data of their own comes behind."""
    names = [f"topic-{number}" for number in range(NAMES_MAX // 2)]
    subscriptions = [written(*names) + own for own in (b"a", b"b", b"c", b"d")]
    assert subscribed_topics([*subscriptions, written("other")]) == {*names, "other"}


def test_a_name_that_no_topic_can_have():
    """It is passed over: the others count."""
    assert subscribed_topics([written("a", "b" * 250, "c")]) == {"a", "c"}


def test_subscriptions_that_cannot_be_read_are_the_same_if_equal():
    """A restarted member whose topics are not known changes something, unless it says the same."""
    many = bytes(2) + (NAMES_MAX + 1).to_bytes(4)
    assert same_topics(written("a", "b"), written("b", "a"))
    assert not same_topics(written("a"), many)
    assert same_topics(many + b"x", many + b"x")
    assert not same_topics(many + b"x", many + b"y")
