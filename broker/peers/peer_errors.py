"""The ends of a request to another node that are no answer. Each text names the node and the API."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.wire.errors import Invalid, Retriable, StratalogError

__all__ = [
    "Peer",
    "PeerBusy",
    "PeerClosed",
    "PeerError",
    "PeerRefused",
    "PeerTimeout",
    "PeerUnavailable",
    "PeerUnsupported",
]


class Peer(NamedTuple):
    """Another node and one listener of it. An id below 0 is that of a bootstrap server, whose own is not known yet."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        at = f"{self.host}:{self.port}"
        return f"bootstrap server {at}" if self.id < 0 else f"node {self.id} ({at})"


class PeerError(StratalogError):
    """A request to another node has no answer; ``peer`` is the node."""

    def __init__(self, peer: Peer, text: str) -> None:
        super().__init__(f"{peer}: {text}")
        self.peer = peer


class PeerUnavailable(PeerError, Retriable):
    """No connection, or it ended before the answer. A request that was sent may have been carried out."""


class PeerRefused(PeerUnavailable):
    """Its host refuses connections: the process is gone. The request was not sent."""


class PeerTimeout(PeerError, Retriable):
    """The answer did not come in time. A request that was sent may have been carried out."""


class PeerBusy(PeerError, Retriable):
    """The link holds as many requests as it may: this one was not sent."""


class PeerClosed(PeerError):
    """The link was closed by this node."""


class PeerUnsupported(PeerError, Invalid):
    """The node does not serve the API in a version that this node speaks: the request was not sent."""
