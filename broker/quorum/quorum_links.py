"""Requests of the quorum to other nodes: links by address and purpose, and answers as the quorum's values."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from stratalog.broker.peers.peer_errors import Peer, PeerError, PeerRefused, PeerUnsupported
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.broker.quorum.obstacles import Obstacles, ahead_of_quorum
from stratalog.broker.quorum.quorum_peers import NoAnswer
from stratalog.broker.quorum.wire.messages import answer_from_wire, oldest_version, request_to_wire
from stratalog.metadata.raft.actions import BOOTSTRAP
from stratalog.metadata.raft.messages import Answer, FetchAnswer, FetchRequest, FetchSnapshotRequest, Request
from stratalog.metadata.raft.voter_set import Endpoints, VoterSet
from stratalog.wire.errors import Corrupt, ErrorCode, Invalid
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest

__all__ = ["LinkTo", "QuorumLinks"]

_LINKS_MAX: Final = 64
"""Links that are kept. A quorum has a handful of voters; their addresses change seldom."""

_LOOK_SECONDS: Final = 2.0
_CONTROLLERS: Final = 2
"""The kind of endpoint that DescribeCluster asks about."""
_OUT_OF_STEP: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
"""Answers of a server with which this node cannot come to terms, if they last."""

log = logging.getLogger(__name__)

LinkTo = Callable[[Peer], PeerLink]
"""Makes a link to a node."""


class Watched(Protocol):
    """The part of `Quorum` that tells whether this node has found it."""

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader, as this node knows it now."""

    @property
    def voters(self) -> VoterSet:
        """The voters, as this node knows them now."""


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
        monotonic: Callable[[], float],
        obstacles: Obstacles,
    ) -> None:
        """``listener`` is the first name of ``controller.listener.names``, ``servers`` the bootstrap servers."""
        self._link_to = link_to
        self._listener = listener
        self.servers = dice.sample(servers, len(servers))
        """Bootstrap servers in the order in which they are asked: in turn, for a silent one costs its time-out each time."""
        self._cluster_id = cluster_id
        self._timeout_ms = timeout_ms
        self._monotonic = monotonic
        self._obstacles = obstacles
        self._looks: asyncio.TimerHandle | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._links: dict[tuple[Peer, bool], PeerLink] = {}

    async def ask(self, peer: int, request: Request, endpoints: Endpoints) -> Answer:
        """See `QuorumPeers.ask`."""
        address = self._address(peer, endpoints)
        if address is None:
            raise NoAnswer(ErrorCode.BROKER_NOT_AVAILABLE, f"no address of node {peer} is known")
        self._ask_last(address)
        link = self._link(Peer(peer, *address), isinstance(request, FetchRequest | FetchSnapshotRequest))
        message = request_to_wire(request, cluster_id=self._cluster_id)
        try:
            response = await link.ask(message, timeout_ms=self._timeout_ms, version_min=oldest_version(request))
        except PeerError as error:
            self._ask_last(address)
            self._obstacles.heard(str(link.peer), f"does not answer ({_why(error)})")
            code = ErrorCode.UNSUPPORTED_VERSION if isinstance(error, PeerUnsupported) else ErrorCode.REQUEST_TIMED_OUT
            raise NoAnswer(code, str(error), refused=isinstance(error, PeerRefused)) from error
        try:
            answer = answer_from_wire(request, response, self._listener)
        except (Invalid, Corrupt) as error:
            self._obstacles.heard(str(link.peer), f"answers what cannot be used ({error})")
            raise NoAnswer(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"{link.peer}: the answer cannot be used: {error}"
            ) from error
        self._heed(link, request, answer)
        return answer

    # -- obstacles -----------------------------------------------------------------------------------------------------

    def watch(self, quorum: Watched) -> None:
        """Say from now on, in the log, what keeps this node from ``quorum``."""
        for sentence in self._obstacles.look(quorum.leader, quorum.voters, self._monotonic()):
            log.warning("%s", sentence)
        self._looks = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self.watch, quorum)

    def _heed(self, link: PeerLink, request: Request, answer: Answer) -> None:
        server, error = str(link.peer), answer.error
        if (
            error is ErrorCode.UNKNOWN_LEADER_EPOCH
            and isinstance(request, FetchRequest)
            and isinstance(answer, FetchAnswer)
        ):
            self._obstacles.heard(server, ahead_of_quorum(request.epoch, answer.epoch))
        elif error is not ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._obstacles.heard(server, f"answers {error.name}" if error in _OUT_OF_STEP else None)
        elif self._obstacles.is_news(server, self._monotonic()):
            task = asyncio.get_running_loop().create_task(self._say_cluster(link))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _say_cluster(self, link: PeerLink) -> None:
        """Ask a server that belongs to another cluster for its id (KIP-919): a refusal does not have it."""
        cluster_id = None
        try:
            asked = DescribeClusterRequest(
                include_cluster_authorized_operations=False, endpoint_type=_CONTROLLERS, include_fenced_brokers=False
            )
            response = await link.ask(asked, timeout_ms=self._timeout_ms, version_min=1)
            cluster_id = response.cluster_id or None
        except PeerError as error:
            log.debug("%s does not tell its cluster: %s", link.peer, error)
        log.error("%s", self._obstacles.of_another_cluster(str(link.peer), cluster_id))

    def _address(self, peer: int, endpoints: Endpoints) -> tuple[str, int] | None:
        if peer == BOOTSTRAP:
            return self.servers[0] if self.servers else None
        found = next((one for one in endpoints if one.listener == self._listener), None)
        if found is None and endpoints:
            found = endpoints[0]
        return None if found is None else (found.host, found.port)

    def _ask_last(self, address: tuple[str, int]) -> None:
        """Put a server behind all others, if it is one: it owes an answer, maybe as the leader, or has just given none."""
        if address in self.servers:
            self.servers.remove(address)
            self.servers.append(address)

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
        if self._looks is not None:
            self._looks.cancel()
        for task in self._asking:
            task.cancel()
        for link in self._links.values():
            link.close()
        self._links.clear()


def _why(error: PeerError) -> str:
    return str(error).removeprefix(f"{error.peer}: ")
