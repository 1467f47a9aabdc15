"""One broker of a random history: the shipped log, partition, archive and readers over a disk that may lose power."""

from __future__ import annotations

import random
from types import SimpleNamespace

from stratalog.broker.archive.partition_archive import Archive
from stratalog.broker.archive.reconciling import Reconciling
from stratalog.broker.archive.removal import RemovalSettings, may_have_archive
from stratalog.broker.archive.retention import has_files_below_start, planned_log_start
from stratalog.broker.cold.admission import ColdAdmission
from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.cold.own_part import own_part
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.checkpoint_steps import bounds_steps, high_watermark_steps, recovery_point_steps
from stratalog.hot.cleaner_offsets import know_rows
from stratalog.hot.directory import LogDirectory
from stratalog.hot.first_marks import begin_at_log_start, first_high_watermark
from stratalog.hot.retention import segments_to_delete
from stratalog.hot.storage.checkpoint import RemoteLogState, write_remote_log
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.tier.planning.plan import PlanSettings
from stratalog.tier.reading.cache import CacheLimits
from stratalog.tier.reading.fetch_budgets import FetchRates
from tests.crash.conftest import JournaledFilesystem, cut_power
from tests.histories.disk import NAME, Disk, Files, carry_out
from tests.histories.oracle import until

ID = b"i" * 16
PARTITION = PartitionId("t", ID, 0)
READS = (
    commands.FillChunks,
    commands.FindTimestamp,
    commands.FindLargestTimestamp,
    commands.ReadFooter,
    commands.ReadAborted,
    commands.ReadManifest,
    commands.ScanCache,
)


