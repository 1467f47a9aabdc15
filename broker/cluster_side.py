"""The parts of a node that a cluster of one has not: links to other nodes, its controller if it is one, its membership.

.. code-block:: text

    quorum --> ControllerRole (if the node is a controller)
       '-----> Membership (if it is a broker): registered, caught up, unfenced; requests forwarded
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.controller_role import NODE_FEATURES, ControllerRole
from stratalog.broker.membership import LinkMaking, Membership, MembershipServices
from stratalog.broker.quorum.quorum import Quorum
from stratalog.broker.quorum.quorum_links import QuorumLinks
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.image.brokers_image import ListenerAddress
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = ["BrokerHalf", "ClusterSide", "quorum_links"]

_UUID_BYTES: Final = 16
_LOOK_SECONDS: Final = 0.1
_LEADERLESS_SECONDS: Final = 2.0
"""A stop waits so long for a controller to be elected, longer than an election takes."""


def quorum_links(config: BrokerConfig, links: LinkMaking, cluster_id: str) -> QuorumLinks:
    """The links of a node's replica of the metadata log to the controllers that its settings name, and that it hears of."""
    roles = config.roles
    servers = [(one.host, one.port) for one in roles.quorum.bootstrap_servers]
    return QuorumLinks(
        links.link_to("raft-client"),
        listener=roles.controller_listeners[0],
        servers=servers or [(one.host, one.port) for one in roles.quorum.voters],
        cluster_id=cluster_id,
        timeout_ms=roles.quorum.request_timeout_ms,
        dice=links.dice,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHalf:
    """What the membership of a broker needs of it."""

    listeners: dict[str, ListenerAddress]
    directories: Callable[[], tuple[Uuid, ...]]
    previous_broker_epoch: int
    on_registration_lost: Callable[[], None]


class ClusterSide:
    """One node's. Lives on the event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        quorum: Quorum,
        links: LinkMaking,
        *,
        metrics: Metrics,
        on_failed: Callable[[], None],
    ) -> None:
        """``on_failed`` is called when the process has to end."""
        self._config = config
        self._quorum = quorum
        self._links = links
        self._metrics = metrics
        self._on_failed = on_failed
        self.controller: ControllerRole | None = None
        self.membership: Membership | None = None

    async def begin_controller(
        self,
        tick: Tick,
        *,
        bootstrap: Callable[[], Sequence[Message]],
        before: Callable[[ClusterImage, Sequence[Message]], None] = lambda _image, _records: None,
    ) -> None:
        """Take the ports of the controller's listeners, and let others in. Raises `OSError`."""
        self.controller = ControllerRole(
            self._config,
            self._quorum,
            clock=self._links.clock,
            metrics=self._metrics,
            dice=self._links.dice,
            tick=tick,
            bootstrap=bootstrap,
            before=before,
        )
        await self.controller.bind()
        await self.controller.start(self._links, os.urandom(_UUID_BYTES))

    @property
    def control(self) -> ControlPlane:
        """The commands of this node's controller; those of a node without one are all refused with NOT_CONTROLLER."""
        return ControlPlane(self._quorum) if self.controller is None else self.controller.control

    def begin_membership(self, half: BrokerHalf) -> Membership:
        """Make the broker's half a member; it registers with `Membership.caught_up`."""
        config = self._config

        def failed(_why: str) -> None:
            self._on_failed()

        self.membership = Membership(
            MembershipServices(
                roles=config.roles,
                quorum=self._quorum,
                links=self._links,
                rack=config.rack,
                listeners=half.listeners,
                features=NODE_FEATURES,
                directories=half.directories,
                previous_broker_epoch=half.previous_broker_epoch,
                new_incarnation=lambda: os.urandom(_UUID_BYTES),
                on_failed=failed,
                on_registration_lost=half.on_registration_lost,
            )
        )
        return self.membership

    async def leave(self, timeout_ms: int) -> None:
        """Have the controller move what this broker leads, for ``timeout_ms`` at most.

        Without a controller nothing can be moved: a node that stops after most of the others waits for none.
        """
        if self.membership is None:
            return
        leaving = asyncio.ensure_future(self.membership.leave(timeout_ms))
        leaderless = 0.0
        while not leaving.done() and leaderless < _LEADERLESS_SECONDS:
            await asyncio.wait({leaving}, timeout=_LOOK_SECONDS)
            leaderless = 0.0 if self._quorum.leader.leader_id >= 0 else leaderless + _LOOK_SECONDS
        leaving.cancel()
        await asyncio.wait({leaving})

    async def close(self, grace_seconds: float = 5.0) -> None:
        """End the membership, then the controller. The quorum goes on: it is the caller's."""
        if self.membership is not None:
            self.membership.close()
        if self.controller is not None:
            await self.controller.close(grace_seconds)
