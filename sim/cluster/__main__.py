"""``python -m sim.cluster SEED | FIRST-LAST``: run seeds; a failing one prints how it came to it and how to repeat it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sim.cluster.world import Outcome, run_seed
from sim.seed_runs import Simulation

__all__ = ["CLUSTER"]


def _total(outcomes: Sequence[Outcome]) -> str:
    sums = {
        "steps": sum(each.steps for each in outcomes),
        "active controllers": sum(each.epochs for each in outcomes),
        "images": sum(each.images for each in outcomes),
        "brokers fenced": sum(each.fenced for each in outcomes),
        "commands answered": sum(each.answered for each in outcomes),
    }
    return ", ".join(f"{count} {name}" for name, count in sums.items())


CLUSTER = Simulation("sim.cluster", "make sim-cluster", run_seed, _total)

if __name__ == "__main__":
    sys.exit(CLUSTER.main())
