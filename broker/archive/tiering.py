"""The archive side of a broker: one `Archive` per tiered partition it leads, one ``io`` worker, one chunk cache."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Generator
from typing import Final, NamedTuple

from stratalog.broker.archive.bucket_gate import BucketGate, GatePorts
from stratalog.broker.archive.bucket_health import BucketHealth, BucketState, Resumption, ResumptionPorts
from stratalog.broker.archive.checkpoints import ArchiveCheckpoints
from stratalog.broker.archive.comparisons import ComparisonPorts, Comparisons
from stratalog.broker.archive.merging import Merging
from stratalog.broker.archive.metrics import add_tier_metrics
from stratalog.broker.archive.partition_archive import Archive
from stratalog.broker.archive.problems import add_problem_metrics, archive_problems, bucket_problems
from stratalog.broker.archive.projections import Projections
from stratalog.broker.archive.removal import RemovalSettings, may_have_archive
from stratalog.broker.archive.retention import has_files_below_start, planned_log_start, reporting_disk
from stratalog.broker.archive.timelines import ControllerPorts, Timelines, TransactionPorts
from stratalog.broker.archive.upload_gate import UploadGate
from stratalog.broker.cold.cold_reads import open_cold_reads
from stratalog.broker.cold.manifest_views import RemoteViews
from stratalog.broker.cold.own_part import own_part
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.directories import Directories
from stratalog.broker.replicas.directory_writer import nothing_gives_way
from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics, TopicMetrics
from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.workers.io_process import io_workers
from stratalog.broker.workers.io_worker import Executed, RatedUpload, unanswered_seconds
from stratalog.broker.workers.spawner import spawner_of
from stratalog.broker.workers.watch import WorkerState
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.tier.planning.plan import PlanSettings
from stratalog.tier.stores.backoff import BackoffSettings
from stratalog.wire.errors import Retriable

__all__ = ["ArchiveFigures", "Tiering"]

_READS: Final = (
    commands.FillChunks,
    commands.FindTimestamp,
    commands.FindLargestTimestamp,
    commands.ReadFooter,
    commands.ReadAborted,
    commands.ReadManifest,
)

log = logging.getLogger(__name__)


class ArchiveFigures(NamedTuple):
    """One partition's archive as ``tier status`` shows it; None: a new leader has not read it yet."""

    end_offset: int | None = 0
    size_bytes: int | None = 0
    object_count: int | None = 0
    state: str = "local"


