"""Bugs that were put into elections on purpose: the simulation has to find each within 200 seeds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sim.cluster.plan import Plan, Unclean
from stratalog.broker.replicas import hosted_partitions
from stratalog.broker.replicas.led import Led, why_led
from stratalog.metadata.controller import broker_registration, min_in_sync, partition_change
from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.controller.partition_change import Election
from tests.sim.cluster.planted import BUSY, TIERED, Bug, assert_found


def an_unclean_leader_believes_its_checkpoint(patch):
    """It serves before it is compared with an archive that another leader has written."""

    def why(state, *, was_led, opened=None):
        led = why_led(state, was_led=was_led, opened=opened)
        return Led.OPENED if led is Led.UNCLEAN else led

    patch.setattr(hosted_partitions, "why_led", why)


def those_that_may_lead_an_empty_set_are_forgotten(patch):
    """As in Kafka: the partition waits for an unclean election."""

    def keeping(_image, _names):
        yield
        return []

    patch.setattr(min_in_sync, "keeping_of_empty_sets", keeping)


def eligible_replicas_are_never_elected(patch):
    """A partition whose in-sync set is empty waits for ever."""
    real = partition_change._elect

    def elect(partition, assignment, directories, sets, rules):
        return real(partition, assignment, directories, sets._replace(eligible=()), rules)

    patch.setattr(partition_change, "_elect", elect)


def who_lost_its_disk_stays_eligible(patch):
    """It left the in-sync set with everything, and comes back with nothing."""
    real = broker_registration.ending_registration

    def ending(view, broker_id, *, is_clean):
        del is_clean
        return real(view, broker_id, is_clean=True)

    patch.setattr(broker_registration, "ending_registration", ending)


def any_topic_allows_unclean_elections(patch):
    """Its setting is not looked at."""
    real = ClusterView.rules

    def rules(self, *, election=None, **about):
        return real(self, election=election or Election.UNCLEAN, **about)

    patch.setattr(ClusterView, "rules", rules)


def who_is_added_is_elected(patch):
    """As in Kafka: a copy that has just begun, and that stands before the others in the order of the replicas."""
    real = partition_change._last_resorts

    def resorts(partition, assignment, sets, rules):
        return real(partition, assignment._replace(adding=()), sets, rules)

    patch.setattr(partition_change, "_last_resorts", resorts)


FOUND: dict[Bug, str] = {
    who_is_added_is_elected: "a replica that is being added is elected",
    an_unclean_leader_believes_its_checkpoint: "in sync, has|bytes|archive|epochs|goes back|is gone|are in sync|log start",
    those_that_may_lead_an_empty_set_are_forgotten: "has no leader",
    eligible_replicas_are_never_elected: "has no leader|not allowed",
    who_lost_its_disk_stays_eligible: "had the mark at|are gone|in sync, has|not allowed",
    any_topic_allows_unclean_elections: "an unclean election that is not allowed",
}
"""Each bug, and what the promise that finds it says."""
STRANDED = replace(BUSY, faults=("strand",), fault_every=2.0, fault_seconds=20.0, lag_seconds=1.0)
PLANS: dict[Bug, Plan] = {
    an_unclean_leader_believes_its_checkpoint: replace(
        TIERED,
        faults=("strand",),
        fault_seconds=20.0,
        lag_seconds=1.0,
        eligible_level=0,
        min_in_sync=1,
        unclean=Unclean.SETTING,
    ),
    those_that_may_lead_an_empty_set_are_forgotten: replace(
        STRANDED, one_minimum=True, changes=("cluster minimum", "cluster minimum")
    ),
    who_lost_its_disk_stays_eligible: replace(STRANDED, faults=("strand", "wipe"), one_minimum=True),
    any_topic_allows_unclean_elections: replace(STRANDED, eligible_level=0, min_in_sync=1),
    who_is_added_is_elected: replace(
        STRANDED, brokers=4, eligible_level=0, min_in_sync=1, unclean=Unclean.SETTING, changes=("reassign",)
    ),
}
"""Surroundings in which a rare story is less rare."""
DEFAULT = STRANDED


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.__name__)
def test_every_bug_is_found(bug, monkeypatch):
    """By a promise that says what is wrong."""
    assert_found(bug, monkeypatch, PLANS.get(bug, STRANDED), FOUND[bug])
