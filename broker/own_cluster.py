"""A broker that is a cluster by itself: its own controller decides, in this process, and nothing is sent to anybody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.control.producer_ids import ProducerIds, allocate_here
from stratalog.broker.node_cluster import BrokerHalf, BrokerState
from stratalog.broker.node_quorum import NodeQuorum
from stratalog.broker.quorum.publishing import Follow
from stratalog.broker.replicas.hosted_partitions import Placements
from stratalog.broker.requests.forwarding import Forwarding
from stratalog.metadata.controller.cluster_view import ClusterView, topic_settings
from stratalog.metadata.controller.controller import BrokerStart, register_broker
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.settings.configs import ConfigResolver

__all__ = ["OwnCluster"]


class OwnCluster:
    """The broker's `NodeCluster`. Lives on the event loop."""

    forwarding: Forwarding | None = None
    placements: Placements | None = None
    """The active controller is always in this process."""
    membership: None = None
    """There are no others."""

    def __init__(
        self,
        opened: NodeQuorum,
        half: BrokerHalf,
        control: ControlPlane,
        *,
        resolver: Callable[[ClusterImage], ConfigResolver],
    ) -> None:
        """``resolver`` gives the settings of topics by an image's defaults."""
        self._opened = opened
        self._half = half
        self._resolver = resolver
        self.broker_state = BrokerState.NOT_RUNNING
        self.control = control
        self.producer_ids = ProducerIds(partial(allocate_here, control, half.node_id))

    def cluster_view(self, image: ClusterImage) -> ClusterView:
        """The view of a decision about partitions, without an index: one broker needs none."""
        settings = topic_settings(image, self._resolver(image))
        return ClusterView(image=image, settings=settings, heeds_directories=False)

    async def join(self) -> None:
        """Begin an epoch of the metadata log. Raises `OSError`."""
        self.broker_state = BrokerState.STARTING
        self._opened.quorum.start()
        await self._opened.quorum.active()

    async def enter(self, applied: Follow, all_open: Callable[[], Awaitable[None]]) -> None:
        """Say where the broker is reached, and lead what it is named leader of, each under a new epoch."""
        self.broker_state = BrokerState.RECOVERY
        quorum, half = self._opened.quorum, self._half
        quorum.publisher.follow(applied)
        await self.control.begin(self)
        start = BrokerStart(
            broker_id=half.node_id,
            incarnation_id=half.incarnation_id,
            listeners=half.listeners,
            directories=half.directories(),
            rack=half.rack,
        )
        await self.control.execute(
            lambda image: register_broker(
                image,
                start,
                broker_epoch=quorum.log_end_offset,
                unclean_allowed=self.cluster_view(image).allows_unclean,
            )
        )
        half.on_registered(quorum.image.brokers.brokers[half.node_id].epoch)
        await all_open()
        self.broker_state = BrokerState.RUNNING

    async def leave(self, timeout_ms: int) -> None:
        """There is no broker to hand anything to."""
        del timeout_ms
        self.broker_state = BrokerState.SHUTTING_DOWN

    async def close(self, grace_seconds: float = 5.0) -> None:
        """There is nothing to close beside the quorum, which is the caller's."""
