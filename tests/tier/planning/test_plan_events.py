"""Events in the archiving of one partition, and the actions that its plan returns."""

from __future__ import annotations

import typing

import pytest
from msgspec import structs

from stratalog.tier.planning import plan_events
from stratalog.tier.planning.plan import ArchivePlan, PlanSettings
from stratalog.tier.planning.plan_events import (
    Action,
    ArchiveLost,
    ClaimFailed,
    ClaimWanted,
    Compared,
    Event,
    EvictBelow,
    FencedOut,
    RangeRef,
    ReportLost,
    SendClaim,
    StandDown,
)

EVENTS = typing.get_args(Event)
ACTIONS = typing.get_args(Action)
SAMPLES = {int: 0, bool: False, float: 0.5, str: "", RangeRef: RangeRef(0, 1, 1), tuple[RangeRef, ...]: ()}


def sample(kind):
    """An event of this kind about nothing."""
    return kind(*(SAMPLES[each.type] for each in structs.fields(kind)))


def test_every_class_is_an_event_or_an_action():
    """The unions, by which mypy finds a forgotten one, are complete."""
    classes = {getattr(plan_events, name) for name in plan_events.__all__} - {Event, Action, RangeRef}
    assert classes == {*EVENTS, *ACTIONS}
    assert not set(EVENTS) & set(ACTIONS)


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_a_plan_without_segments_takes_each_and_asks_for_nothing_of_the_store(kind):
    """After any events, late or twice, a plan asks for the claim only if it wants it, and once. A loss takes back every leave to evict, and so does another owner."""
    plan = ArchivePlan(PlanSettings(), local_start=0)
    actions = plan.step(sample(kind), 0) + plan.step(sample(kind), 1)
    expected = {
        FencedOut: [StandDown(""), EvictBelow(0)],
        ClaimWanted: [SendClaim()],
        Compared: [EvictBelow(0), EvictBelow(0)],
        ArchiveLost: [ReportLost(""), EvictBelow(0), EvictBelow(0)],
    }
    assert actions == expected.get(kind, [])


def test_attempts_at_one_range_are_distinguished():
    """Facts about the first say nothing about the second."""
    assert RangeRef(0, 10, 1) != RangeRef(0, 10, 2)
    assert len({RangeRef(0, 10, 1), RangeRef(0, 10, 1)}) == 1


def test_chance_comes_with_the_event():
    """A plan has no random numbers of its own: the same events make the same plan."""
    plans = [ArchivePlan(PlanSettings(), local_start=0) for _ in range(2)]
    assert plans[0].step(ClaimFailed(0.25), 5) == plans[1].step(ClaimFailed(0.25), 5)
    assert plans[0].deadline() == plans[1].deadline()