class Tiering:
    """Attached to partitions as they are led; detached before their logs go."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        metrics: Metrics,
        dice: random.Random,
        directories: Directories,
        incarnation: Callable[[], int],
        controller: ControllerPorts,
        transactions: TransactionPorts,
        topic_written: Callable[[UnifiedLog], commands.WriteProjection],
        wake_reader: Callable[[object], object],
    ) -> None:
        self.config = config
        self._clock = clock
        self._metrics, self._dice = metrics, dice
        self._directories = directories
        self._incarnation = incarnation
        self._checkpoints = ArchiveCheckpoints(directories)
        self._controller, self._timelines = controller, Timelines(controller)
        self.gate, self.health = BucketGate(self._gate_ports()), BucketHealth()
        self._io = io_workers(config, asyncio.get_running_loop())
        self._resumption = Resumption(self._resumption_ports())
        self.uploads = UploadGate(self.submit)
        self._removing = spawner_of(asyncio.get_running_loop()).threads(1, "cache-removal")
        self.chunks = open_cold_reads(
            lambda: self.config,
            submit=self.submit,
            now_ms=self._elapsed_ms,
            wake_reader=wake_reader,
            aside=self._removing,
            metrics=metrics,
        )
        for directory in directories.all:
            directory.writer.on_full = self.chunks.give_way
        self._archives: dict[UnifiedLog, Archive] = {}
        self._remotes: dict[UnifiedLog, RemotePartition] = {}
        self._views = RemoteViews()
        self._comparisons = self._new_comparisons(transactions)
        described = directories.cluster_id, incarnation, topic_written
        self.projections = Projections(self.submit, *described, self._elapsed_ms)
        self._moved: dict[UnifiedLog, None] = {}
        self._requests: Counter[str] = Counter()
        self._border_reads = self._refused_claims = 0
        self._merging = Merging(
            lambda: self.config,
            cluster_id=directories.cluster_id,
            submit=self.submit,
            now_ms=clock.wall_ms,
            elapsed_ms=self._elapsed_ms,
        )
        add_tier_metrics(
            metrics,
            self._requests,
            border_reads=lambda: self._border_reads + sum(one.border_reads for one in self._remotes.values()),
            merged_objects=lambda: self._merging.merged_objects,
            refused_claims=lambda: self._refused_claims,
        )
        add_problem_metrics(metrics, self._archives.values(), lambda: self.bucket_state, self._clock)

    def _new_comparisons(self, transactions: TransactionPorts) -> Comparisons:
        ports = ComparisonPorts(
            submit=self.submit,
            gate=self.gate,
            checkpoints=self._checkpoints,
            timelines=self._timelines,
            transactions=transactions,
            archives=self._archives,
            renew=self._renew,
            cluster_id=self._directories.cluster_id,
            now_ms=self._clock.wall_ms,
            later=asyncio.get_running_loop().call_later,
        )
        return Comparisons(ports)

    def _elapsed_ms(self) -> int:
        """Time for whatever waits or is remembered for a while: the wall clock may jump."""
        return int(self._clock.monotonic() * 1000)

    def _gate_ports(self) -> GatePorts:
        directories, read_only = self._directories, self.config.boolean("stratalog.read.only")
        home = next(one for one in directories.all if one.path == self.config.metadata_log_dir)
        return GatePorts(
            submit=self._submit,
            files=home.files.files,
            directory=home.path,
            url=self.config.bucket_url,
            cluster_id=directories.cluster_id,
            node_id=directories.node_id,
            incarnation=lambda: -1 if read_only else self._incarnation(),
            archives_known=self._checkpoints.archives_known,
            in_contact=self._controller.in_contact,
            second_timeline=lambda why: self._comparisons.second_timeline(why),  # noqa: PLW0108 - made later
            now_ms=self._clock.wall_ms,
            elapsed_ms=self._elapsed_ms,
        )

    def _resumption_ports(self) -> ResumptionPorts:
        return ResumptionPorts(
            in_contact=self._controller.in_contact,
            is_failing=lambda: self.health.failing_since_ms is not None,
            looked=lambda: self.health.looked(self._clock.wall_ms()),
            submit=self._io.submit,
            command=self.gate.command,
        )

    async def begin_producer_era(self) -> None:
        """Skip the producer ids that archives may know; call it before clients are served."""
        if self.config.tiering_enabled:
            await self._timelines.begin_producer_era()

    def submit(self, command: commands.Command, answered: Callable[[commands.Report], None]) -> None:
        """Send a command to the ``io`` worker, if the bucket is the right one."""
        self.gate.submit(command, answered)

    def _submit(self, command: commands.Command, answered: Callable[[commands.Report], None]) -> None:
        topic, asked_ms = self._topic_metrics(command), self._clock.wall_ms()

        def done(executed: Executed | None, error: Exception | None) -> None:
            if executed is None:
                executed = Executed(commands.FailedReport(str(error), retriable=isinstance(error, Retriable)))
            is_look = isinstance(command, commands.LookAtBucket)
            self.health.note(executed.report, self._clock.wall_ms(), asked_ms=asked_ms, is_look=is_look)
            self._requests.update(executed.requests)
            self._refused_claims += isinstance(executed.report, commands.FencedReport)
            if error is None and topic is not None and isinstance(command, _READS):
                topic.remote_fetch_requests += 1
                topic.remote_fetch_bytes += executed.received_bytes
            answered(executed.report)

        try:
            self._io.submit(self._rated(command), done)
        except Retriable as error:  # the broker is closing: the answer must still come later, never inside the call
            asyncio.get_running_loop().call_soon(answered, commands.FailedReport(str(error), retriable=True))

    def _rated(self, command: commands.Command) -> commands.Command | RatedUpload:
        if not isinstance(command, commands.Upload | commands.MergeObjects):
            return command
        return RatedUpload(command, self.config.integer("remote.log.manager.copy.max.bytes.per.second"))

    def _topic_metrics(self, command: commands.Command) -> TopicMetrics | None:
        partition = getattr(command, "partition", None)
        return None if partition is None else self._metrics.topics.get(partition.topic)

    # -- partitions -----------------------------------------------------------------------------------------------

    def attach(self, unified: UnifiedLog, led: Led) -> None:
        """Attach a partition that is led, or take its changed settings or leader epoch."""
        archive = self._archives.get(unified)
        if archive is not None:
            if led is Led.RECONFIGURED:
                archive.configured()
            elif led is Led.UNCLEAN:
                self._comparisons.forget(unified)  # it has read what was archived before others led
                self._comparisons.begin(self._renew(unified), None, led)
            elif unified not in self._comparisons.running:  # otherwise the first look after the comparison does it
                self._renew(unified)
            return
        state = self._checkpoints.state_of(unified)
        if not self.config.tiering_enabled or not (state or may_have_archive(unified.log)):
            return
        if led is Led.TAKEN_OVER:
            state = None  # of an earlier leadership, if there is one
        if led is Led.CREATED:
            state = RemoteLogState(unified.log.first_base_offset, unified.log.first_base_offset, 0)
        if state and state.remote_bytes:
            self._io.begin()  # a reader may be using it
        remote = RemotePartition(
            _partition_id(unified),
            submit=self.submit,
            chunks=self.chunks,
            metrics=unified.metrics,
            wake=unified.partition.wake,
            now_ms=self._elapsed_ms,
            checkpoint=state,
            views=self._views,
            own=own_part(self._incarnation(), lambda: unified.log),
        )
        self._remotes[unified] = unified.remote = remote
        archive = self._archives[unified] = self._new_archive(unified, remote)
        self._comparisons.begin(archive, state, led)

    def _renew(self, unified: UnifiedLog) -> Archive:
        """Begin a new archive for a higher leader epoch, under a claim of its own."""
        self._archives[unified].close()
        archive = self._archives[unified] = self._new_archive(unified, self._archives[unified].remote)
        return archive

    def _new_archive(self, unified: UnifiedLog, remote: RemotePartition) -> Archive:
        claimant = Claimant(
            self._incarnation(), unified.partition.leader_epoch, self.gate.start_uuid, self._directories.node_id
        )
        return Archive(
            unified,
            remote,
            claimant=claimant,
            cluster_id=self._directories.cluster_id,
            submit=self.uploads,
            now_ms=self._clock.wall_ms,
            elapsed_ms=self._elapsed_ms,
            dice=self._dice,
            settings=PlanSettings(
                backoff=BackoffSettings(
                    self.config.integer("remote.log.manager.task.retry.backoff.ms"),
                    self.config.integer("remote.log.manager.task.retry.backoff.max.ms"),
                )
            ),
            removal=RemovalSettings.of(lambda: self.config),
            keep_log_start=self._checkpoints.keep_log_start,
            keep_remote_end=self.checkpoint,
            made=lambda: self.gate.made,
            compare=lambda archive, why, certain: self._comparisons.compare(archive, why, hold=certain),
        )

    def detach(self, unified: UnifiedLog) -> None:
        """Detach a partition that is no longer led."""
        if (archive := self._archives.pop(unified, None)) is not None:
            archive.close()
            self.uploads.end(_partition_id(unified), archive.claimant.leader_epoch)
        if (remote := self._remotes.pop(unified, None)) is not None:
            remote.end_reads()
            self._merging.forget(remote)
            self._border_reads += remote.border_reads
        self._comparisons.forget(unified)
        self._moved.pop(unified, None)  # of a deleted topic, perhaps, which may be made again in the same place
        unified.remote = None

    def tick(self) -> None:
        """Look whether requests that failed may succeed now; called a few times a second."""
        self._resumption.look(self._elapsed_ms())

    def look(self, unified: UnifiedLog) -> None:
        """Look for news of a partition; called a few times a second."""
        archive = self._archives.get(unified)
        if archive is None or unified in self._comparisons.running:
            return
        if archive.claimant.leader_epoch != unified.partition.leader_epoch:  # it rose during a comparison
            archive = self._renew(unified)
        if unified.log.log_end_offset > unified.log.first_base_offset:
            self._io.begin()  # its start may take seconds: the first upload does not wait for it
        with reporting_disk(unified):
            archive.look(self._resumption.count)
        if archive.state == "held":
            self.projections.write(unified)

    # -- retention and checkpoints ----------------------------------------------------------------------------------

    def retain(self, unified: UnifiedLog, now_ms: int) -> None:
        """Move the log start of a tiered topic by its retention, then apply local retention. Raises `OSError`, `Corrupt`."""
        archive, remote = self._archives.get(unified), self._remotes.get(unified)
        if archive is None or remote is None or unified in self._comparisons.running or archive.lost:
            return
        start = planned_log_start(unified, remote, now_ms)
        if start is None:
            remote.refresh(entries=remote.facts is not None)
            return
        moved = unified.log.advance_log_start(start)
        if moved:
            log.info("%s: retention moved the log start to offset %d", unified.topic_partition, start)
            archive.log_start.retained_to = start
        archive.evict()
        if moved or has_files_below_start(unified.log):  # a full disk may have ended the round before
            self._moved[unified] = None
        if archive.state == "held" and unified.log.config.remote_storage_enable:
            claimant, storage_class = archive.claimant, unified.log.config.storage_class
            self._merging.look(remote, _partition_id(unified), claimant, storage_class=storage_class)

    def retained(self) -> None:
        """End a round of retention: make the moved log starts durable, then delete files.

        In this order, and before any manifest hears of it: a log start never goes back over a restart.
        """
        moved, self._moved = self._moved, {}
        for directory in self._directories.online:
            mine = [unified for unified in moved if unified.partition.directory is directory.writer]
            try:
                if mine:
                    directory.files.write_checkpoints({unified.topic_partition: unified.log for unified in mine})
                for unified in mine:
                    unified.log.delete_local_before(unified.log.log_start_offset)
            except OSError as error:
                directory.writer.report(error)
                continue
            for unified in mine:
                self.look(unified)

    def checkpoint(self) -> None:
        """Write what is known of each archive beside the logs, where it has changed."""
        self._checkpoints.write(self._remotes)

    def describe(self, unified: UnifiedLog) -> ArchiveFigures:
        """The figures for ``tier status``."""
        archive, remote = self._archives.get(unified), self._remotes.get(unified)
        if archive is None or remote is None:
            return ArchiveFigures()
        if remote.facts is None and remote.end_offset:
            remote.refresh(entries=False)
        state = self._state_of(unified, archive)
        known = remote.end_offset, remote.size_bytes, remote.object_count
        return ArchiveFigures(*known, state) if remote.known else ArchiveFigures(None, None, None, state)

    def watched(self, unified: UnifiedLog) -> tuple[Archive, str] | None:
        """A partition's archive and its state in a word; unlike `describe` it never asks the bucket."""
        archive = self._archives.get(unified)
        return None if archive is None else (archive, self._state_of(unified, archive))

    def _state_of(self, unified: UnifiedLog, archive: Archive) -> str:
        return "checking" if unified in self._comparisons.running else archive.state

    @property
    def archives(self) -> Collection[Archive]:
        """Those of all partitions that are led here and tiered."""
        return self._archives.values()

    def problems(self) -> Generator[None, None, list[str]]:
        """The problems while the broker serves, a sentence each; it yields where it may pause."""
        wrong = [self.gate.wrong] if self.gate.wrong else []
        archives = yield from archive_problems(self._archives.values(), self._comparisons.waiting())
        return [*wrong, *bucket_problems(self.bucket_state, self.worker, self._clock.wall_ms()), *archives]

    @property
    def worker(self) -> WorkerState:
        """How the ``io`` worker does."""
        return self._io.state

    @property
    def bucket_state(self) -> BucketState:
        """Whether the bucket answers."""
        return self.health.state(self._clock.wall_ms(), unanswered_seconds(self.worker.idle))

    async def close(self) -> None:
        """Stop. The next leader recognises the work of a worker that is still busy, or `gc` collects it."""
        self.checkpoint()
        self._timelines.close()
        for directory in self._directories.all:  # they are closed later, and may find their disks full
            directory.writer.on_full = nothing_gives_way
        for unified in list(self._archives):
            self.detach(unified)
        await self._io.close()
        self._removing.shutdown(wait=False, cancel_futures=True)


def _partition_id(unified: UnifiedLog) -> PartitionId:
    topic, partition = unified.topic_partition
    return PartitionId(topic, unified.topic_id, partition)
