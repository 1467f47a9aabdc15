"""The broker's reading of consumers' subscriptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.groups.classic.subscription import subscribed_topics


@given(st.lists(st.lists(st.text(max_size=5), max_size=3), max_size=3), st.integers(0, 9), st.binary(max_size=5))
def test_topics_of_all_members(members, version, rest):
    """Subscriptions of every version begin with the topics, and the bytes behind them are passed over."""
    written = []
    for topics in members:
        names = b"".join(len(name.encode()).to_bytes(2) + name.encode() for name in topics)
        written.append(version.to_bytes(2) + len(topics).to_bytes(4) + names + rest)
    assert subscribed_topics(written) == {name for topics in members for name in topics}


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
