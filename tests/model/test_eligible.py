"""Random histories over the shipped controller and leaders: a clean leader has all that was ever below a high watermark."""

import pytest

from stratalog.hot.replica_state import ReplicaState
from stratalog.metadata.controller import broker_registration
from tests.model.eligible_model import History

SEEDS = 25
STEPS = 150


def run_all(seeds):
    for seed in seeds:
        History(seed).run(STEPS)


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


@pytest.mark.parametrize("without", [stands_still_never, believes_every_start], ids=lambda rule: rule.__doc__)
def test_each_rule_is_needed(monkeypatch, without):
    """Without it a history is found in which a clean leader lacks records."""
    without(monkeypatch)
    with pytest.raises(AssertionError, match=r"lacks records that were shown|two histories"):
        run_all(range(400))