class Node:
    """A broker and its disk, up or down."""

    def __init__(self, world, number: int, cache: str) -> None:
        self.world, self.number, self.cache = world, number, cache
        self.files, self.base = Files(), None
        self.full: dict[int, object] = {}
        self.gone: dict[int, str] = {}
        self.is_up = False
        self.clean = False
        self.queue: list[tuple] = []
        self.timers: list = []
        self.epoch = 0
        self.role_epoch = -1
        self.looked_at = None
        self.left = {}, 0
        self.task = None
        self.backup, self.was_put_back = None, False

    # -- start and end ------------------------------------------------------------------------------------

    def start(self) -> None:
        world = self.world
        self.directory = LogDirectory.load("/d", self.files)
        self.had = NAME in self.directory.partitions
        self.log = self.directory.open_log(
            NAME, ID, world.config, now_ms=world.now_ms, leader_epoch_max=max(world.epoch, 0), others_have_it=True
        )
        know_rows(self.directory, self.log)
        begin_at_log_start(self.log)
        self.disk = Disk()
        self.partition = Partition(
            self.log,
            directory=self.disk,
            high_watermark=first_high_watermark(self.log, self.directory.high_watermarks, 3),
            clock=SimpleNamespace(wall_ms=lambda: world.now_ms, monotonic=lambda: world.now_ms / 1000),
            rework=lambda *_: None,
            asking=self,
        )
        self.partition.node = self
        restarted = self.partition.restarted

        def begun_anew() -> None:
            world.archive_moved()
            end = self.log.log_end_offset
            self.full, self.gone = until(world.archive_full, end), {}
            world.log("  the archive wins at", self.number, "goes on at", end)
            world.count["archive won"] += 1
            restarted()

        self.partition.restarted = begun_anew
        metrics = SimpleNamespace(
            remote_copy_requests=0, remote_copy_bytes=0, remote_copy_errors=0, remote_log_size_bytes=0,
            remote_fetch_errors=0, remote_fetch_requests=0, remote_fetch_bytes=0,
        )  # fmt: skip
        self.unified = UnifiedLog(self.partition, metrics)
        self.archive = self.reconciling = self.remote = None
        self.led = Led.OPENED if self.had else Led.CREATED
        self.reads: list[tuple] = []
        self.queue, self.timers = [], []
        self.is_up = True
        self.outcomes: list = []
        self.shadow()
        if self.log.missing_ranges():
            return
        before, high_watermark = self.left
        end, first = self.log.log_end_offset, self.log.first_base_offset
        before = {offset: one for offset, one in before.items() if first <= offset < end}
        if before or self.gone:  # a start ends a swap that was decided
            self.world.judge_cleaning(self, before, high_watermark)
        self.left = {}, 0
        if self.log.has_unsynced:
            self.log.sync()
        self.partition.on_flushed()

    def shadow(self) -> None:
        """Follow the log's end: forget the batches that were cut."""
        self.full = until(self.full, self.log.log_end_offset)
        self.gone = {offset: why for offset, why in self.gone.items() if offset in self.full}

    def stop(self, how: str) -> None:
        """``kill``, ``power`` or ``clean``."""
        self.left = self.world.local_offsets(self), self.partition.high_watermark
        if how == "clean":
            self.partition.resign()
            self.leave_archive()
            self.checkpoint()
            self.directory.close({NAME: self.log}, broker_epoch=1)
        self.is_up = False
        self.leave_archive()
        if how == "power":
            image = cut_power(self.files, self.base, len(self.files.journal), self.world.dice)
            self.become(image)

    def become(self, image) -> None:
        image.__class__ = Files
        self.files = image
        self.base = JournaledFilesystem()
        self.base.inodes = {inode: bytearray(data) for inode, data in image.inodes.items()}
        self.base.names, self.base._next_inode = dict(image.names), image._next_inode

    def back_up(self) -> None:
        """Keep the disk of a node that is down as it is now."""
        self.backup = copied(self.files), dict(self.full), dict(self.gone), self.left

    def put_back(self) -> None:
        """Put the disk back as it was then."""
        files, full, gone, self.left = self.backup
        self.was_put_back = True
        self.full, self.gone = dict(full), dict(gone)
        self.become(copied(files))

    def wipe(self) -> None:
        self.files, self.base, self.full, self.gone, self.left = Files(), None, {}, {}, ({}, 0)

    # -- the disk -----------------------------------------------------------------------------------------

    def write(self) -> None:
        self.log.write_queued()
        self.partition.on_written()

    def flush(self) -> None:
        self.log.sync()
        self.partition.on_flushed()
        if self.disk.waits_for_bounds:
            self.disk.waits_for_bounds = False
            self.keep_bounds()
            self.partition.on_flushed()

    def keep_bounds(self) -> None:
        carry_out(bounds_steps(self.directory, lambda: [self.log]))

    def checkpoint(self) -> None:
        marked = {}
        if self.log.cycles.noted_cut is not None:
            marked[self.log] = self.log.cycles.noted_cut
        carry_out(high_watermark_steps(self.directory, lambda: [(NAME, self.partition.high_watermark)]))
        carry_out(recovery_point_steps(self.directory, lambda: [self.log], marked))
        self.keep_bounds()
        if self.remote is not None and self.remote.known:
            self.keep_remote_end()

    def keep_remote_end(self) -> None:
        if self.remote is not None and self.remote.known:
            states = {NAME: self.remote.state}
            write_remote_log(self.files, "/d", states)
            self.directory.remote_logs = states

    # -- the controller -----------------------------------------------------------------------------------

    def ask(self, leader, change) -> None:
        self.world.asked.append((self, leader, change))

    def may_join(self, _key, broker_id, _broker_epoch) -> bool:
        return self.world.nodes[broker_id].is_up

    def changed(self, before, after) -> None:
        pass

    # -- the archive --------------------------------------------------------------------------------------

    def submit(self, command, answered) -> None:
        (self.reads if isinstance(command, READS) else self.queue).append((command, answered))

    def submit_now(self, command, answered) -> None:
        answered(self.world.execute(self, command))

    def drain_reads(self) -> None:
        for _ in range(1000):
            if not self.reads:
                return
            command, answered = self.reads.pop(0)
            answered(self.world.worker.execute(command))
        raise AssertionError("it reads for ever")

    def new_chunks(self, cache: str):
        admission = ColdAdmission(
            FetchRates, client_of=str, wake=lambda _: None, now_ms=lambda: self.world.now_ms,
            later=lambda _s, _c: SimpleNamespace(cancel=lambda: None),
        )  # fmt: skip
        return ChunkFiles(cache, CacheLimits(1 << 20), self.submit, lambda: self.world.now_ms, admission=admission)

    def new_remote(self, state, cache):
        return RemotePartition(
            PARTITION, submit=self.submit, chunks=self.new_chunks(cache), metrics=self.unified.metrics,
            wake=lambda: None, now_ms=lambda: self.world.now_ms, checkpoint=state, own=own_part(0, lambda: self.log),
        )  # fmt: skip

    def new_archive(self):
        world = self.world
        return Archive(
            self.unified, self.remote, claimant=Claimant(0, self.partition.leader_epoch, bytes([self.number]) * 16, self.number),
            cluster_id="c", submit=self.submit, now_ms=lambda: world.now_ms, elapsed_ms=lambda: world.now_ms,
            dice=random.Random(0), settings=PlanSettings(),
            removal=RemovalSettings(lambda: 5_000, lambda: 500, lambda: 2),
            keep_log_start=self.keep_log_start, keep_remote_end=self.keep_remote_end,
            made=lambda: None, compare=lambda *_: None,
        )  # fmt: skip

    def keep_log_start(self, _unified) -> bool:
        self.directory.write_checkpoints({NAME: self.log})
        return True

    def attach(self, led: Led) -> None:
        """As `Tiering.attach`."""
        if self.archive is not None:
            if led is Led.RECONFIGURED:
                self.archive.configured()
            elif led is Led.UNCLEAN:
                self.forget_comparison()
                self.renew()
                self.begin_comparison(None, led)
            elif self.reconciling is None:
                self.renew()
            return
        state = self.directory.remote_logs.get(NAME)
        if not (state or may_have_archive(self.log)):
            return
        if led is Led.TAKEN_OVER:
            state = None
        if led is Led.CREATED:
            state = RemoteLogState(self.log.first_base_offset, self.log.first_base_offset, 0)
        self.remote = self.unified.remote = self.new_remote(state, self.cache)
        self.archive = self.new_archive()
        self.begin_comparison(state, led)

    def renew(self) -> None:
        self.archive.close()
        self.archive = self.new_archive()

    def begin_comparison(self, state, led: Led) -> None:
        """As `Comparisons.begin`."""
        if led is Led.UNCLEAN:
            state = (self.remote.state if self.remote.known else None) or state
        world = self.world
        reconciling = Reconciling(
            self.unified, self.remote, claimant=self.archive.claimant, cluster_id="c", submit=self.submit,
            now_ms=lambda: world.now_ms, checkpoint=state, lost=led is Led.LOST,
            elected_uncleanly=led is Led.UNCLEAN, later=lambda _s, call: self.timers.append(call), timeline=None,
        )  # fmt: skip
        needed = self.unified.comparison_owed or (led is not Led.TAKEN_OVER and reconciling.needed())
        if led is Led.CREATED or not needed:
            return
        self.reconciling = reconciling
        hold = led is not Led.RECONFIGURED
        self.unified.comparison_owed |= hold
        self.archive.comparing()

        def finished() -> None:
            self.unified.comparison_owed = False
            self.reconciling = None
            if self.archive is not None:
                self.archive.compared()

        reconciling.start(finished, hold=hold)

    def forget_comparison(self) -> None:
        reconciling, self.reconciling = self.reconciling, None
        if reconciling is not None:
            reconciling.close()

    def leave_archive(self) -> None:
        """As `Tiering.detach`."""
        if self.archive is not None:
            self.archive.close()
            self.archive = None
        if self.remote is not None:
            self.remote.end_reads()
            self.remote = None
        self.forget_comparison()
        if hasattr(self, "unified"):
            self.unified.remote = None

    def look(self) -> None:
        if self.archive is None or self.reconciling is not None:
            return
        if self.archive.claimant.leader_epoch != self.partition.leader_epoch:
            self.renew()
        self.archive.look()

    def answer(self, fate: str) -> None:
        """Carry out the oldest command."""
        if not self.queue:
            timers, self.timers = self.timers, []
            for call in timers:
                call()
            return
        command, answered = self.queue.pop(0)
        if fate == "lost":
            answered(commands.FailedReport("the bucket does not answer", retriable=True))
            return
        report = self.world.execute(self, command)
        answered(commands.FailedReport("the answer was lost", retriable=True) if fate == "late" else report)

    # -- retention ----------------------------------------------------------------------------------------

    def retain(self) -> None:
        """As the housekeeping and `Tiering.retain`."""
        log = self.log
        if log.config.remote_storage_enable:
            if self.partition.leader is not None and self.archive is not None:
                self.retain_tiered()
            return
        deletion = segments_to_delete(
            log.segments(), log.config, now_ms=self.world.now_ms, log_start_offset=log.log_start_offset,
            high_watermark=self.partition.high_watermark,
        )  # fmt: skip
        if deletion is not None:
            if deletion.roll_active:
                log.roll()
            log.delete_local_before(deletion.offset)
            if log.start.is_leaving:
                self.disk.await_bounds(self.partition)

    def retain_tiered(self) -> None:
        log = self.log
        if self.reconciling is not None or self.archive.lost:
            return
        start = planned_log_start(self.unified, self.remote, self.world.now_ms)
        if start is None:
            self.remote.refresh(entries=self.remote.facts is not None)
            self.drain_reads()
            return
        moved = log.advance_log_start(start)
        if moved:
            self.archive.log_start.retained_to = start
        self.archive.evict()
        if moved or has_files_below_start(log):
            self.directory.write_checkpoints({NAME: log})
            log.delete_local_before(log.log_start_offset)
            self.look()


def copied(files) -> JournaledFilesystem:
    """A disk with the same files."""
    made = JournaledFilesystem()
    made.inodes = {inode: bytearray(data) for inode, data in files.inodes.items()}
    made.names, made._next_inode = dict(files.names), files._next_inode
    made.directories = set(files.directories)
    return made
