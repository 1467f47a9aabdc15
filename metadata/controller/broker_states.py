"""The states of a broker at the controller, and the table of what each event does in each of them.

The state is what the metadata log says; the log of committed records and the table are all there is. Source: Kafka's
``BrokerHeartbeatManager``; KIP-631, KIP-841. On purpose otherwise than there: a new incarnation of a fenced broker is
registered at once, without a wait for the end of the session before, and a fenced broker that stops is not fenced again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from stratalog.metadata.image.brokers_image import BrokerImage

__all__ = ["TABLE", "BrokerEvent", "BrokerState", "Response", "response_to", "state_of"]


class BrokerState(Enum):
    """A registered broker's state."""

    FENCED = auto()
    """It leads nothing and joins no in-sync set."""
    ACTIVE = auto()
    STOPPING = auto()
    """It is in controlled shutdown: others take over what it leads."""


class BrokerEvent(Enum):
    """An event in the life of a registered broker."""

    REGISTERED_AGAIN = auto()
    """A registration by the incarnation that is registered."""
    REGISTERED_ANEW = auto()
    """A registration by another incarnation, while the session runs."""
    REGISTERED_AFTER_SESSION = auto()
    """A registration by another incarnation, after the end of the session."""
    CAUGHT_UP = auto()
    """A heartbeat from a broker whose image holds its registration, and that does not want to be fenced."""
    BEHIND = auto()
    """A heartbeat from one whose image does not."""
    STALE = auto()
    """A request with another broker epoch than the registered one."""
    SESSION_OVER = auto()
    WANTS_FENCE = auto()
    WANTS_SHUTDOWN = auto()
    WANTS_FENCE_AND_SHUTDOWN = auto()
    DIRECTORY_OFFLINE = auto()


class Response(Enum):
    """An answer of the controller, and its records."""

    NOTHING = auto()
    KEEP_EPOCH = auto()
    """Write the registration again, with the epoch and the state that it has."""
    NEW_EPOCH = auto()
    """End all leaderships and memberships of the former incarnation, register with a new epoch, fenced."""
    DUPLICATE = auto()
    """Refuse: DUPLICATE_BROKER_REGISTRATION."""
    REFUSE_EPOCH = auto()
    """Refuse: STALE_BROKER_EPOCH."""
    UNFENCE = auto()
    """Make it active, and elect it where there is no leader."""
    FENCE = auto()
    """Take it out of in-sync sets (the last member: see `partition_change`), and elect others."""
    FENCE_AND_STOP = auto()
    """The same, and it may stop."""
    MAY_STOP = auto()
    BEGIN_STOP = auto()
    """Move its leaderships, and take it out of in-sync sets; one that leads nothing is fenced, and may stop at once."""
    STOP_IF_DONE = auto()
    """Once it leads nothing and all have seen that: fence it, and it may stop."""
    LEAVE_DIRECTORY = auto()
    """Take its replicas there out of in-sync and eligible sets, and elect others."""


_S, _E, _R = BrokerState, BrokerEvent, Response

TABLE: Final[Mapping[tuple[BrokerEvent, BrokerState], Response]] = MappingProxyType(
    {
        (event, state): response
        for event, responses in {
            _E.REGISTERED_AGAIN: (_R.KEEP_EPOCH, _R.KEEP_EPOCH, _R.KEEP_EPOCH),
            _E.REGISTERED_ANEW: (_R.NEW_EPOCH, _R.DUPLICATE, _R.DUPLICATE),
            _E.REGISTERED_AFTER_SESSION: (_R.NEW_EPOCH, _R.NEW_EPOCH, _R.NEW_EPOCH),
            _E.CAUGHT_UP: (_R.UNFENCE, _R.NOTHING, _R.NOTHING),
            _E.BEHIND: (_R.NOTHING, _R.NOTHING, _R.NOTHING),
            _E.STALE: (_R.REFUSE_EPOCH, _R.REFUSE_EPOCH, _R.REFUSE_EPOCH),
            _E.SESSION_OVER: (_R.NOTHING, _R.FENCE, _R.FENCE),
            _E.WANTS_FENCE: (_R.NOTHING, _R.FENCE, _R.FENCE),
            _E.WANTS_SHUTDOWN: (_R.MAY_STOP, _R.BEGIN_STOP, _R.STOP_IF_DONE),
            _E.WANTS_FENCE_AND_SHUTDOWN: (_R.MAY_STOP, _R.FENCE_AND_STOP, _R.FENCE_AND_STOP),
            _E.DIRECTORY_OFFLINE: (_R.LEAVE_DIRECTORY, _R.LEAVE_DIRECTORY, _R.LEAVE_DIRECTORY),
        }.items()
        for state, response in zip((_S.FENCED, _S.ACTIVE, _S.STOPPING), responses, strict=True)
    }
)
"""The response to each event in each state."""


def response_to(event: BrokerEvent, state: BrokerState) -> Response:
    """The controller's response to an event."""
    return TABLE[event, state]


def state_of(broker: BrokerImage) -> BrokerState:
    """The state of a registered broker."""
    if broker.is_fenced:
        return BrokerState.FENCED
    return BrokerState.STOPPING if broker.in_controlled_shutdown else BrokerState.ACTIVE
