from __future__ import annotations

import pytest

from stratalog.tier.manifests.lifecycle import TRANSITIONS, IllegalTransition, RangeEvent, RangeState, advance


def test_the_whole_life_of_a_range():
    """Sealed data is copied, committed, read back and evicted; later it is trashed and deleted."""
    state = RangeState.SEALED
    for event in ("COPY", "UPLOAD_DONE", "COMMIT_DONE", "READ_BACK", "EVICT", "DISCARD", "DELETE"):
        state = advance(state, RangeEvent[event])
    assert state is RangeState.DELETED


@pytest.mark.parametrize("state", list(RangeState))
@pytest.mark.parametrize("event", list(RangeEvent))
def test_an_event_outside_of_the_table_is_refused(state, event):
    """Every pair either has a next state in the table or is an error that names both."""
    if (state, event) in TRANSITIONS:
        assert advance(state, event) is TRANSITIONS[state, event]
        return
    with pytest.raises(IllegalTransition, match=state.value):
        advance(state, event)


def test_no_range_is_evicted_before_it_was_read_back():
    """Every path from sealed to evicted passes through committed and evictable, in this order."""
    paths = [[RangeState.SEALED]]
    while paths:
        path = paths.pop()
        for (state, _), after in TRANSITIONS.items():
            if state is path[-1] and after not in path:
                if after is RangeState.EVICTED:
                    assert path[-2:] == [RangeState.COMMITTED, RangeState.EVICTABLE]
                paths.append([*path, after])


def test_a_quarantined_range_never_moves_on():
    """Corrupt bytes stay where they are."""
    assert not [event for state, event in TRANSITIONS if state is RangeState.QUARANTINED]
