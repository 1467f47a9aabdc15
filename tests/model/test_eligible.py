"""Random histories over the shipped controller and leaders: a clean leader has all that was ever below a high watermark."""

from types import SimpleNamespace

import pytest

from stratalog.hot.replica_state import ReplicaState
from stratalog.metadata.controller import broker_registration, partition_change, reassign_partitions
from stratalog.metadata.controller.partition_change import Election
from tests.model.eligible_model import BROKERS, History

SEEDS = 25
STEPS = 150


def run_all(seeds, *, unclean=False):
    for seed in seeds:
        History(seed, unclean=unclean).run(STEPS)


@pytest.mark.parametrize("unclean", [False, True], ids=["clean", "unclean"])
def test_a_clean_leader_has_all_that_was_shown(unclean):
    """In any order of stops, lost disks, fences, moves, and changes of settings and levels."""
    elections = shown = 0
    for seed in range(SEEDS):
        history = History(seed, unclean=unclean)
        history.run(STEPS)
        elections += history.clean_elections
        shown += len(history.shown)
    assert elections > SEEDS
    assert shown > SEEDS


def stands_still_never(patch):
    """The mark moves with too few replicas in sync."""
    patch.setattr(ReplicaState, "enough_in_sync", True)


def believes_every_start(patch):
    """A replica that may have lost data stays where it is."""
    whole = broker_registration.ending_registration

    def ending(view, broker_id, *, is_clean):
        del is_clean
        return whole(view, broker_id, is_clean=True)

    patch.setattr(broker_registration, "ending_registration", ending)


def elects_who_is_added(patch):
    """A setting is as good as a request."""
    real = partition_change._last_resorts

    def resorts(partition, assignment, sets, rules):
        is_unclean = rules.election is Election.UNCLEAN
        return real(partition, assignment, sets, rules._replace(election=Election.ANY) if is_unclean else rules)

    patch.setattr(partition_change, "_last_resorts", resorts)


def elects_with_a_move(patch):
    """The record that begins a move holds an election, too."""
    patch.setattr(reassign_partitions, "Election", SimpleNamespace(ONLINE=None))


def keeps_former_targets(patch):
    """A replica that was being added and is wanted no more looks like one that was there before."""
    real = reassign_partitions.retargeted
    patch.setattr(reassign_partitions, "retargeted", lambda present, target, _whole: real(present, target, BROKERS))


@pytest.mark.parametrize(
    "without", [elects_who_is_added, elects_with_a_move, keeps_former_targets], ids=lambda rule: rule.__doc__
)
def test_each_rule_of_moves_is_needed(monkeypatch, without):
    """Without it a history is found in which a replica leads that was never in sync, or a move elects."""
    without(monkeypatch)
    with pytest.raises(AssertionError, match=r"was never in sync|a move elects"):
        run_all(range(400), unclean=True)


@pytest.mark.parametrize("without", [stands_still_never, believes_every_start], ids=lambda rule: rule.__doc__)
def test_each_rule_is_needed(monkeypatch, without):
    """Without it a history is found in which a clean leader lacks records."""
    without(monkeypatch)
    with pytest.raises(AssertionError, match=r"lacks records that were shown|two histories"):
        run_all(range(400))
