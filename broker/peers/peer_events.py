"""The words between `PeerState` and its driver: what happens to a link to another node, and what is to be done."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = [
    "Action",
    "Agree",
    "Agreed",
    "Answered",
    "AskAgain",
    "Asked",
    "Closing",
    "Deliver",
    "Dial",
    "Event",
    "Fail",
    "Failure",
    "HangUp",
    "Lost",
    "Negotiate",
    "Opened",
    "Phase",
    "Send",
    "Ticked",
    "Unsent",
]


class Phase(Enum):
    """The state of the connection."""

    IDLE = "not connected"
    DIALING = "connecting"
    AGREEING = "asking for API versions"
    READY = "connected"
    CLOSED = "closed"


class Failure(Enum):
    """How a request may end without an answer."""

    BUSY = "busy"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    CLOSED = "closed"


class Asked(NamedTuple):
    """A new request, under a number of the caller's."""

    request: int
    timeout_ms: int
    size_bytes: int


class Unsent(NamedTuple):
    """The caller has not sent a request that it was to send, and has answered it itself."""

    request: int


class Opened(NamedTuple):
    """The connection of an attempt is there."""

    attempt: int


class Agreed(NamedTuple):
    """The API versions of the other node are known."""

    attempt: int


class AskAgain(NamedTuple):
    """The other node does not know the version in which it was asked for its API versions."""

    attempt: int


class Lost(NamedTuple):
    """An attempt has failed, or its connection has ended. ``refused``: every address has refused the connection."""

    attempt: int
    why: str
    refused: bool = False


class Answered(NamedTuple):
    """A frame has come."""

    attempt: int
    correlation_id: int


class Ticked(NamedTuple):
    """It is `PeerState.wake_at_ms`, or a little later."""


class Closing(NamedTuple):
    """The link is no longer wanted."""


Event = Asked | Unsent | Opened | Agreed | AskAgain | Lost | Answered | Ticked | Closing


class Dial(NamedTuple):
    """Connect, and say `Opened` or `Lost`. ``failures`` in a row came before."""

    attempt: int
    failures: int


class Negotiate(NamedTuple):
    """Ask for the API versions."""

    correlation_id: int


class Agree(NamedTuple):
    """The frame that came has the API versions: read it, and say `Agreed`, `AskAgain` or `Lost`."""


class Send(NamedTuple):
    """Send a request."""

    request: int
    correlation_id: int


class Deliver(NamedTuple):
    """The frame that came answers this request."""

    request: int


class Fail(NamedTuple):
    """A request has failed."""

    request: int
    failure: Failure
    why: str


class HangUp(NamedTuple):
    """End an attempt or its connection; no more is said of it."""

    attempt: int
    why: str


Action = Dial | Negotiate | Agree | Send | Deliver | Fail | HangUp
