"""The controller as handlers see it: what ``context.broker`` offers them on a listener of ``controller.listener.names``."""

from __future__ import annotations

from typing import Protocol

from stratalog.broker.api.metadata_view import MetadataView
from stratalog.broker.control.broker_sessions import BrokerSessions
from stratalog.broker.requests.context import RequestContext

__all__ = ["Context", "ControllerView"]


class ControllerView(MetadataView, Protocol):
    """The attributes and methods of a controller that handlers use."""

    @property
    def sessions(self) -> BrokerSessions:
        """The sessions of brokers, while this controller is active."""

    @property
    def last_leader_id(self) -> int:
        """The leader of the metadata quorum; while none is known, the one before it; -1 before the first."""


Context = RequestContext[ControllerView]
"""A request on the controller's listener as handlers get it."""
