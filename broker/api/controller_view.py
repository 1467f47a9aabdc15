"""The controller as handlers see it: what ``context.broker`` offers them on a listener of ``controller.listener.names``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from stratalog.broker.api.metadata_view import MetadataView
from stratalog.broker.control.broker_sessions import BrokerSessions
from stratalog.broker.requests.context import RequestContext
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoints
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = ["Context", "ControllerView", "Leadership", "QuorumView"]


class Leadership(Protocol):
    """The leader of the metadata log in one epoch."""

    @property
    def leader_id(self) -> int:
        """Its node id; -1 while it is not known."""

    @property
    def epoch(self) -> int:
        """The epoch."""

    @property
    def endpoints(self) -> Endpoints:
        """The listeners of the leader; may be empty."""


class QuorumView(Protocol):
    """The replica of the metadata log in this process."""

    @property
    def node_id(self) -> int:
        """The id of this replica."""

    @property
    def directory_id(self) -> Uuid:
        """The id of the metadata log's directory."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""

    @property
    def leader(self) -> Leadership:
        """The leader as this replica knows it."""

    @property
    def is_active(self) -> bool:
        """Whether this node's controller decides: the first record of its epoch is committed and applied."""

    @property
    def high_watermark(self) -> int:
        """The end of what is committed, as far as it is known here."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""

    def receive(self, request: raft.Request, /) -> asyncio.Future[raft.Answer]:
        """Take a request of another replica; its answer, once the log and the state are on disk."""

    def propose(self, records: Sequence[Message], /, *, epoch: int) -> asyncio.Future[int]:
        """The offset of the last record, once all are committed and applied to the image here.

        Fails with `KafkaError` NOT_CONTROLLER when the leadership went meanwhile (the outcome is then unknown) and with
        KAFKA_STORAGE_ERROR.
        """

    def on_leader_change(self, listener: Callable[[Leadership, bool], None], /) -> None:
        """Have ``listener(leader, is_active)`` called at each change."""


class ControllerView(MetadataView, Protocol):
    """The attributes and methods of a controller that handlers use."""

    @property
    def quorum(self) -> QuorumView:
        """The replica of the metadata log."""

    @property
    def sessions(self) -> BrokerSessions:
        """The sessions of brokers, while this controller is active."""


Context = RequestContext[ControllerView]
"""A request on the controller's listener as handlers get it."""
