"""The words between the state of a link and its driver."""

from typing import get_args

import pytest

from stratalog.broker.peers import peer_events
from stratalog.broker.peers.peer_events import Action, Agreed, Asked, Closing, Event, Opened, Phase
from stratalog.broker.peers.peer_state import PeerLimits, PeerState

EVENTS = get_args(Event)
WAYS = {
    Phase.IDLE: [],
    Phase.DIALING: [Asked(0, 1000, 1)],
    Phase.AGREEING: [Asked(0, 1000, 1), Opened(1)],
    Phase.READY: [Asked(0, 1000, 1), Opened(1), Agreed(1)],
    Phase.CLOSED: [Closing()],
}


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("phase", Phase)
def test_every_event_may_come_in_every_phase(phase, kind):
    """The state takes it, and the actions are those that a driver knows."""
    state = PeerState(PeerLimits(), negotiates=True, draw=lambda: 0.0)
    for event in WAYS[phase]:
        state.step(event, 0)
    assert state.phase is phase
    event = kind(*(1 for _ in kind._fields))
    for action in state.step(event, 1):
        assert isinstance(action, get_args(Action))


def test_every_word_is_an_event_or_an_action():
    """No word is declared that is neither said nor done."""
    words = {getattr(peer_events, name) for name in peer_events.__all__}
    assert words >= {*EVENTS, *get_args(Action)}
    assert {one.__name__ for one in words if hasattr(one, "_fields")} == {
        one.__name__ for one in (*EVENTS, *get_args(Action))
    }
