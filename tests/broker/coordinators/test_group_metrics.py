"""Figures of groups under the names that dashboards for Kafka ask for."""

from functools import partial

import pytest

from stratalog.broker.coordinators.group_metrics import add_group_figures
from stratalog.metadata.groups.group import GroupSettings
from stratalog.metadata.groups.shard.figures import GroupFigures
from stratalog.metadata.groups.shard.shard import GroupShard
from stratalog.metadata.image.image import EMPTY_IMAGE


class Shard(GroupShard):
    """A shard with figures of its own making."""

    def __init__(self, states, **figures) -> None:
        super().__init__(0, GroupSettings(), EMPTY_IMAGE)
        self.states, self.given, self.passes = states, figures, 0

    def figures(self):
        """As given."""
        self.passes += 1
        figures = GroupFigures(**self.given)
        figures.states.update(self.states)
        return figures


@pytest.fixture
def scrape(scraped):
    """Scrape the figures of some shards at a time."""
    return partial(scraped, add_group_figures)


def test_groups_by_type_and_state(scrape):
    """The figures sum all shards."""
    found = scrape(
        [
            Shard({("classic", "Stable"): 2, ("consumer", "Assigning"): 1}, rebalances_completed=5, members=3),
            Shard({("classic", "Empty"): 3}, members=4, rebalances_completed=1, sessions_expired=4, records_skipped=9),
        ],
        0.0,
    )
    manager = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    assert [found[manager + name,] for name in ("", "stable", "empty", "dead")] == [5, 2, 3, 0]
    server = "kafka_server_group_coordinator_metrics_"
    assert found[f"{server}group_count", "classic"] == 5
    assert found[f"{server}group_count", "consumer"] == 1
    assert found[f"{server}consumer_group_count", "Assigning"] == 1
    assert found["stratalog_group_members",] == 7
    assert found["stratalog_groups_refused_total", "some.max"] == 0
    assert found["stratalog_groups_rebalances_completed_total",] == 6
    assert found["stratalog_groups_sessions_expired_total",] == 4
    assert found["stratalog_groups_records_skipped_total",] == 9


def test_a_scrape_counts_once(scrape):
    """All figures of one scrape share one pass over the groups; the next scrape counts again."""
    shard = Shard({})
    scrape([shard], 100.0)
    assert shard.passes == 1
    scrape([shard], 100.0, 100.5, 101.5)
    assert shard.passes == 3


def test_a_broker_shows_them(broker):
    """From the start on, with nothing to show."""
    text = broker.run(broker.node.metrics.render).decode()
    assert "kafka_coordinator_group_groupmetadatamanager_numgroups 0.0" in text
