"""Runs of a whole cluster, each with its own faults: a small one in ``make test-stories``, 200 in ``make test-slow``."""

import pytest

from sim.cluster.__main__ import CLUSTER
from sim.cluster.plan import Plan
from sim.cluster.replicas import REPLICAS, run_replicas
from sim.cluster.world import run_seed

SMALL = Plan(controllers=3, brokers=2, faults=("kill",), fault_every=1.0, fault_seconds=4.0, pause_every=0.2)


@pytest.mark.story
def test_a_small_cluster_keeps_its_promises():
    """Three controllers and two brokers; a kill each second."""
    outcome = run_seed(1, plan=SMALL)
    assert outcome.problem is None, CLUSTER.report(outcome, outcome.lines)
    assert outcome.answered > 0


@pytest.mark.story
def test_a_seed_draws_its_own_cluster():
    """As `make sim-cluster` runs it, without a plan."""
    outcome = run_seed(3)
    assert outcome.problem is None, CLUSTER.report(outcome, outcome.lines)
    assert outcome.answered > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_replicas_keep_their_promises(seed):
    """Clients write to replicated topics and read them, and in the end all replicas are one log."""
    outcome = run_replicas(seed)
    assert outcome.problem is None, REPLICAS.report(outcome, outcome.lines)
    assert outcome.acknowledged > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_every_promise_is_kept(seed):
    """A failing seed prints its last events and the command that repeats it."""
    outcome = run_seed(seed)
    assert outcome.problem is None, CLUSTER.report(outcome, outcome.lines)
    assert outcome.answered > 0
