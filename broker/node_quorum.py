"""Opens a node's replica of the metadata log: of a quorum of its own, or with links to the others that its settings name."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct

from stratalog.broker.control.unreadable_settings import UnreadableSettings
from stratalog.broker.link_making import LinkMaking
from stratalog.broker.quorum.metadata_log import first_records
from stratalog.broker.quorum.opening import QuorumPlace, open_quorum
from stratalog.broker.quorum.publishing import InSlices
from stratalog.broker.quorum.quorum import Quorum
from stratalog.broker.quorum.quorum_peers import NoPeers
from stratalog.broker.replicas.directories import Directories
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.settings.config import BrokerConfig
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.metadata.controller.activation import activation
from stratalog.metadata.controller.min_in_sync import minimum_of_file
from stratalog.metadata.image.decision import Decision
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey
from stratalog.wire.schema import Message

if TYPE_CHECKING:
    from stratalog.broker.quorum.quorum_links import QuorumLinks

__all__ = ["NodeQuorum", "QuorumServices", "open_node_quorum"]


class QuorumServices(Struct, frozen=True, kw_only=True):
    """The parts of a node that its replica of the metadata log uses."""

    config: BrokerConfig
    directories: Directories
    files: Filesystem
    clock: Clock
    dice: random.Random
    threads: Executor
    in_slices: InSlices
    on_failed: Callable[[], None]
    """Called when the node has to end."""


class NodeQuorum(Struct, frozen=True, kw_only=True):
    """The replica, and what goes with it."""

    quorum: Quorum
    links: LinkMaking
    """Makes links to other nodes."""
    bootstrap: Callable[[], Sequence[Message]]
    """The first records of a new cluster."""
    unreadable: UnreadableSettings
    """The settings of the newest image that this release cannot read."""

    def activation(
        self, static: Mapping[str, str], draw: Callable[[], int] | None = None
    ) -> Callable[[ClusterImage], Decision[None]]:
        """The decision with which the controller of this node begins; ``static`` are the settings of its file.

        ``draw`` gives a random number of 64 bits for an era of producer ids, where it is to begin one each time.
        """
        minimum = minimum_of_file(static)

        def begin(image: ClusterImage) -> Decision[None]:
            first = () if image.features else self.bootstrap()
            era_draw = None if draw is None else draw()
            return activation(image, first, min_in_sync_replicas=minimum, era_draw=era_draw)

        return begin


def open_node_quorum(services: QuorumServices) -> NodeQuorum:
    """Open the replica; it has not begun when this returns.

    Raises `Corrupt`, `OSError`, `Invalid` for a log of other voters; the files are unchanged then.
    """
    config, cluster_id = services.config, services.directories.cluster_id
    roles = config.roles
    links = LinkMaking(node_id=config.node_id, executor=services.threads, clock=services.clock, dice=services.dice)
    address = config.controller_address
    home = next(one for one in services.directories.all if one.path == config.metadata_log_dir)
    peers = _peers(config, links, cluster_id, ReplicaKey(config.node_id, home.directory_id))
    quorum = open_quorum(
        QuorumPlace(
            home=home,
            roles=roles,
            cluster_id=cluster_id,
            endpoints=() if address is None else (Endpoint(roles.controller_listeners[0], *address),),
        ),
        peers=peers,
        files=services.files,
        clock=services.clock,
        dice=services.dice,
        threads=services.threads,
        in_slices=services.in_slices,
        on_failed=services.on_failed,
    )
    services.directories.metadata = quorum.replica
    bootstrap = cache(partial(first_records, services.files, config.metadata_log_dir))
    if roles.is_controller and roles.has_peers and not quorum.log_end_offset:
        bootstrap()  # a controller that leads a new cluster without it would write nothing, for ever
    peers.watch(quorum)
    unreadable = UnreadableSettings(services.in_slices)
    quorum.publisher.follow(unreadable.follow)
    return NodeQuorum(quorum=quorum, links=links, bootstrap=bootstrap, unreadable=unreadable)


def _peers(config: BrokerConfig, links: LinkMaking, cluster_id: str, me: ReplicaKey) -> NoPeers | QuorumLinks:
    roles = config.roles
    if not roles.has_peers:
        return NoPeers()
    from stratalog.broker.quorum.obstacles import Obstacles  # noqa: PLC0415
    from stratalog.broker.quorum.quorum_links import QuorumLinks  # noqa: PLC0415 - a node of one has no links

    servers = [(one.host, one.port) for one in roles.quorum.bootstrap_servers]
    return QuorumLinks(
        links.link_to("raft-client"),
        listener=roles.controller_listeners[0],
        servers=servers or [(one.host, one.port) for one in roles.quorum.voters],
        cluster_id=cluster_id,
        timeout_ms=roles.quorum.request_timeout_ms,
        dice=links.dice,
        monotonic=links.clock.monotonic,
        obstacles=Obstacles(
            me,
            cluster_id,
            is_controller=roles.is_controller,
            now=links.clock.monotonic(),
            address=config.controller_address,
        ),
    )
