"""Links to other nodes, as a node makes them."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from msgspec import Struct

from stratalog.broker.runtime.clock import Clock

if TYPE_CHECKING:
    from stratalog.broker.peers.dialer import Dialer
    from stratalog.broker.peers.peer_errors import Peer
    from stratalog.broker.peers.peer_link import PeerLink

__all__ = ["LinkMaking"]


class LinkMaking(Struct, frozen=True, kw_only=True):
    """The makings of links."""

    node_id: int
    executor: Executor
    clock: Clock
    dice: random.Random

    def dialer(self) -> Dialer:
        """Connects to other nodes, and asks them nothing."""
        from stratalog.broker.peers.dialer import TcpDialer  # noqa: PLC0415 - a node of one has no links

        return TcpDialer(self.executor)

    def link_to(self, purpose: str) -> Callable[[Peer], PeerLink]:
        """Makes links for one purpose, which other nodes see in the client id."""
        from stratalog.broker.peers.peer_link import PeerLink  # noqa: PLC0415 - a node of one has no links

        dialer = self.dialer()

        def link(peer: Peer) -> PeerLink:
            return PeerLink(
                peer,
                dialer=dialer,
                executor=self.executor,
                monotonic=self.clock.monotonic,
                draw=self.dice.random,
                client_id=f"{purpose}-{self.node_id}",
            )

        return link
