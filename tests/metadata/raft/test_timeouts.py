"""How long a node waits."""

import pytest

from stratalog.metadata.raft.timeouts import RaftTimeouts
from stratalog.metadata.settings.catalogue.kraft import KRAFT_SETTINGS


def test_the_defaults_are_those_of_the_settings():
    """One number has one place to be looked up."""
    settings = {setting.name: setting.default for setting in KRAFT_SETTINGS}
    times = RaftTimeouts()
    for name, value in (
        ("election.timeout.ms", times.election_ms),
        ("election.backoff.max.ms", times.election_backoff_max_ms),
        ("fetch.timeout.ms", times.fetch_ms),
        ("retry.backoff.ms", times.retry_backoff_ms),
    ):
        assert settings[f"controller.quorum.{name}"] == value


def test_times_that_follow_from_the_fetch_time_out():
    """A leader gives up later than its followers, so that an election finds a majority without it."""
    times = RaftTimeouts()
    assert (times.check_quorum_ms, times.begin_epoch_ms) == (3000, 1000)
    assert times.fetch_ms < times.check_quorum_ms


def test_election_time_outs_are_spread_over_twice_the_setting():
    """By the number that is drawn."""
    assert [RaftTimeouts().election_timeout_ms(jitter) for jitter in (0.0, 0.5, 0.999)] == [1000, 1500, 1999]


@pytest.mark.parametrize(
    ("rank", "count", "backoff_ms"),
    [(0, 2, 0), (1, 2, 500), (-1, 2, 1000), (1, 4, 125), (2, 4, 250), (3, 4, 500), (-1, 0, 1000)],
)
def test_each_successor_waits_twice_as_long_as_the_one_before(rank, count, backoff_ms):
    """The first does not wait, and a voter that is no successor waits longest."""
    assert RaftTimeouts().successor_backoff_ms(rank, count) == backoff_ms


def test_followers_give_a_leader_up_one_after_the_other_and_none_later_than_the_setting():
    """Two that stand at the same time split the votes."""
    times = RaftTimeouts()
    assert [times.follower_timeout_ms(place, 2) for place in (0, 1)] == [1750, 2000]
    assert [times.follower_timeout_ms(place, 4) for place in range(4)] == [1625, 1750, 1875, 2000]
    assert times.follower_timeout_ms(0, 1) == 2000
    assert [times.refused_backoff_ms(place) for place in range(3)] == [50, 200, 350]
