"""One broker: everything is built here, in the order in which it may be used, and taken down in reverse."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from stratalog.broker import api, archive_assembly, assembly, decision_rules, http_assembly
from stratalog.broker.api.broker_view import BrokerView
from stratalog.broker.api.quorum_changes import QUORUM_CHANGE_APIS
from stratalog.broker.archive.deleted_archives import DeletedArchives, note_deletions
from stratalog.broker.archive.tiering import Tiering
from stratalog.broker.control.control_plane import ControlPlane, new_topic_id
from stratalog.broker.control.dynamic_config import effective_config
from stratalog.broker.control.metadata_fragments import MetadataFragments
from stratalog.broker.control.producer_ids import ProducerIds
from stratalog.broker.coordinators.groups import GroupCoordinator
from stratalog.broker.coordinators.transactions import TransactionCoordinator
from stratalog.broker.fetches.fetch_sessions import FetchSessions
from stratalog.broker.http.connections import http_limits
from stratalog.broker.http.listener import HttpListener
from stratalog.broker.http.topic_figures import TopicFigures
from stratalog.broker.joinable import joinable
from stratalog.broker.lifecycle.registration_marks import RegistrationMarks
from stratalog.broker.metadata_place import own_directories
from stratalog.broker.move_assembly import new_moves, report_failed
from stratalog.broker.network.limits import server_limits
from stratalog.broker.network.server import Server, told_listeners
from stratalog.broker.node_cluster import BrokerHalf, NodeCluster
from stratalog.broker.node_quorum import QuorumServices, open_node_quorum
from stratalog.broker.node_start import start_or_abandon
from stratalog.broker.replicas.background_removal import BackgroundRemoval
from stratalog.broker.replicas.directories import Directories
from stratalog.broker.replicas.directory_figures import add_directory_figures
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.hosted_partitions import HostedPartitions
from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.replication.metrics import add_replica_figures
from stratalog.broker.requests.authorizer import authorizer_of
from stratalog.broker.requests.dispatch import Dispatcher
from stratalog.broker.requests.quotas import Quotas
from stratalog.broker.runtime.allocator import tune_allocator
from stratalog.broker.runtime.ballast import Spare
from stratalog.broker.runtime.clock import Clock, SystemClock
from stratalog.broker.runtime.log_limits import LogLimits
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.purgatory import Purgatory
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.config import BrokerConfig, ConfigRefused
from stratalog.broker.shortcuts.table import with_shortcuts
from stratalog.broker.views.mount import Mount
from stratalog.broker.workers.deep_work import DeepWork
from stratalog.broker.workers.metrics import add_worker_metrics
from stratalog.broker.workers.spawner import spawner_of
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.hot.storage.filesystem import Filesystem, RealFilesystem
from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.controller.controller import ConfigRules, TopicRules
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.errors import Corrupt
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = ["Node"]

_UUID_BYTES: Final = 16
_SYNC_THREADS: Final = 4
_HOT_KEYS: Final = (0, 1, 3)
_HAND_OVER_MS: Final = 5000
"""A stop waits so long for another voter to take the metadata log over."""
_LEAVE_MS: Final = 10_000
"""A stop waits so long for the controller to move what this broker leads."""
_LOG_OBJECTS: Final = 50
"""Counted; with two for the partition in the image."""

log = logging.getLogger(__name__)


class Node:
    """A broker and the controller of its own cluster. Handlers know it as ``context.broker``."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Filesystem | None = None,
        dice: random.Random | None = None,
    ) -> None:
        if not config.roles.is_broker:
            raise ConfigRefused(["process.roles=controller is for a controller's process, and this is a broker's"])
        self.config = self._given = config = joinable(config)
        self.node_id = config.node_id
        self.clock: Clock = SystemClock() if clock is None else clock
        self.metrics = Metrics()
        TopicFigures(self.metrics, lambda: self.tiering.archives, lambda: self.mount)
        self.metadata_fragments = MetadataFragments()
        self._files: Filesystem = RealFilesystem() if files is None else files
        self.dice = random.SystemRandom() if dice is None else dice
        self._incarnation_id = os.urandom(_UUID_BYTES)
        self._sync_threads = spawner_of(asyncio.get_running_loop()).threads(_SYNC_THREADS, "sync")
        self.failed: asyncio.Event = asyncio.Event()
        """Set when the last log directory has failed: the process has nothing left to serve."""
        self.http = HttpListener(partial(http_assembly.new_http_server, self), self.failed.set, http_limits(config))
        self.http.connections.add_figures(self.metrics)
        self.log_limits = LogLimits(self.clock.monotonic)
        self.control: ControlPlane
        self.producer_ids: ProducerIds

    new_topic_id = staticmethod(new_topic_id)

    # -- starting -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover what the last stop left, register, lead, and let clients in.

        Raises `Invalid` for directories that are not this broker's, `Corrupt` for metadata that cannot be read,
        `OSError` for ports and disks; then everything is let go of, and the files are as a kill would leave them.
        """
        self.log_limits.install(self.metrics)
        await start_or_abandon(self._start, self._abandon, self.failed)

    async def _start(self) -> None:
        tune_allocator()
        loop = asyncio.get_running_loop()
        self.tick = Tick(loop)
        self.purgatory = Purgatory(loop, self.clock)
        self.fetch_sessions = FetchSessions(self.config, self.clock, self.random_int, self.metrics)
        self.directories = Directories.open(
            own_directories(self.config, self._files),
            files=self._files,
            node_id=self.node_id,
            loop=loop,
            tick=self.tick,
            sync_threads=self._sync_threads,
            on_failed=self._directory_failed,
            metadata_dir=self.config.metadata_log_dir,
            metadata_only=self.config.metadata_only_dir,
            spare=Spare(self.config.cache_dir, self.config.integer("stratalog.ballast.bytes")),
            may_format=not self.config.roles.has_peers,
        )
        self.cluster_id = self.directories.cluster_id
        self.dispatcher = self._dispatcher()
        self.server: Server = assembly.new_server(self)
        self.quotas = Quotas(self.config, self.clock, self.metrics, self.server)
        await self.server.bind()
        self.http_address = await self.http.bind(self.config.http_host, self.config.http_port)
        self.deep_work = DeepWork.in_process(loop)
        self.tiering: Tiering = archive_assembly.new_tiering(self)
        await self._join_cluster()
        self.replication = assembly.new_replication(self, self.cluster)
        services = assembly.hosted_services(self, on_led=self._on_led, on_released=self._on_released)
        self.hosted = HostedPartitions(services, self._resolver)
        add_directory_figures(self.metrics, self.directories.all)
        add_replica_figures(self.metrics, self.hosted.table, self.replication, self.clock, lambda: self.image)
        self.mount: Mount = assembly.new_mount(self)
        self.views = assembly.new_views(self)
        self.coordinators = assembly.new_coordinators(self)
        self._follow_settings(self.image)
        self.tier_watch = http_assembly.new_tier_watch(self)
        await self.tiering.gate.look_at_start()
        self.following = assembly.new_following(
            self, self._follow_settings, archive_assembly.deletion_notes(self, self._is_archived)
        )
        await self.cluster.enter(self.following.applied, self.following.started)
        self.deleted_archives.start(self.image.topics.by_id)
        if self.cluster.forwarding is None:
            await self.tiering.begin_producer_era()
        await self.directories.recovered()  # what an unclean stop left is served from the disk, not from the page cache
        self.directories.verified()
        await self.mount.start()
        self.dispatcher.compile(_HOT_KEYS)
        self.removals = BackgroundRemoval(loop)
        self.housekeeping = assembly.new_housekeeping(self)
        self.housekeeping.start()
        self.compaction = assembly.new_compaction(self)
        add_worker_metrics(self.metrics, self.tiering, self.deep_work, self.compaction)
        self.compaction.start()
        self.moves = new_moves(self)
        await self.server.accept()
        self.http.serve()
        log.info("broker %d of cluster %s serves %d partitions", self.node_id, self.cluster_id, len(self.hosted.table))

    async def _abandon(self) -> None:
        """The start failed half-way: give back ports, workers, threads and locks."""
        built = vars(self)
        if "quorum" in built:
            self.quorum.close()
        if "server" in built:
            await self.server.close(grace_seconds=0)
        for name in {"cluster", "deleted_archives", "mount", "tiering"} & built.keys():
            await built[name].close()
        for name in {"following", "coordinators", "removals", "replication"} & built.keys():
            if built[name] is not None:
                built[name].close()
        if "housekeeping" in built:
            self.housekeeping.stop()
        for name in {"deep_work", "compaction", "moves"} & built.keys():
            await built[name].close()
        await self.http.close()
        self.log_limits.remove()
        self._sync_threads.shutdown(wait=True)
        if "directories" in built:
            self.directories.release(untouched="quorum" not in built)

    def _dispatcher(self) -> Dispatcher[BrokerView]:
        authorizer = authorizer_of(self.config, lambda: self.image.acls)
        monotonic = self.clock.monotonic
        served = (*api.BROKER_APIS, *QUORUM_CHANGE_APIS) if self.config.roles.has_peers else api.BROKER_APIS
        apis = with_shortcuts(served) if self.config.boolean("stratalog.request.shortcuts") else served
        return Dispatcher[BrokerView](self, apis, metrics=self.metrics, monotonic=monotonic, authorizer=authorizer)

    async def _join_cluster(self) -> None:
        """Open the metadata log, take part in its quorum, and come to an image to begin with."""
        self.deleted_archives: DeletedArchives = archive_assembly.new_deleted_archives(self)
        in_slices = partial(self.dispatcher.slices.run, urgent=True)  # one command at a time, others wait for its end
        opened = open_node_quorum(
            QuorumServices(
                config=self.config,
                directories=self.directories,
                files=self._files,
                clock=self.clock,
                dice=self.dice,
                threads=self._sync_threads,
                in_slices=in_slices,
                on_failed=self.failed.set,
            )
        )
        self.quorum, self.links, self.unreadable = opened.quorum, opened.links, opened.unreadable
        self.registration_marks = RegistrationMarks(self.directories)
        half = BrokerHalf(
            node_id=self.node_id,
            incarnation_id=self._incarnation_id,
            rack=self.config.rack,
            listeners=told_listeners(self.config.advertised_listeners, self.server.addresses),
            directories=self.registration_marks.directories,
            previous_broker_epoch=self.registration_marks.previous_broker_epoch(),
            on_registration_lost=self._registration_lost,
            on_registered=self.registration_marks.registered,
            on_caught_up_again=self._caught_up_again,
        )
        self.cluster: NodeCluster = assembly.new_cluster(
            self, opened, half, self._before_records, resolver=self._resolver, on_failed=self.failed.set
        )
        self.control, self.producer_ids = self.cluster.control, self.cluster.producer_ids
        if self.cluster.forwarding is not None:
            self.dispatcher.forward_by(self.cluster.forwarding)
        await self.cluster.join()

    def _registration_lost(self) -> None:
        if "following" in vars(self):  # else it leads nothing yet
            self.following.registration_lost()

    def _before_records(self, image: ClusterImage, records: Sequence[Message]) -> None:
        note_deletions(self.deleted_archives, self._is_archived, self.node_id, image, records)

    def data_lost(self) -> None:
        """A replica lacks records that it had: the controller hears of it before this broker is elected."""
        if self.cluster.membership is not None:
            self.registration_marks.data_lost()  # it may end before the controller hears of it
            self.cluster.membership.lifecycle.data_lost()

    def _caught_up_again(self) -> None:
        if "following" in vars(self):
            self.following.caught_up_again()

    # -- following the image --------------------------------------------------------------------------------------

    def _follow_settings(self, image: ClusterImage) -> None:
        """Put the settings of the image in force: for new connections, new uploads, and all later readers of them."""
        self.config = self.tiering.config = effective_config(self._given, image, self.config)
        self.server.limits = server_limits(self.config)
        self.groups.follow_settings(self.config)

    def _is_archived(self, topic: str, topic_id: Uuid) -> bool:
        # Its controller may be active before the broker has opened partitions.
        return "hosted" in vars(self) and self.partitions.is_archived(topic, topic_id)

    def _resolver(self, image: ClusterImage) -> ConfigResolver:
        return ConfigResolver.for_topics(
            self.config.static,
            image.configs.of(ConfigResource.broker(self.node_id)),
            image.configs.of(CLUSTER_DEFAULT),
        )

    def _on_led(self, unified: UnifiedLog, led: Led) -> None:
        leader = unified.partition.leader
        if led is not Led.RECONFIGURED and leader is not None:
            self.fetch_sessions.followers.expect(leader.state.replicas[1:])
        self.coordinators.led(unified)
        self.tiering.attach(unified, led)
        self.tiering.projections.topic_changed(unified.topic_partition.topic)

    def _on_released(self, unified: UnifiedLog) -> None:
        self.coordinators.released(unified)
        self.tiering.detach(unified)

    # -- what handlers ask ------------------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self.control.image

    @property
    def partitions(self) -> PartitionTable:
        """The partitions led here."""
        return self.hosted.table

    @property
    def kafka_address(self) -> tuple[str, int]:
        """Where the first listener is bound."""
        return self.server.addresses[self.config.listeners[0].name]

    def cluster_view(self, image: ClusterImage) -> ClusterView:
        """The view of a decision about partitions."""
        return self.cluster.cluster_view(image)

    def topic_rules(self) -> TopicRules:
        """The rules that new topics must keep."""
        return decision_rules.topic_rules(self.config, self._resolver(self.image))

    def config_rules(self) -> ConfigRules:
        """The rules that new settings must keep."""
        return decision_rules.config_rules(self.config, self._resolver(self.image))

    def random_int(self, bound: int) -> int:
        """A number in ``[0, bound)``."""
        return self.dice.randrange(bound)

    def report_corruption(self, unified: UnifiedLog, error: Corrupt) -> None:
        """Stored bytes failed their check while being read; what is damaged of a frozen segment is not read again."""
        if isinstance(error, UnreadableBatch):
            with suppress(Corrupt):
                unified.missing_after(error)
                return
        log.error("%s: stored records are damaged, the range is not served: %s", unified.topic_partition, error)

    # -- ending -----------------------------------------------------------------------------------------------------

    def _directory_failed(self, writer: DirectoryWriter, error: OSError) -> None:
        directory = self.directories.of(writer)
        try:
            directory.files.mark_offline(str(error))
        except OSError as second:
            log.warning("%s could not be marked offline; the next start may not verify it: %s", writer.path, second)
        if not self.directories.with_topics or writer.path == self.config.metadata_log_dir:
            log.critical("no log directory is left that this broker could work with; it ends")
            self.failed.set()
            return
        if "hosted" in vars(self):
            self.hosted.directory_failed(writer)
        report_failed(self, directory)

    async def stop(self) -> None:
        """Answer what is being answered, let go of the archive, close every log and mark the stop as clean."""
        if self.cluster is not None:
            await self.cluster.leave(_LEAVE_MS)
        self.tier_watch.close()
        self.purgatory.drain()
        self.coordinators.drain()
        self.following.close()
        await self.server.close()
        self.coordinators.close()
        await self.dispatcher.close()
        self.purgatory.cancel_all()
        self.housekeeping.stop()
        if self.replication is not None:
            self.replication.close()
        await self.moves.close()
        await self.compaction.close()
        self.removals.close()
        await self.mount.close()
        await self.deleted_archives.close()
        await self.tiering.close()
        await self.deep_work.close()
        await self.http.close()
        self.log_limits.remove()
        await self.quorum.stop(timeout_ms=_HAND_OVER_MS)
        if self.cluster is not None:
            await self.cluster.close()
        await self.directories.settle()
        partitions = [unified.partition for unified in self.hosted.table]
        for partition in partitions:
            partition.close()
        self.directories.close(
            [*partitions, self.quorum.replica],
            broker_epoch=self.registration_marks.epoch_at_stop(),
            sync_threads=self._sync_threads,
        )
        self._sync_threads.shutdown(wait=True)

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions."""
        return self.coordinators.transactions

    @property
    def lasting_objects(self) -> int:
        """The Python objects that stay, about, of rules, partitions and logs."""
        return self.image.lasting_objects + _LOG_OBJECTS * len(self.hosted.table)

    def not_ready(self) -> list[str]:
        """Why the broker should get no traffic, a sentence each (``/readyz``)."""
        return http_assembly.not_ready(self)
