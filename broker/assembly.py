"""Hands each part of a broker the other parts that it uses, and no more."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from stratalog.broker.api.broker_view import BrokerView
from stratalog.broker.archive.deleted_archives import DeletedArchives
from stratalog.broker.archive.group_copies import GroupCopies, GroupCopyServices
from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.control.raft_metrics import add_applied_metrics, add_raft_metrics
from stratalog.broker.control.unreadable_settings import UnreadableSettings
from stratalog.broker.coordinators.coordinators import Coordinators, CoordinatorServices
from stratalog.broker.coordinators.internal_topics import TopicMaking
from stratalog.broker.housekeeping import Housekeeping, HousekeepingServices
from stratalog.broker.http.tier_watch import TierWatch
from stratalog.broker.image_following import FollowingServices, ImageFollowing
from stratalog.broker.lifecycle.registration_marks import RegistrationMarks
from stratalog.broker.link_making import LinkMaking
from stratalog.broker.network.limits import segments_open_max, server_limits
from stratalog.broker.network.server import Server
from stratalog.broker.node_cluster import BrokerHalf, NodeCluster
from stratalog.broker.node_quorum import NodeQuorum
from stratalog.broker.own_cluster import OwnCluster
from stratalog.broker.quorum.quorum import Quorum
from stratalog.broker.replicas.background_removal import BackgroundRemoval
from stratalog.broker.replicas.compaction import CleanerServices, Compaction
from stratalog.broker.replicas.hosted_partitions import HostedPartitions, HostedServices
from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.dispatch import Dispatcher
from stratalog.broker.requests.quotas import Quotas
from stratalog.broker.requests.replication_throttle import ReplicationThrottle, ThrottledSide
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.views.mount import Mount, MountServices
from stratalog.broker.views.views import Views, ViewServices
from stratalog.metadata.image.difference import ImageChange
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

if TYPE_CHECKING:
    from stratalog.broker.coordinators.remote_transactions import RemoteTransactions
    from stratalog.broker.replication.replication import Replication
    from stratalog.broker.replication.tier_start import ArchiveAccess

__all__ = [
    "BrokerParts",
    "hosted_services",
    "new_cluster",
    "new_compaction",
    "new_coordinators",
    "new_following",
    "new_housekeeping",
    "new_mount",
    "new_server",
    "new_views",
]

_UUID_BYTES: Final = 16


class BrokerParts(BrokerView, Protocol):
    """A broker while it is put together: what handlers see, and what only its parts see."""

    @property
    def cluster(self) -> NodeCluster:
        """Its cluster, as it sees it."""

    @property
    def compaction(self) -> Compaction:
        """Cleans compacted topics."""

    @property
    def deleted_archives(self) -> DeletedArchives:
        """The archives of deleted topics."""

    @property
    def dice(self) -> random.Random:
        """Its source of chance."""

    @property
    def dispatcher(self) -> Dispatcher[BrokerView]:
        """Gives requests to handlers."""

    @property
    def hosted(self) -> HostedPartitions:
        """The partitions that it hosts, opened and deleted here."""

    @property
    def links(self) -> LinkMaking:
        """Makes links to other nodes."""

    @property
    def mount(self) -> Mount:
        """The bucket that it serves for reading, if it does."""

    @property
    def quorum(self) -> Quorum:
        """Its part in the metadata quorum."""

    @property
    def quotas(self) -> Quotas:
        """The quotas of its clients."""

    @property
    def registration_marks(self) -> RegistrationMarks:
        """The notes of this start for its next one."""

    def data_lost(self) -> None:
        """Replicas of it lack what they had."""

    @property
    def removals(self) -> BackgroundRemoval:
        """Removes files of deleted segments and partitions."""

    @property
    def unreadable(self) -> UnreadableSettings:
        """The settings of its image that this release cannot read."""

    @property
    def tier_watch(self) -> TierWatch:
        """The looks at every partition for those who watch."""

    @property
    def tick(self) -> Tick:
        """Work done once per turn of its event loop."""


def new_server(broker: BrokerParts) -> Server:
    """The listeners of its clients. To be called inside the running loop."""
    return Server(
        broker.config.listeners,
        broker.dispatcher.dispatch,
        clock=broker.clock,
        metrics=broker.metrics,
        limits=server_limits(broker.config),
        tick=broker.tick,
        inter_broker_listener=broker.config.roles.inter_broker_listener,
    )


def new_cluster(
    broker: BrokerParts,
    opened: NodeQuorum,
    half: BrokerHalf,
    before: Callable[[ClusterImage, Sequence[Message]], None],
    *,
    resolver: Callable[[ClusterImage], ConfigResolver],
    on_failed: Callable[[], None],
) -> NodeCluster:
    """The cluster of a broker: its own, or the one whose nodes its settings name.

    ``before`` is called before records are written, where this broker is the whole cluster.
    """
    config, slices = broker.config, broker.dispatcher.slices
    add_raft_metrics(broker.metrics, opened.quorum, broker.clock)
    add_applied_metrics(broker.metrics, opened.quorum.publisher, broker.clock)
    opened.unreadable.add_metrics(broker.metrics)
    if not config.roles.has_peers:
        in_slices = partial(slices.run, urgent=True)  # one command at a time, others wait for its end
        activate = opened.activation(config.static)
        control = ControlPlane(opened.quorum, activate=activate, before=before, in_slices=in_slices, aside=slices.run)
        return _measured(broker.metrics, OwnCluster(opened, half, control, resolver=resolver))
    from stratalog.broker.controller_role import ControllerRole  # noqa: PLC0415
    from stratalog.broker.joined_cluster import JoinedCluster  # noqa: PLC0415 - a node of one starts without them

    controller = None
    if config.roles.is_controller:
        controller = ControllerRole(config, opened, metrics=broker.metrics, tick=broker.tick)
    joined = JoinedCluster(
        opened,
        half,
        config.roles,
        controller,
        resolver=resolver,
        new_incarnation=partial(os.urandom, _UUID_BYTES),
        on_failed=on_failed,
    )
    return _measured(broker.metrics, joined)


def _measured(metrics: Metrics, cluster: NodeCluster) -> NodeCluster:
    """The cluster, with the state of its broker among the figures."""
    metrics.add_gauge(
        "kafka_server_kafkaserver_brokerstate",
        "kafka.server:type=KafkaServer,name=BrokerState: 1 starting, 2 recovery or fenced, 3 running, 6 controlled "
        "shutdown, 7 shutting down.",
        lambda: [({}, cluster.broker_state)],
    )
    return cluster


def hosted_services(
    broker: BrokerParts,
    *,
    on_led: Callable[[UnifiedLog, Led], None],
    on_released: Callable[[UnifiedLog], None],
) -> HostedServices:
    """The parts of a broker that the partitions it hosts use; ``on_led`` and ``on_released`` hear which these are."""
    return HostedServices(
        node_id=broker.node_id,
        image=lambda: broker.image,
        directories=broker.directories,
        clock=broker.clock,
        metrics=broker.metrics,
        purgatory=broker.purgatory,
        dice=broker.dice,
        rework=broker.deep_work.rework,
        copying=broker.replication,
        segments_open_max=segments_open_max(),
        on_led=on_led,
        on_released=on_released,
        in_contact=lambda: broker.cluster.membership is None or broker.cluster.membership.lifecycle.in_contact,
        on_unsynced=broker.registration_marks.may_lose,
        on_data_lost=broker.data_lost,
        placements=broker.cluster.placements,
    )


def new_replication(broker: BrokerParts, cluster: NodeCluster) -> Replication | None:
    """The copies that a broker makes of others' partitions, if there are other brokers."""
    membership = cluster.membership
    if membership is None:
        return None
    from stratalog.broker.peers.broker_links import BrokerLinks  # noqa: PLC0415 - a broker by itself copies nothing
    from stratalog.broker.replication.in_sync_asking import InSyncAsks  # noqa: PLC0415
    from stratalog.broker.replication.leader_ends import LeaderEnds  # noqa: PLC0415
    from stratalog.broker.replication.replication import Replication, ReplicationServices  # noqa: PLC0415

    monotonic, draw = broker.clock.monotonic, broker.dice.random
    asking = InSyncAsks(
        membership.channel("alter-partition"),
        node_id=broker.node_id,
        broker_epoch=lambda: membership.lifecycle.broker_epoch,
        leader_epoch=lambda: broker.quorum.leader.epoch,
        image=lambda: broker.image,
        monotonic=monotonic,
        draw=draw,
    )
    links = partial(BrokerLinks, lambda: broker.image, listener=broker.config.roles.inter_broker_listener)
    leader_ends = LeaderEnds(
        links(new_link=broker.links.link_to("leader-ends")),
        image=lambda: broker.image,
        local_id=broker.node_id,
        timeout_ms=lambda: broker.config.integer("request.timeout.ms"),
    )
    services = ReplicationServices(
        config=lambda: broker.config,
        links=links(new_link=broker.links.link_to("replica-fetcher")),
        leader_ends=leader_ends,
        asking=asking,
        broker_epoch=lambda: membership.lifecycle.broker_epoch,
        monotonic=monotonic,
        draw=draw,
        leader_throttle=_throttle(broker, ThrottledSide.LEADER),
        follower_throttle=_throttle(broker, ThrottledSide.FOLLOWER),
        archive=_archive_access(broker) if broker.config.tiering_enabled else None,
    )
    replication = Replication(services)
    membership.lifecycle.on_registered(replication.registered)
    return replication


