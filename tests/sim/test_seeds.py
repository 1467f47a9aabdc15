"""Two hundred runs of the whole broker, each with its own clients, faults and settings."""

import pytest

_TOGETHER = 25


@pytest.mark.parametrize("first", range(0, 200, _TOGETHER))
def test_every_invariant_holds(failures, first):
    """A failing seed prints its last events and the command that repeats it."""
    found = failures(range(first, first + _TOGETHER))
    assert not found, "\n\n".join(found)
