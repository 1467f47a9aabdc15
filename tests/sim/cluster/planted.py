"""Seeds of a cluster with a bug in it: the plans of its surroundings, and the search for a seed that finds it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sim.cluster.plan import Kind, Plan
from sim.cluster.world import run_seed

__all__ = ["BUSY", "TIERED", "Bug", "assert_found"]

Bug = Callable[[pytest.MonkeyPatch], None]

BUSY = Plan(
    controllers=1,
    brokers=3,
    faults=("freeze", "isolate", "kill", "power"),
    fault_every=1.5,
    fault_seconds=15.0,
    pause_every=4.0,
    replicated_topics=1,
    replicated_partitions=2,
    lag_seconds=2.0,
    producers=2,
    readers=1,
)
TIERED = replace(
    BUSY,
    kind=Kind.TIERED,
    faults=("kill", "power", "wipe"),
    settings=(
        ("remote.log.manager.task.retry.backoff.ms", "20"),
        ("remote.log.manager.task.retry.backoff.max.ms", "500"),
        ("log.retention.check.interval.ms", "300"),
    ),
)
SEEDS_MAX = 200


def assert_found(bug: Bug, patch: pytest.MonkeyPatch, plan: Plan, words: str) -> None:
    """Have seeds find it, by a promise that says what is wrong."""
    bug(patch)
    dice = random.Random(0)
    outcomes = (
        run_seed(seed, plan=replace(plan, replicated_partitions=dice.choice((1, 2, 3)))) for seed in range(SEEDS_MAX)
    )
    found = next((outcome for outcome in outcomes if outcome.problem is not None), None)
    assert found is not None, f"{SEEDS_MAX} seeds did not find it"
    print(f"seed {found.seed}: {found.problem}")
    assert found.problem is not None
    assert re.search(words, found.problem), found.problem
