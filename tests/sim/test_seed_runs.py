"""The command line of both simulations."""

from dataclasses import dataclass, field

import pytest

from sim.raft.__main__ import QUORUM
from sim.seed_runs import Simulation


@dataclass
class Ended:
    """A run that ended."""

    seed: int
    problem: str | None = None
    lines: list[str] = field(default_factory=list)


def run_seed(seed, *, lines=60, out=None):
    """Seed 3 fails, seed 5 breaks."""
    if seed == 5:
        raise KeyError("five")
    if out is not None:
        out(f"all of {seed}")
    return Ended(seed, "three is wrong" if seed == 3 else None, [f"the last {lines} of {seed}"])


FAKE = Simulation("fake", "make fake", run_seed, lambda outcomes: f"{len(outcomes)} in all")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_failing_seed_is_named_with_its_last_events_and_the_command_that_repeats_it(capfd, processes):
    """Once when it has failed, and at the end of the run; the exit code is that of a test."""
    assert FAKE.main(["1-4", "--processes", processes, "--lines", "7"]) == 1
    said = capfd.readouterr().out
    assert "the last 7 of 3\nseed 3: three is wrong\nagain: make fake SEED=3 " in said
    assert "the last 7 of 2" not in said
    assert "4 seeds, 1 failed, " in said
    assert said.endswith("seeds/s; 4 in all\nfailed: 3\n")


def test_a_single_seed_may_be_traced(capfd):
    """Everything is printed once."""
    assert FAKE.main(["2", "--trace"]) == 0
    said = capfd.readouterr().out
    assert said.startswith("all of 2\nseed 2: well, 1 in all\n1 seeds, 0 failed")


def test_a_simulation_that_breaks_names_the_seed():
    """Also in another process."""
    with pytest.raises(RuntimeError, match="seed 5 broke: KeyError"):
        FAKE.main(["4-5", "--processes", "2"])


def test_a_long_run_says_how_far_it_is(capfd, monkeypatch):
    """A night of seeds is not silent."""
    monkeypatch.setattr("sim.seed_runs._PROGRESS_EVERY_S", 0.0)
    assert FAKE.main(["1-2", "--processes", "1"]) == 0
    assert "... 1 seeds, 0 failed, " in capfd.readouterr().out


def test_the_quorums_command_adds_up_what_its_runs_have_done(capfd):
    """Steps, epochs and records."""
    assert QUORUM.main(["1-2", "--processes", "1"]) == 0
    assert " steps, " in capfd.readouterr().out
