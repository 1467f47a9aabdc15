"""Runs of the whole broker, each with its own clients, faults and settings: 10 by default, 200 in ``make test-slow``."""

import pytest

_TOGETHER = 10


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(_TOGETHER, 200, _TOGETHER))]
)
def test_every_invariant_holds(failures, first):
    """A failing seed prints its last events and the command that repeats it."""
    found = failures(range(first, first + _TOGETHER))
    assert not found, "\n\n".join(found)
