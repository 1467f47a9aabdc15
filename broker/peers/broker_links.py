"""Links to other brokers, by id, at the addresses that they have registered for traffic between brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from stratalog.broker.peers.peer_errors import Peer, PeerUnavailable
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.schema import Message

__all__ = ["BrokerLinks"]

_NO_HOST: Final = ""


class BrokerLinks:
    """One link for each broker that was asked something, for one purpose."""

    def __init__(
        self, image: Callable[[], ClusterImage], *, listener: str, new_link: Callable[[Peer], PeerLink]
    ) -> None:
        """``listener`` is the name of ``inter.broker.listener.name``."""
        self._image = image
        self._listener = listener
        self._new_link = new_link
        self._links: dict[int, PeerLink] = {}

    def peer(self, broker_id: int) -> Peer | None:
        """The broker's address; None where it is not registered with the listener."""
        broker = self._image().brokers.brokers.get(broker_id)
        at = None if broker is None else broker.listeners.get(self._listener)
        return None if at is None else Peer(broker_id, at.host, at.port)

    def ask(self, broker_id: int, request: Message, *, timeout_ms: int, version_min: int = 0) -> asyncio.Future[Any]:
        """Send a request, and return its answer to come. The future fails as that of `PeerLink.ask`."""
        peer = self.peer(broker_id)
        if peer is None:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            why = f"the cluster knows no address of it for listener {self._listener}"
            future.set_exception(PeerUnavailable(Peer(broker_id, _NO_HOST, 0), why))
            return future
        link = self._links.get(broker_id)
        if link is None or link.peer != peer:
            if link is not None:
                link.close()
            link = self._links[broker_id] = self._new_link(peer)
        return link.ask(request, timeout_ms=timeout_ms, version_min=version_min)

    def follow(self) -> None:
        """Close links to addresses at which brokers are no longer reached: what is in flight there fails."""
        for broker_id, link in list(self._links.items()):
            if link.peer != self.peer(broker_id):
                del self._links[broker_id]
                link.close()

    def close(self) -> None:
        """Fail what is in flight."""
        for link in self._links.values():
            link.close()
