"""A broker's membership in a cluster of several nodes: registered, heard, and led to the active controller.

A broker that is a cluster by itself has none of this. Here stand the ways to the active controller, one for each purpose,
and those who use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from stratalog.broker.forwarding.forwarder import Forwarder
from stratalog.broker.lifecycle.controller_channel import ControllerChannel
from stratalog.broker.lifecycle.directory_reports import DirectoryReports
from stratalog.broker.lifecycle.epoch_raising import EpochRaising
from stratalog.broker.lifecycle.lifecycle_driver import BrokerSelf, Lifecycle
from stratalog.broker.lifecycle.lifecycle_events import LifecycleTimes
from stratalog.broker.lifecycle.producer_id_blocks import ProducerIdBlocks
from stratalog.broker.link_making import LinkMaking
from stratalog.broker.quorum.quorum import Quorum
from stratalog.metadata.image.brokers_image import ListenerAddress, SupportedLevels
from stratalog.metadata.settings.cluster_roles import ClusterRoles
from stratalog.wire.messages.alter_partition import AlterPartitionResponse
from stratalog.wire.topic import Uuid

__all__ = ["Membership", "MembershipServices"]

_PRODUCER_IDS_MS: Final = 30_000
"""How long a client waits for a block of producer ids, at most."""
_REPORT_MS: Final = 30_000
"""One report of directories waits so long for its answer."""


class MembershipServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that its membership uses."""

    roles: ClusterRoles
    quorum: Quorum
    links: LinkMaking
    rack: str | None
    listeners: dict[str, ListenerAddress]
    features: Mapping[str, SupportedLevels]
    directories: Callable[[], tuple[Uuid, ...]]
    """The log directories that are online."""
    previous_broker_epoch: int
    new_incarnation: Callable[[], Uuid]
    on_failed: Callable[[str], None]
    on_registration_lost: Callable[[], None]
    on_registered: Callable[[int], None]
    on_caught_up_again: Callable[[], None]


class Membership:
    """One broker's. Lives on the event loop."""

    def __init__(self, services: MembershipServices) -> None:
        """A call of `start` begins it."""
        links, quorum, settings = services.links, services.quorum, services.roles.quorum
        self._services = services
        self._channels: list[ControllerChannel] = []
        self._beats = self.channel("heartbeat")
        self._requests = self.channel("forwarding")
        self.lifecycle = Lifecycle(
            BrokerSelf(
                broker_id=services.roles.node_id,
                cluster_id=quorum.cluster_id,
                listeners=services.listeners,
                features=services.features,
                directories=services.directories,
                rack=services.rack,
                previous_broker_epoch=services.previous_broker_epoch,
            ),
            LifecycleTimes(
                heartbeat_interval_ms=settings.heartbeat_interval_ms,
                session_timeout_ms=settings.session_timeout_ms,
                registration_timeout_ms=settings.registration_timeout_ms,
                directory_timeout_ms=settings.directory_timeout_ms,
            ),
            channel=self._beats,
            quorum=quorum,
            image=lambda: quorum.image,
            monotonic=links.clock.monotonic,
            draw=links.dice.random,
            new_incarnation=services.new_incarnation,
            on_failed=services.on_failed,
            on_registration_lost=services.on_registration_lost,
            on_registered=services.on_registered,
            on_caught_up_again=services.on_caught_up_again,
        )
        self.forwarder = Forwarder(
            self._requests,
            is_active=lambda: quorum.is_active,
            leader_epoch=lambda: quorum.leader.epoch,
            monotonic=links.clock.monotonic,
            versions=lambda: self._beats.versions,  # the way of heartbeats is always connected
        )
        self.producer_ids = ProducerIdBlocks(
            self._beats,
            broker_id=services.roles.node_id,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            quorum=quorum,
            monotonic=links.clock.monotonic,
            timeout_ms=_PRODUCER_IDS_MS,
        )
        self.epoch_raising = self._new_epoch_raising()
        self._placements = self.channel("directories")
        self.directory_reports = DirectoryReports(
            broker_id=services.roles.node_id,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            channel=self._placements,
            quorum=quorum,
            monotonic=links.clock.monotonic,
            draw=links.dice.random,
            timeout_ms=_REPORT_MS,
        )

    def _new_epoch_raising(self) -> EpochRaising:
        return EpochRaising(
            lambda request: self.forwarder.ask(request, AlterPartitionResponse),
            broker_id=self._services.roles.node_id,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            image=lambda: self._services.quorum.image,
        )

    def channel(self, purpose: str) -> ControllerChannel:
        """A way to the active controller for one purpose: none waits behind the requests of another."""
        services = self._services
        channel = ControllerChannel(
            services.quorum,
            listener=services.roles.controller_listeners[0],
            new_link=services.links.link_to(purpose),
            monotonic=services.links.clock.monotonic,
        )
        self._channels.append(channel)
        return channel

    async def caught_up(self) -> None:
        """Register, and wait until the image has the registration and all before it. Raises `LifecycleEnded`."""
        self.lifecycle.start()
        await self.lifecycle.caught_up()

    async def leave(self, timeout_ms: int) -> None:
        """Have the controller move what this broker leads, and say farewell."""
        await self.lifecycle.shut_down(timeout_ms)

    def close(self) -> None:
        """Send nothing any more."""
        self.lifecycle.close()
        self.directory_reports.close()
        self.epoch_raising.close()
        for channel in self._channels:
            channel.close()
