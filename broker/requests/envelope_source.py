"""The client of another node, whose request came in an envelope (KIP-590), in the place of a connection.

The request takes the way of all others through the dispatcher: as its own client, from its own address, under its own
quotas. Its answer goes into the envelope's. A request for which a connection would be closed has none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from stratalog.broker.network.connection_services import Client, Quota
from stratalog.broker.network.receiving import Shortcut
from stratalog.broker.requests.request_source import RequestSource
from stratalog.wire.errors import KafkaError
from stratalog.wire.frame import ResponseSlot
from stratalog.wire.parts import Part

__all__ = ["EnvelopeSource"]

log = logging.getLogger(__name__)

Answered = Callable[[list[Part] | None, KafkaError | None], None]
"""Gets the parts of the answer's frame, or None for a request that has no answer; and the error of one that has failed."""


class EnvelopeSource:
    """The client of one request that came in an envelope over the connection ``carrier``."""

    def __init__(self, carrier: RequestSource, principal: str, host: str, answered: Answered) -> None:
        """``principal`` is like ``User:a``; ``host`` is the client's address as text. ``answered`` is called once."""
        self._carrier = carrier
        self._answered = answered
        self._slot: ResponseSlot | None = None
        self._done = False
        self.principal = principal
        self.host = host
        self.peer = f"{host} through {carrier.peer}"
        self.client_id: str | None = None
        self.client_id_bytes = b""
        self.software_name = self.software_version = ""
        self.listener = carrier.listener
        self.quota: Quota | None = None
        self.shortcut: Shortcut | None = None
        self.authenticated = True
        self.patient = False
        self.read_at = carrier.read_at
        self.muted_until = 0.0
        self.elements_max = carrier.elements_max
        self.tags_max = carrier.tags_max
        self.identify(None, b"")

    def __eq__(self, other: object) -> bool:
        """Requests of one client have one share of what is done."""
        return isinstance(other, EnvelopeSource) and self._client == other._client

    def __hash__(self) -> int:
        return hash(self._client)

    @property
    def _client(self) -> tuple[RequestSource, str, str]:
        return self._carrier, self.principal, self.host

    @property
    def closed(self) -> bool:
        """Whether an answer would reach no one any more."""
        return self._done or self._carrier.closed

    def identify(self, client_id: str | None, client_id_bytes: bytes) -> None:
        """How the client calls itself; its quota is this node's own."""
        self.client_id = client_id
        self.client_id_bytes = client_id_bytes
        self.quota = self._carrier.quota_of(self)

    def quota_of(self, client: Client) -> Quota | None:
        """Those that the carrier knows."""
        return self._carrier.quota_of(client)

    def authenticate(self, principal: str) -> None:
        """A client in an envelope is who the envelope says; raises `RuntimeError`."""
        raise RuntimeError(f"{principal} cannot authenticate from within an envelope: {self.peer}")

    def remember(self, shortcut: Shortcut | None) -> None:
        """There are no later requests of this source that a shortcut could serve."""
        if shortcut is not None:
            shortcut.end()

    def mute_until(self, deadline: float) -> None:
        """The node that forwards mutes its client, by the throttle time of the answer."""
        self.muted_until = max(self.muted_until, deadline)

    def answer(self, slot: ResponseSlot, parts: list[Part]) -> None:
        """The answer, at once."""
        self._finish(parts, slot)

    def park(self, slot: ResponseSlot) -> None:
        """The answer follows, or is already there."""
        self._slot = slot
        if slot.parts is not None:
            self.deliver()

    def deliver(self) -> None:
        """The answer is known."""
        slot = self._slot
        if slot is not None and slot.parts is not None:
            self._finish(slot.parts, slot)

    def look(self) -> None:
        """An envelope does not rest."""

    def refuse(self, reason: str) -> None:
        """The request has no answer; the node that forwarded it closes its client's connection."""
        if not self._done:
            log.warning("a forwarded request from %s is refused: %s", self.peer, reason)
            self._done = True
            self._answered(None, None)

    def lease(self) -> Callable[[], None]:
        """The bytes of the request are its own: nothing to keep."""
        return _released

    def hold(self) -> None:
        """Work that takes several turns holds the carrier, as if the node had asked for it itself."""
        self._carrier.hold()

    def release(self) -> None:
        """Such a work has come to its end."""
        self._carrier.release()

    def gone(self) -> bool:
        """Whether the node that forwarded the request has hung up."""
        return self._carrier.gone()

    def abandon(self) -> None:
        """The carrier has ended before the answer: end what is being done for the request, if that can be ended."""
        if self._done:
            return
        self._done = True
        stop = getattr(self._slot, "on_abandon", None)
        if stop is not None:
            stop()

    def _finish(self, parts: list[Part], slot: ResponseSlot) -> None:
        if not self._done:
            self._done = True
            self._answered(parts or None, getattr(slot, "failure", None))


def _released() -> None:
    pass
