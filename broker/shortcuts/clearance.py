"""Whether a client may still do what its requests mean: a shortcut asks the authorizer what the long way asks.

An answer is kept for a principal and a version of the rules. It is asked for anew when either of them is another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.requests.context import RequestContext

if TYPE_CHECKING:
    from stratalog.broker.requests.dispatch import Dispatcher
    from stratalog.broker.requests.request_source import RequestSource

__all__ = ["Clearance", "Needed"]

Needed = tuple[Operation, ResourceType, str]
"""An operation on the resource of a type and a name, without which a request is refused."""


class Clearance:
    """The permissions that all requests of one route need, and under which principal and rules they were given last."""

    __slots__ = ("_connection", "_dispatcher", "_needed", "_principal", "_version")

    def __init__(self, dispatcher: Dispatcher[Any], connection: RequestSource, needed: tuple[Needed, ...]) -> None:
        self._dispatcher = dispatcher
        self._connection = connection
        self._needed = needed
        self._principal: str | None = None
        self._version = 0

    @classmethod
    def of(cls, context: RequestContext[Any], *needed: Needed) -> Clearance | None:
        """For the connection of a request; None where no authorizer rules."""
        dispatcher = context.dispatcher
        return cls(dispatcher, context.connection, needed) if dispatcher.guarded else None

    def holds(self) -> bool:
        """Whether the client may do all of it by the rules of now."""
        dispatcher, connection = self._dispatcher, self._connection
        principal, version = connection.principal, dispatcher.authorizer.version
        if principal == self._principal and version == self._version:
            return True
        for operation, resource, name in self._needed:
            if not dispatcher.permitted(connection, resource, name) >> operation & 1:
                return False
        self._principal, self._version = principal, version
        return True
