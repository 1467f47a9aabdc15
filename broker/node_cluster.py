"""A broker's cluster as the broker sees it, whether it is the only node or one of several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.control.producer_ids import ProducerIds
from stratalog.broker.quorum.publishing import Follow
from stratalog.broker.replicas.hosted_partitions import Placements
from stratalog.broker.requests.forwarding import Forwarding
from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.image.brokers_image import ListenerAddress
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import Uuid

if TYPE_CHECKING:
    from stratalog.broker.membership import Membership

__all__ = ["BrokerHalf", "BrokerState", "NodeCluster"]


class BrokerHalf(Struct, frozen=True, kw_only=True):
    """The things that a cluster needs of a broker."""

    node_id: int
    incarnation_id: Uuid
    rack: str | None
    listeners: dict[str, ListenerAddress]
    """The addresses as others reach them, by the name of the listener."""
    directories: Callable[[], tuple[Uuid, ...]]
    """The log directories that are online."""
    previous_broker_epoch: int
    """The epoch of the process before, if it stopped without a loss; else -1."""
    on_registration_lost: Callable[[], None]
    """Called when the controller knows this broker's registration no more: it leads nothing then."""
    on_registered: Callable[[int], None]
    """Called with the epoch of each registration."""
    on_caught_up_again: Callable[[], None]
    """Called when the image has a registration that is not the first: it gives this broker its roles again."""


class BrokerState(IntEnum):
    """The state of a broker, as Kafka's ``BrokerState`` numbers it."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class NodeCluster(Protocol):
    """`OwnCluster` or `JoinedCluster`."""

    @property
    def broker_state(self) -> BrokerState:
        """Where the broker is in its life."""

    @property
    def control(self) -> ControlPlane:
        """Carries commands out where this node's controller is active; elsewhere each is NOT_CONTROLLER."""

    @property
    def membership(self) -> Membership | None:
        """The broker's membership among others; None where it is a cluster by itself."""

    @property
    def producer_ids(self) -> ProducerIds:
        """Gives out producer ids."""

    @property
    def forwarding(self) -> Forwarding | None:
        """The way of requests to the active controller; None where that is always in this process."""

    @property
    def placements(self) -> Placements | None:
        """The reports of replicas' directories; None for a cluster of one broker."""

    def cluster_view(self, image: ClusterImage, /) -> ClusterView:
        """The view that a decision about partitions is made on."""

    async def join(self) -> None:
        """Come to an image to begin with. Raises `OSError`, `LifecycleEnded`."""

    async def enter(self, applied: Follow, all_open: Callable[[], Awaitable[None]], /) -> None:
        """Have ``applied`` called for each image from now on, and come to the point at which clients may come.

        ``all_open`` waits until the logs that are led here are open.
        """

    async def leave(self, timeout_ms: int, /) -> None:
        """Hand over what this broker leads, for ``timeout_ms`` at most."""

    async def close(self, grace_seconds: float = 5.0, /) -> None:
        """End what goes on beside the quorum, which is the caller's."""