def _archive_access(broker: BrokerParts) -> ArchiveAccess:
    from stratalog.broker.replication.tier_start import ArchiveAccess  # noqa: PLC0415

    return ArchiveAccess(broker.tiering.submit, lambda: broker.image.incarnation)


def _throttle(broker: BrokerParts, side: ThrottledSide) -> ReplicationThrottle:
    return ReplicationThrottle(side, config=lambda: broker.config, image=lambda: broker.image)


def new_following(
    broker: BrokerParts,
    follow_settings: Callable[[ClusterImage], None],
    note_deletions: Callable[[ClusterImage, ImageChange], None],
) -> ImageFollowing:
    """The parts of a broker that follow the images of its cluster."""
    return ImageFollowing(
        FollowingServices(
            node_id=broker.node_id,
            has_peers=broker.config.roles.has_peers,
            hosted=broker.hosted,
            slices=broker.dispatcher.slices,
            image=lambda: broker.image,
            follow_quotas=lambda image: broker.quotas.follow(image.quotas),
            follow_settings=follow_settings,
            is_mounted=broker.mount.holds,
            note_deletions=note_deletions,
            topics_deleted=broker.deleted_archives.confirm,
            topics_changed=partial(_topics_changed, broker),
        )
    )


def _topics_changed(broker: BrokerParts, image: ClusterImage, removed: Mapping[Uuid, str]) -> None:
    broker.coordinators.topics_changed(image, removed)
    if broker.replication is not None:
        broker.replication.image_applied()


