"""The words of the machine of fetches."""

from stratalog.broker.replicas.follower import LogPosition
from stratalog.broker.replication.fetching_events import Position


def test_a_position_of_a_log_is_one_of_a_fetch():
    """The room of replicas does not import this one: both name the same fields in the same order."""
    assert Position._fields == LogPosition._fields
