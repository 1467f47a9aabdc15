"""A broker's place in a cluster of several nodes, with the controller of this node, if it is one.

.. code-block:: text

    quorum --> ControllerRole (if the node is a controller)
       '-----> Membership: registered, caught up, unfenced; requests forwarded
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.control.producer_ids import ProducerIds
from stratalog.broker.controller_role import ControllerRole
from stratalog.broker.lifecycle.lifecycle_events import Phase
from stratalog.broker.membership import Membership, MembershipServices
from stratalog.broker.node_cluster import BrokerHalf, BrokerState
from stratalog.broker.node_quorum import NodeQuorum
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.broker.quorum.publishing import Follow
from stratalog.broker.replicas.hosted_partitions import Placements
from stratalog.broker.requests.forwarding import Forwarding
from stratalog.metadata.controller.cluster_view import ClusterView, topic_settings
from stratalog.metadata.image.difference import ImageChange, difference
from stratalog.metadata.image.directory_ids import is_elsewhere
from stratalog.metadata.image.features import NODE_FEATURES
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage
from stratalog.metadata.settings.cluster_roles import ClusterRoles
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.topic import TopicPartition, Uuid, uuid_text

__all__ = ["JoinedCluster", "lost_partitions"]

log = logging.getLogger(__name__)

_HAND_OVER_MS: Final = 1000
"""A stop waits so long for another active controller. An election takes a tenth of it."""
_STATES: Final = {
    Phase.NEW: BrokerState.NOT_RUNNING,
    Phase.STARTING: BrokerState.STARTING,
    Phase.RECOVERY: BrokerState.RECOVERY,
    Phase.RUNNING: BrokerState.RUNNING,
    Phase.STOPPING: BrokerState.PENDING_CONTROLLED_SHUTDOWN,
    Phase.ENDED: BrokerState.SHUTTING_DOWN,
}
_LOOK_SECONDS: Final = 0.1
_LEADERLESS_SECONDS: Final = 2.0
"""A stop waits so long for a controller to be elected, longer than an election takes."""


class JoinedCluster:
    """The broker's `NodeCluster`. Lives on the event loop."""

    def __init__(
        self,
        opened: NodeQuorum,
        half: BrokerHalf,
        roles: ClusterRoles,
        controller: ControllerRole | None,
        *,
        resolver: Callable[[ClusterImage], ConfigResolver],
        new_incarnation: Callable[[], Uuid],
        on_failed: Callable[[], None],
    ) -> None:
        """``on_failed`` is called when the process has to end. ``resolver`` gives the settings of topics by an image."""
        self._quorum = opened.quorum
        self._half = half
        self._controller = controller
        self._resolver = resolver
        self._new_incarnation = new_incarnation
        self.control = ControlPlane(opened.quorum) if controller is None else controller.control
        self.membership = Membership(
            MembershipServices(
                roles=roles,
                quorum=opened.quorum,
                links=opened.links,
                rack=half.rack,
                listeners=half.listeners,
                features=NODE_FEATURES,
                directories=half.directories,
                previous_broker_epoch=half.previous_broker_epoch,
                new_incarnation=new_incarnation,
                on_failed=lambda _why: on_failed(),
                on_registration_lost=half.on_registration_lost,
                on_registered=half.on_registered,
                on_caught_up_again=half.on_caught_up_again,
            )
        )
        self.producer_ids = ProducerIds(self.membership.producer_ids.allocate, asks_ahead=True)

    @property
    def broker_state(self) -> BrokerState:
        """Where the broker is in its life."""
        return _STATES[self.membership.lifecycle.phase]

    @property
    def forwarding(self) -> Forwarding | None:
        """The way of requests to the active controller."""
        return self.membership.forwarder

    @property
    def placements(self) -> Placements:
        """The reports of replicas' directories to the active controller."""
        return self.membership.directory_reports

    def cluster_view(self, image: ClusterImage) -> ClusterView:
        """The view that a decision about partitions is made on."""
        if self._controller is not None:
            return self._controller.cluster_view(image)
        return ClusterView(image=image, settings=topic_settings(image, self._resolver(image)))

    async def join(self) -> None:
        """Take part in the quorum, register, and wait until the image has the registration.

        Raises `OSError` for ports, `LifecycleEnded`.
        """
        if self._controller is not None:
            await self._controller.start(self._new_incarnation())
            self._quorum.on_leader_change(partial(self._end_former_session, self._controller))
        self._quorum.start()
        await self.membership.caught_up()

    def _end_former_session(self, controller: ControllerRole, _leader: LeaderAndEpoch, is_active: bool) -> None:
        """The controller of this process knows that the broker's process of before is gone: its session is not waited for."""
        mine = self._quorum.image.brokers.brokers.get(self._half.node_id)
        if is_active and mine is not None and self.membership.lifecycle.broker_epoch < 0:
            controller.sessions.connection_lost(mine.broker_id, mine.epoch, 0)

    async def enter(self, applied: Follow, all_open: Callable[[], Awaitable[None]]) -> None:
        """Follow the image from now on, and wait until the controller lets clients come."""
        image = self._quorum.image
        self._quorum.publisher.follow(applied)
        self._quorum.publisher.follow(self._applied)
        await applied(image, difference(EMPTY_IMAGE, image))
        lost = lost_partitions(image, self._half.node_id, self._half.directories())
        if lost:
            text = "%d partitions of this broker, %s first, lie in directory %s by the metadata, which is none that it has: "
            text += "they are offline here, unless it was replaced. Else restore that directory, or the meta.properties that names it"
            log.error(text, len(lost), lost[0][0], uuid_text(lost[0][1]))
        await all_open()
        self.membership.lifecycle.logs_opened()
        await self.membership.lifecycle.unfenced()
        await self._quorum.publisher.reached(self._quorum.high_watermark)

    async def _applied(self, image: ClusterImage, _change: ImageChange) -> None:
        self.membership.lifecycle.image_applied(image)

    async def leave(self, timeout_ms: int) -> None:
        """Have the controller move what this broker leads, for ``timeout_ms`` at most.

        If this node's controller is the active one, another takes over first: whatever the stop waits for, commands are
        carried out meanwhile. Without a controller nothing can be moved: a node that stops after most of the others waits
        for none.
        """
        await self._quorum.hand_over(timeout_ms=_HAND_OVER_MS)
        leaving = asyncio.ensure_future(self.membership.leave(timeout_ms))
        leaderless = 0.0
        while not leaving.done() and leaderless < _LEADERLESS_SECONDS and not self._quorum.majority_is_gone:
            await asyncio.wait({leaving}, timeout=_LOOK_SECONDS)
            heard = self._quorum.leader.leader_id >= 0 and self.membership.lifecycle.in_contact
            leaderless = 0.0 if heard else leaderless + _LOOK_SECONDS
        leaving.cancel()
        await asyncio.wait({leaving})

    async def close(self, grace_seconds: float = 5.0) -> None:
        """End the membership, then the controller. The quorum goes on: it is the caller's."""
        self.membership.close()
        if self._controller is not None:
            await self._controller.close(grace_seconds)


def lost_partitions(
    image: ClusterImage, node_id: int, directories: Collection[Uuid]
) -> list[tuple[TopicPartition, Uuid]]:
    """The partitions of a node that lie, by the metadata, in a directory that it does not have."""
    found = []
    for topic in image.topics.by_name.values():
        for partition, state in topic.partitions.items():
            for replica, directory in zip(state.replicas, state.directories, strict=False):
                if replica == node_id and is_elsewhere(directory, directories):
                    found.append((TopicPartition(topic.name, partition), directory))
    return found
