"""The place that a request came from and its answer goes to, as contexts and handlers see it.

It is a connection, or an envelope in which another node has forwarded the request of a client of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stratalog.broker.network.connection_services import Client, Quota
from stratalog.broker.network.receiving import Shortcut
from stratalog.broker.settings.listeners import Listener
from stratalog.wire.frame import ResponseSlot
from stratalog.wire.parts import Part

__all__ = ["RequestSource"]


class RequestSource(Protocol):
    """A client and the way back to it. `Connection` is one."""

    principal: str
    host: str
    peer: str
    client_id: str | None
    client_id_bytes: bytes
    software_name: str
    software_version: str
    listener: Listener
    quota: Quota | None
    shortcut: Shortcut | None
    authenticated: bool
    patient: bool
    read_at: float
    muted_until: float
    elements_max: int
    tags_max: int

    @property
    def closed(self) -> bool:
        """Whether no answer is taken any more."""

    def __hash__(self) -> int:
        """Clients have fair shares by their sources."""

    def quota_of(self, client: Client, /) -> Quota | None:
        """The limits of a client whose requests come by this way; None if there are none."""

    def identify(self, client_id: str | None, client_id_bytes: bytes, /) -> None:
        """How the client calls itself."""

    def authenticate(self, principal: str, /) -> None:
        """The client has proved to be ``principal``."""

    def remember(self, shortcut: Shortcut | None, /) -> None:
        """How requests like the latest ones are handled with less work from now on, if at all."""

    def mute_until(self, deadline: float, /) -> None:
        """Handle no request of the client before ``deadline`` (monotonic seconds)."""

    def answer(self, slot: ResponseSlot, parts: list[Part], /) -> None:
        """Send the answer to the request being handled."""

    def park(self, slot: ResponseSlot, /) -> None:
        """Give a request its place in the order of answers."""

    def deliver(self) -> None:
        """A parked answer is known."""

    def look(self) -> None:
        """There is an answer to what a resting connection may have sent meanwhile: see to it at the end of this turn."""

    def refuse(self, reason: str, /) -> None:
        """Close because of what the client sent."""

    def lease(self) -> Callable[[], None]:
        """Keep the bytes of the request being handled until the returned callable is called, exactly once."""

    def hold(self) -> None:
        """Handle no further request: the work for one that was handled takes several turns of the loop."""

    def release(self) -> None:
        """Such a work has come to its end."""

    def gone(self) -> bool:
        """Whether the client has hung up."""
