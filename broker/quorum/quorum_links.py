"""Requests of the quorum to other nodes: links by address and purpose, and answers as the quorum's values."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from stratalog.broker.peers.peer_errors import Peer, PeerError, PeerRefused, PeerUnsupported
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.broker.quorum.messages import answer_from_wire, oldest_version, request_to_wire
from stratalog.broker.quorum.quorum_peers import NoAnswer
from stratalog.metadata.raft.actions import BOOTSTRAP
from stratalog.metadata.raft.messages import Answer, FetchRequest, FetchSnapshotRequest, Request
from stratalog.metadata.raft.voter_set import Endpoints
from stratalog.wire.errors import Corrupt, ErrorCode, Invalid

__all__ = ["LinkTo", "QuorumLinks"]

_LINKS_MAX: Final = 64
"""Links that are kept. A quorum has a handful of voters; their addresses change seldom."""

LinkTo = Callable[[Peer], PeerLink]
"""Makes a link to a node."""


class QuorumLinks:
    """Links to the controller listeners of other nodes.

    A Fetch waits at the leader until there is news, and answers come in the order of requests: fetches have links of
    their own.
    """

    def __init__(
        self,
        link_to: LinkTo,
        *,
        listener: str,
        servers: Sequence[tuple[str, int]],
        cluster_id: str,
        timeout_ms: int,
        dice: random.Random,
    ) -> None:
        """``listener`` is the first name of ``controller.listener.names``, ``servers`` the bootstrap servers."""
        self._link_to = link_to
        self._listener = listener
        self.servers = list(servers)
        self._cluster_id = cluster_id
        self._timeout_ms = timeout_ms
        self._dice = dice
        self._links: dict[tuple[Peer, bool], PeerLink] = {}

    async def ask(self, peer: int, request: Request, endpoints: Endpoints) -> Answer:
        """See `QuorumPeers.ask`."""
        address = self._address(peer, endpoints)
        if address is None:
            raise NoAnswer(ErrorCode.BROKER_NOT_AVAILABLE, f"no address of node {peer} is known")
        link = self._link(Peer(peer, *address), isinstance(request, FetchRequest | FetchSnapshotRequest))
        message = request_to_wire(request, cluster_id=self._cluster_id)
        try:
            response = await link.ask(message, timeout_ms=self._timeout_ms, version_min=oldest_version(request))
        except PeerUnsupported as error:
            raise NoAnswer(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
        except PeerError as error:
            refused = isinstance(error, PeerRefused)
            raise NoAnswer(ErrorCode.REQUEST_TIMED_OUT, str(error), refused=refused) from error
        try:
            return answer_from_wire(request, response, self._listener)
        except (Invalid, Corrupt) as error:
            raise NoAnswer(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"{link.peer}: the answer cannot be used: {error}"
            ) from error

    def _address(self, peer: int, endpoints: Endpoints) -> tuple[str, int] | None:
        if peer == BOOTSTRAP:
            return self._dice.choice(self.servers) if self.servers else None
        found = next((one for one in endpoints if one.listener == self._listener), None)
        if found is None and endpoints:
            found = endpoints[0]
        return None if found is None else (found.host, found.port)

    def _link(self, peer: Peer, fetches: bool) -> PeerLink:
        link = self._links.get((peer, fetches))
        if link is None:
            for key in [key for key in self._links if key[0].id == peer.id and key[0] != peer and peer.id != BOOTSTRAP]:
                self._links.pop(key).close()  # the node has moved to another address
            while len(self._links) >= _LINKS_MAX:
                oldest = next(iter(self._links))
                self._links.pop(oldest).close()
            link = self._links[peer, fetches] = self._link_to(peer)
        return link

    def close(self) -> None:
        """Close all links."""
        for link in self._links.values():
            link.close()
        self._links.clear()
