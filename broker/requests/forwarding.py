"""The way to the active controller as requests see it: a port, which `stratalog.broker.forwarding` carries out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from stratalog.wire.schema import Message

__all__ = ["Forwarding"]

ResponseT = TypeVar("ResponseT", bound=Message)


class Forwarding(Protocol):
    """Hands requests on to the active controller (KIP-590)."""

    @property
    def elsewhere(self) -> bool:
        """Whether the active controller is in another process, or not known: this one decides nothing."""

    @property
    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """First and last version of each API that the active controller serves, by key.

        None where it is in this process, or has not told them yet.
        """

    def forward(self, context: Any, frame: memoryview, /) -> bool:
        """Have the active controller answer the request in ``frame``; False, and nothing done, if it is in this process.

        ``context`` is the `RequestContext` of the request, whose file needs this one. The answer follows, once the caller has parked the request, also where the request fails.
        """

    async def ask(self, request: Message, response: type[ResponseT], context: Any = None) -> ResponseT:
        """The active controller's answer to a request: that of a client, whose ``context``, a `RequestContext`, is given, or this node's own.

        ``response`` is its class. A client's request goes in the version of the one that the client has sent, if that is
        of the same API, and in the newest otherwise. Raises `KafkaError` where there is no answer.
        """
