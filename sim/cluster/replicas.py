"""``python -m sim.cluster.replicas SEED | FIRST-LAST``: seeds of a cluster with replicated topics and clients."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence

from sim.cluster.plan import Plan
from sim.cluster.world import Outcome, run_seed
from sim.seed_runs import Simulation

__all__ = ["REPLICAS", "run_replicas"]


def run_replicas(seed: int, *, lines: int = 60, out: Callable[[str], object] | None = None) -> Outcome:
    """Run one seed."""
    return run_seed(seed, lines=lines, out=out, plan=Plan.draw_replicas(random.Random(seed)))


def _total(outcomes: Sequence[Outcome]) -> str:
    sums = {
        "steps": sum(each.steps for each in outcomes),
        "images": sum(each.images for each in outcomes),
        "brokers fenced": sum(each.fenced for each in outcomes),
        "records acknowledged": sum(each.acknowledged for each in outcomes),
        "unclean elections": sum(each.unclean for each in outcomes),
    }
    return ", ".join(f"{count} {name}" for name, count in sums.items())


REPLICAS = Simulation("sim.cluster.replicas", "make sim-replicas", run_replicas, _total)

if __name__ == "__main__":
    sys.exit(REPLICAS.main())
