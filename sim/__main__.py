"""``python -m sim SEED | FIRST-LAST``: run seeds; a failing one prints how it came to it and how to repeat it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sim.seed_runs import Simulation
from sim.world import Outcome, run_seed

__all__ = ["BROKER"]


def _total(outcomes: Sequence[Outcome]) -> str:
    steps = f"{sum(each.steps for each in outcomes)} steps"
    return f"{steps}, trace {outcomes[0].digest}" if len(outcomes) == 1 else steps


BROKER = Simulation("sim", "make sim", run_seed, _total)

if __name__ == "__main__":
    sys.exit(BROKER.main())
