"""The times of a group."""

from stratalog.metadata.groups.group import GroupSettings
from stratalog.metadata.groups.group_limits import group_limits


def test_a_group_without_settings_has_those_of_the_broker():
    """Without settings of its own a group has the broker's."""
    assert group_limits(GroupSettings(), {}) == (45_000, 5_000, 1_000)


def test_own_within_bounds():
    """A group's own values hold as far as the broker's bounds let them."""
    own = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "20000",
        "consumer.assignment.interval.ms": "0",
    }
    assert group_limits(GroupSettings(), own) == (50_000, 15_000, 0)
    narrow = GroupSettings(consumer_max_session_timeout_ms=46_000, consumer_min_assignment_interval_ms=10)
    assert group_limits(narrow, own) == (46_000, 15_000, 10)


def test_a_text_that_is_no_number_gives_way_to_the_brokers_value():
    """Another release may have committed it: a heartbeat must not fail over it."""
    assert group_limits(GroupSettings(), {"consumer.session.timeout.ms": "long"}) == group_limits(GroupSettings(), {})
