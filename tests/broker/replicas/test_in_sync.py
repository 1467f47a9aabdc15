"""A broker without others."""

import pytest

from stratalog.broker.replicas.in_sync import NO_FOLLOWERS


def test_a_broker_by_itself_has_no_one_to_ask():
    """No replica may join, and no set changes."""
    assert not NO_FOLLOWERS.may_join(("t", 0), 1, 2)
    NO_FOLLOWERS.changed(1, 1)
    with pytest.raises(AssertionError, match="one replica"):
        NO_FOLLOWERS.ask(type("Led", (), {"topic_partition": "t-0"}), type("Change", (), {"broker_ids": (1, 2)}))
