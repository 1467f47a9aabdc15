"""``python -m sim.raft SEED | FIRST-LAST``: run seeds; a failing one prints how it came to it and how to repeat it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sim.raft.world import Outcome, run_seed
from sim.seed_runs import Simulation

__all__ = ["QUORUM"]


def _total(outcomes: Sequence[Outcome]) -> str:
    steps, epochs = sum(each.steps for each in outcomes), sum(each.epochs for each in outcomes)
    return f"{steps} steps, {epochs} epochs, {sum(each.committed for each in outcomes)} records"


QUORUM = Simulation("sim.raft", "make sim-quorum", run_seed, _total)

if __name__ == "__main__":
    sys.exit(QUORUM.main())