def new_mount(broker: BrokerParts) -> Mount:
    """The topics of a bucket that is served for reading."""
    services = MountServices(
        config=broker.config,
        clock=broker.clock,
        metrics=broker.metrics,
        image=lambda: broker.image,
        write=broker.control.write,
        partitions=broker.partitions,
        submit=broker.tiering.submit,
        chunks=broker.tiering.chunks,
        wake=broker.purgatory.check,
    )
    return Mount(services)


def new_views(broker: BrokerParts) -> Views:
    """Topics as they were."""
    services = ViewServices(
        node_id=broker.node_id,
        clock=broker.clock,
        image=lambda: broker.image,
        partitions=broker.partitions,
        submit=broker.tiering.submit,
        chunks=broker.tiering.chunks,
        search=broker.deep_work.search,
        wake=broker.purgatory.check,
        leaders=None if broker.replication is None else broker.replication.leader_ends,
    )
    return Views(services)


def new_coordinators(broker: BrokerParts) -> Coordinators:
    """The coordinators of groups and transactions."""
    topics = TopicMaking(
        config=lambda: broker.config,
        image=lambda: broker.image,
        control=broker.control,
        rules=broker.topic_rules,
        new_topic_id=broker.new_topic_id,
        random_int=broker.random_int,
        forwarding=lambda: broker.dispatcher.forwarding,
    )
    services = CoordinatorServices(
        config=lambda: broker.config,
        clock=broker.clock,
        tick=broker.tick,
        metrics=broker.metrics,
        image=lambda: broker.image,
        partitions=broker.partitions,
        producer_ids=broker.producer_ids,
        topics=topics,
        remote=_remote_transactions(broker),
    )
    return Coordinators(services)


def _remote_transactions(broker: BrokerParts) -> RemoteTransactions | None:
    if not broker.config.roles.has_peers:
        return None
    from stratalog.broker.coordinators.remote_transactions import (  # noqa: PLC0415 - a broker by itself has no others
        RemoteTransactions,
    )

    return RemoteTransactions(broker.config, broker.links, lambda: broker.image)


def new_housekeeping(broker: BrokerParts) -> Housekeeping:
    """The timers of a broker."""
    copies = GroupCopyServices(
        cluster_id=broker.cluster_id,
        config=lambda: broker.config,
        clock=broker.clock,
        image=lambda: broker.image,
        shards=broker.groups.shards,
        submit=broker.tiering.submit,
    )
    services = HousekeepingServices(
        config=broker.config,
        clock=broker.clock,
        image=lambda: broker.image,
        directories=broker.directories,
        hosted=broker.hosted,
        metadata=broker.quorum.replica,
        tiering=broker.tiering,
        removals=broker.removals,
        slices=broker.dispatcher.slices,
        report_corruption=broker.report_corruption,
        watch_transactions=broker.coordinators.late.look,
        trim=None if broker.replication is None else broker.replication.trim,
    )
    return Housekeeping(services, GroupCopies(copies))


def new_compaction(broker: BrokerParts) -> Compaction:
    """The cleaner of compacted topics."""
    services = CleanerServices(
        config=lambda: broker.config,
        clock=broker.clock,
        metrics=broker.metrics,
        directories=broker.directories,
        partitions=broker.partitions,
        slices=broker.dispatcher.slices,
    )
    return Compaction(services)
