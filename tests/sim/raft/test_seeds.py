"""Runs of the quorum, each with its own nodes, network and faults: 4 by default, 400 in ``make test-slow``."""

import pytest

from sim.raft.__main__ import QUORUM
from sim.raft.world import run_seed

_TOGETHER = 4


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(_TOGETHER, 400, _TOGETHER))]
)
def test_every_promise_is_kept(first):
    """A failing seed prints its last events and the command that repeats it."""
    for seed in range(first, first + _TOGETHER):
        outcome = run_seed(seed)
        assert outcome.problem is None, QUORUM.report(outcome, outcome.lines)
        assert outcome.committed > 0


@pytest.mark.parametrize("seed", [202041, 203983, 205631, 218636, 318354, 347144, 409617])
def test_seeds_that_once_broke_a_promise_keep_it(seed):
    """Disks replaced while voters change, late votes, a voter that lacks its own record, late bytes of another snapshot."""
    outcome = run_seed(seed)
    assert outcome.problem is None, QUORUM.report(outcome, outcome.lines)
