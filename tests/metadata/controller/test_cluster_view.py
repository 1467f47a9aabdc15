"""The view that decisions about partitions are made on."""

import pytest
from msgspec.structs import replace

from stratalog.metadata.controller.cluster_view import ClusterView, ReplicationSettings, topic_settings
from stratalog.metadata.controller.partition_change import Election
from stratalog.metadata.image.directory_ids import LOST, MIGRATING, UNASSIGNED
from stratalog.metadata.image.partition_index import ScannedPartitions
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.records.metadata import ConfigRecord

OWN = b"\x01" * 16


@pytest.fixture
def one(world):
    """Brokers 1 and 2, active, and two partitions."""
    one = world()
    one.start(1, 2)
    one.topic("t", (1, 2), (2,))
    return one


@pytest.mark.parametrize(
    ("named", "is_acceptable", "lives"),
    [
        ({}, True, True),
        ({"fenced": (1,)}, False, False),
        ({"stopping": (1,)}, False, True),
        ({"offline": (OWN,)}, False, False),
        ({"fenced": (2,), "offline": (b"x" * 16,)}, True, True),
    ],
)
def test_brokers_named_to_the_rules_count_as_such(one, named, is_acceptable, lives):
    """The image knows nothing of them yet."""
    rules = one.view.rules(**named)("t")
    assert (rules.is_acceptable(1, OWN), rules.lives(1, OWN)) == (is_acceptable, lives)


def test_a_fenced_broker_may_lead_when_it_is_unfenced(one):
    """In the image it is fenced still."""
    one.beat(1, wants_fence=True)
    assert not one.view.rules()("t").is_acceptable(1, OWN)
    assert one.view.rules(unfenced=(1,))("t").is_acceptable(1, OWN)


@pytest.mark.parametrize(
    ("directory", "is_there"),
    [(OWN, True), (UNASSIGNED, True), (MIGRATING, True), (LOST, False), (b"x" * 16, False)],
)
def test_a_replica_leads_from_a_directory_that_is_online(one, directory, is_there):
    """A directory not chosen yet counts as online. A controller of one broker leaves that to the broker."""
    assert one.view.rules()("t").is_acceptable(1, directory) is is_there
    assert replace(one.view, heeds_directories=False).rules()("t").is_acceptable(1, directory)


def test_the_settings_of_a_topic_give_its_minimum_and_its_elections(one):
    """Overrides come before the defaults of all topics."""
    for name, value in (("min.insync.replicas", "2"), ("unclean.leader.election.enable", "true")):
        one.write([ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)])
    settings = topic_settings(one.image, ConfigResolver.for_topics())
    assert (settings("t"), settings("u")) == (ReplicationSettings(2, unclean_allowed=True), ReplicationSettings(1))
    view = ClusterView(image=one.image, settings=settings)
    assert view.rules()("t").election is Election.UNCLEAN
    assert view.rules()("u").election is Election.ONLINE
    assert view.rules(election=Election.PREFERRED)("t").election is Election.PREFERRED


def test_a_view_finds_the_same_with_an_index_and_without(one):
    """Held, leaderless, not led by the preferred replica."""
    one.beat(2, wants_fence=True)
    scanned = replace(one.view, index=None)
    for view in (one.view, scanned):
        assert [(held.topic.name, held.number) for held in view.held_by(2)] == [("t", 0), ("t", 1)]
        assert [held.number for held in view.leaderless()] == [1]
        assert [held.number for held in view.not_preferred()] == [1]
        assert (view.leads_any(1), view.leads_any(2)) == (True, False)


def test_a_fence_looks_at_no_other_brokers_partitions(one, monkeypatch):
    """With an index nothing is scanned."""
    monkeypatch.setattr(ScannedPartitions, "_all", lambda _self: pytest.fail("all partitions were looked at"))
    assert one.tick(9000, 2) == (1,)
    assert one.sets() == (2, (2,), ())


def test_a_new_replica_has_its_brokers_only_directory(one):
    """One that is not registered chooses later."""
    assert (one.view.default_directory(1), one.view.default_directory(9)) == (OWN, UNASSIGNED)
