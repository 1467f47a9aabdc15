"""The listeners of a controller: brokers, other controllers and administrators ask it here.

They are a server of their own beside that of the clients, with a table, limits and quotas of their own; the tick of the
loop and the figures are those of the process.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stratalog.broker.api.controller_apis import CONTROLLER_APIS
from stratalog.broker.api.controller_view import ControllerView
from stratalog.broker.network.connection_counts import ServerLimits
from stratalog.broker.network.limits import server_limits
from stratalog.broker.network.server import Server, told_listeners
from stratalog.broker.requests.authorizer import authorizer_of
from stratalog.broker.requests.dispatch import Dispatcher
from stratalog.broker.requests.quotas import Quotas
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.image.brokers_image import ListenerAddress
from stratalog.metadata.image.image import ClusterImage

__all__ = ["ControllerListener"]

_ENVELOPE_BYTES: Final = 128 << 10
"""The room around the largest request of a client for the principal and the headers that its envelope adds."""

_ELEMENTS_MIN: Final = 50_000
"""A broker that lost a peer asks for the in-sync sets of all its partitions at once; Kafka's does not divide them."""


class ControllerListener:
    """The server of one controller; a node without controller listeners has none."""

    def __init__(self, controller: ControllerView, tick: Tick) -> None:
        """Must be made inside the running loop, which is that of ``tick``."""
        config = controller.config
        self._told = config.told_controller_listeners
        self.dispatcher = Dispatcher[ControllerView](
            controller,
            CONTROLLER_APIS,
            metrics=controller.metrics,
            monotonic=controller.clock.monotonic,
            authorizer=authorizer_of(config, lambda: controller.image.acls),
        )
        self.server = Server(
            config.controller_listeners,
            self.dispatcher.dispatch,
            clock=controller.clock,
            metrics=controller.metrics,
            limits=_limits(config),
            tick=tick,
        )
        self._quotas = Quotas(config, controller.clock, controller.metrics, self.server)

    @property
    def told(self) -> dict[str, ListenerAddress]:
        """The addresses at which others reach the listeners that are bound, the first of ``controller.listener.names`` first."""
        return told_listeners(self._told, self.server.addresses)

    async def bind(self) -> None:
        """Take the ports without letting others in. Raises OSError."""
        await self.server.bind()

    async def accept(self) -> None:
        """Let others in."""
        await self.server.accept()

    def follow(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Put quotas and limits of an image in force."""
        self._quotas.follow(image.quotas)
        self.server.limits = _limits(config)

    async def close(self, grace_seconds: float = 5.0) -> None:
        """Answer what is being answered, for a while, then close everything."""
        await self.server.close(grace_seconds)
        await self.dispatcher.close()


def _limits(config: BrokerConfig) -> ServerLimits:
    limits = server_limits(config)
    one = limits.connection
    wider = replace(
        one,
        frame_bytes_max=one.frame_bytes_max + _ENVELOPE_BYTES,
        elements_max=max(one.elements_max, _ELEMENTS_MIN),
    )
    return replace(limits, connection=wider)
