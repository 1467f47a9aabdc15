"""A run is what its seed says, and nothing else."""

import os
import subprocess
import sys

import pytest

from sim.plan import Plan
from sim.world import run_seed

_PROGRAM = """
import sys
from sim.world import run_seed
for seed in map(int, sys.argv[1:]):
    print(run_seed(seed).digest)
"""


def digests(hash_seed: int, *seeds: int) -> list[str]:
    """The trace hashes of seeds, run by a process of their own."""
    command = [sys.executable, "-c", _PROGRAM, *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100, env=environment)
    return run.stdout.split()


@pytest.mark.story
@pytest.mark.parametrize("seeds", [range(300, 303), pytest.param(range(303, 315), marks=pytest.mark.slow)])
def test_two_processes_do_the_same(seeds):
    """Line by line, whatever addresses objects and hashes strings have there."""
    first = digests(1, *seeds)
    assert first == digests(2, *seeds)
    assert len(set(first)) == len(seeds)


def test_a_second_run_in_the_same_process_is_the_same():
    """No state of the first is left."""
    assert run_seed(7).digest == run_seed(7).digest


def test_failures_are_reported(monkeypatch):
    """The outcome has the problem, the last events and where it came from."""

    def fail(*_):
        raise ZeroDivisionError("a task divides")

    monkeypatch.setattr(Plan, "draw", fail)
    with pytest.raises(ZeroDivisionError):
        run_seed(1)
    monkeypatch.undo()
    monkeypatch.setattr("sim.world.Node.start", fail)
    outcome = run_seed(1)
    assert outcome.problem == "ZeroDivisionError: a task divides"
    assert "is ready" not in "".join(outcome.lines)
    assert any("a task divides" in error for error in outcome.errors)
