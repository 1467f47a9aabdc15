"""The other nodes of the quorum, as this one asks them."""

from __future__ import annotations

from typing import Protocol

from stratalog.metadata.raft.messages import Answer, Request
from stratalog.metadata.raft.voter_set import Endpoints
from stratalog.wire.errors import ErrorCode

__all__ = ["NoAnswer", "NoPeers", "QuorumPeers"]


class NoAnswer(Exception):
    """A request has no answer. UNSUPPORTED_VERSION: the peer has no version that says what the request says.

    ``refused``: the peer's host refuses connections.
    """

    def __init__(self, code: ErrorCode, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.refused = refused


class QuorumPeers(Protocol):
    """Carries requests of the quorum to other nodes."""

    async def ask(self, peer: int, request: Request, endpoints: Endpoints, /) -> Answer:
        """The answer of ``peer``, or of any bootstrap server for `BOOTSTRAP`. Raises `NoAnswer`."""
        ...

    def close(self) -> None:
        """Close all links."""
        ...


class NoPeers:
    """The peers of a quorum of one node: it has no other to ask."""

    async def ask(self, peer: int, _request: Request, _endpoints: Endpoints) -> Answer:
        """Raises `NoAnswer`."""
        raise NoAnswer(ErrorCode.BROKER_NOT_AVAILABLE, f"this node is the whole quorum; node {peer} is unknown to it")

    def watch(self, quorum: object) -> None:
        """A quorum of one node has no obstacles."""

    def close(self) -> None:
        """There is nothing to close."""
