"""The transition table of classic groups."""

import pytest

from stratalog.metadata.coordination import Now
from stratalog.metadata.groups.classic.core import ClassicCore
from stratalog.metadata.groups.classic.state import NEXT_STATES, ClassicState
from stratalog.metadata.groups.group import GroupSettings


def test_the_table_is_kafkas():
    """Which state may follow which, by the names that administrators see."""
    assert {state.value: {after.value for after in next_states} for state, next_states in NEXT_STATES.items()} == {
        "Empty": {"PreparingRebalance", "Dead"},
        "PreparingRebalance": {"CompletingRebalance", "Empty", "Dead"},
        "CompletingRebalance": {"Stable", "PreparingRebalance", "Dead"},
        "Stable": {"PreparingRebalance", "Dead"},
        "Dead": set(),
    }


@pytest.mark.parametrize("before", ClassicState)
@pytest.mark.parametrize("after", ClassicState)
def test_a_group_goes_only_where_the_table_allows(before, after):
    """Every other step is a fault of ours."""
    core = ClassicCore("g", GroupSettings())
    core.restored(before, -1)
    if after in NEXT_STATES[before]:
        core.transition(after, Now(0, 7))
        assert (core.phase, core.previous_state, core.state_since_ms) == (after, before, 7)
    else:
        with pytest.raises(AssertionError, match="cannot become"):
            core.transition(after, Now(0, 7))
