"""Periodic work: rolls, time-outs, retention, checkpoints, the files of deleted partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from msgspec import Struct

from stratalog.broker.archive.group_copies import LOOK_SECONDS, GroupCopies
from stratalog.broker.archive.tiering import Tiering
from stratalog.broker.coordinators.late import LOOK_SECONDS as WATCH_SECONDS
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.broker.replicas.background_removal import BackgroundRemoval
from stratalog.broker.replicas.directories import Directories, Directory
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.follower import Follower
from stratalog.broker.replicas.hosted_partitions import HostedPartitions
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.slices import Slices, Steps
from stratalog.broker.settings.config import BrokerConfig
from stratalog.hot.retention import segments_to_delete
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import Corrupt

__all__ = ["Housekeeping", "HousekeepingServices"]

TICK_SECONDS: Final = 0.25
_PARTITIONS_A_TICK: Final = 128
_TICKS_A_ROUND: Final = 8
"""So often a second that many partitions are looked at; every one at least once in two seconds."""
_PARTITIONS_A_PAUSE: Final = 50
"""Half a millisecond, or a few where segments go."""

PAUSE_SECONDS_MIN: Final = 0.1
"""Between two runs of a job, however short its setting: one of 0 would keep the loop busy with nothing."""

log = logging.getLogger(__name__)


class HousekeepingServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that its timers look after; ``metadata`` is its replica of the metadata log."""

    config: BrokerConfig
    clock: Clock
    image: Callable[[], ClusterImage]
    directories: Directories
    hosted: HostedPartitions
    metadata: MetadataReplica
    tiering: Tiering
    removals: BackgroundRemoval
    slices: Slices
    report_corruption: Callable[[UnifiedLog, Corrupt], None]
    watch_transactions: Callable[[], Steps[None]]
    """Looks for transactions that are open for too long (`LateTransactions.look`)."""
    trim: Callable[[Follower], None] | None = None
    """Lets a follower's local copies of archived records go; None without followers."""


class Housekeeping:
    """Timers on the loop; each job looks at everything and costs little when there is nothing to do."""

    def __init__(self, services: HousekeepingServices, group_copies: GroupCopies) -> None:
        self._services = services
        self.group_copies = group_copies
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._under_way: dict[str, Steps[None]] = {}
        self._round: Iterator[UnifiedLog] = iter(())
        self._lacking: set[DirectoryWriter] = set()
        """Directories with a log that has no row in ``log-bounds`` yet; nothing waits for it."""

    def start(self) -> None:
        """Begin; what a start on a full disk left of the ballast is held before clients come."""
        self._services.directories.hold_ballast()
        config = self._services.config
        retention_ms = config.integer("log.retention.check.interval.ms")
        checkpoint_ms = min(
            config.integer("log.flush.offset.checkpoint.interval.ms"),
            config.integer("log.flush.start.offset.checkpoint.interval.ms"),
            config.integer("replica.high.watermark.checkpoint.interval.ms"),
        )
        for directory in self._services.directories.all:
            directory.writer.on_bounds_wait = partial(self._keep_bounds, directory)
        self._repeat("tick", TICK_SECONDS, self._tick)
        self._repeat("retention", retention_ms / 1000, self._retain)
        self._repeat("checkpoint", checkpoint_ms / 1000, self._checkpoint)
        self._repeat("copies of groups", LOOK_SECONDS, self.group_copies.look)
        self._repeat("replicas that lag", config.integer("replica.lag.time.max.ms") / 2000, self._check_lag)
        self._repeat("late transactions", WATCH_SECONDS, self._services.watch_transactions)
        self._repeat("deleted files", config.integer("log.segment.delete.delay.ms") / 1000, self._remove_doomed)

    def stop(self) -> None:
        """End, also what is under way."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for steps in self._under_way.values():
            steps.close()
        self._under_way.clear()

    def _repeat(self, name: str, seconds: float, job: Callable[[], Steps[None] | None]) -> None:
        """Do a job again and again. One that returns steps is done in slices, and not begun again before it is done."""
        loop = asyncio.get_running_loop()
        seconds = max(seconds, PAUSE_SECONDS_MIN)

        def run() -> None:
            self._timers[name] = loop.call_later(seconds, run)
            if name in self._under_way:
                return
            try:
                steps = job()
            except Exception:
                log.exception("%s failed; it is tried again in %g s", name, seconds)
                return
            if steps is not None:
                self._run(name, steps, seconds)

        self._timers[name] = loop.call_later(seconds, run)

    def _run(self, name: str, steps: Steps[None], seconds: float) -> None:
        """Do what is tried again after ``seconds`` in slices."""

        def done(_value: object, error: Exception | None) -> None:
            self._under_way.pop(name, None)
            if error is not None:
                log.error("%s failed; it is tried again in %g s", name, seconds, exc_info=error)

        self._under_way[name] = steps
        self._services.slices.start(steps, done)

    # -- jobs -----------------------------------------------------------------------------------------------------

    def _tick(self) -> Steps[None]:
        services = self._services
        now, now_ms = services.clock.monotonic(), services.clock.wall_ms()
        elapsed_ms = int(now * 1000)
        for directory in services.directories.online:
            directory.writer.retry_refused()
            if directory.writer.unkept or directory.writer in self._lacking:
                self._keep_bounds(directory)
        self._retry_unopened()
        services.tiering.tick()
        leaving: list[UnifiedLog] = []
        for count, unified in enumerate(self._next_partitions(), 1):
            self._tick_one(unified, now, now_ms, elapsed_ms)
            is_leaving = unified.log.start.is_leaving
            leaving += [unified] * is_leaving
            if count % _PARTITIONS_A_PAUSE == 0 or is_leaving:
                yield None
        self._leave(leaving)
        self._remove_left(services.metadata, elapsed_ms)
        services.metadata.tick(now)

    def _retry_unopened(self) -> None:
        """Open what found no room before, beside the tick: where there is room again, thousands of logs take seconds."""
        name = "partitions that found no room"
        if name not in self._under_way:
            self._run(name, self._services.hosted.retrying_unopened(), TICK_SECONDS)

    def _tick_one(self, unified: UnifiedLog, now: float, now_ms: int, elapsed_ms: int) -> None:
        services, partition = self._services, unified.partition
        self._remove_left(partition, elapsed_ms)
        if partition.directory.offline is not None:
            return
        partition.tick(now)
        try:
            rolled = partition.log.tick(now_ms)
        except OSError as error:
            partition.directory.report(error, partition)
            return
        if rolled:
            partition.directory.sync(partition)
        if partition.log.gaps.lacks_row(partition.log.may_have_gaps):
            # Until it has one, a start takes a tail that a power cut took at a roll for a gap.
            self._lacking.add(partition.directory)
        services.tiering.look(unified)

    def _remove_left(self, owner: Partition | MetadataReplica, elapsed_ms: int) -> None:
        """Have files removed that left a log long enough ago. Those that a failure leaves go when the log is opened next."""
        if owner.directory.offline is not None:
            return
        try:
            removal = owner.log.take_removal(elapsed_ms)
        except OSError as error:
            owner.directory.report(error)  # no batch was refused: it is tried again with the next tick
            return
        if removal is not None:
            self._services.removals.submit(removal, owner.directory)

    def _leave(self, leaving: Sequence[UnifiedLog]) -> None:
        """Take the names of segments that have left these logs, beside the tick: thousands take seconds.

        More may come between two ticks than one of them takes, and the disk would fill up.
        """
        name = "segments that leave"
        if leaving and name not in self._under_way:
            self._run(name, self._leaving(leaving), TICK_SECONDS)

    def _leaving(self, leaving: Sequence[UnifiedLog]) -> Steps[None]:
        for unified in leaving:
            while unified.log.start.is_leaving:
                partition = unified.partition
                is_here = self._services.hosted.table.get(unified.topic_partition) is unified
                if not is_here or partition.directory.offline is not None:
                    break
                try:
                    unified.log.start.go_on_leaving(1)
                except OSError as error:
                    partition.directory.report(error)  # no batch was refused: it is tried again with the next tick
                    break
                yield None

    def _next_partitions(self) -> Iterator[UnifiedLog]:
        """Those whose turn it is: all of a hundred, an eighth of more, so that ten thousand do not stop the loop."""
        table = self._services.hosted.table
        share = max(_PARTITIONS_A_TICK, -(-len(table) // _TICKS_A_ROUND))
        known: set[UnifiedLog] = set()
        for _ in range(2):
            for unified in islice(self._round, share - len(known)):
                if table.get(unified.topic_partition) is unified and unified not in known:
                    known.add(unified)
                    yield unified
            if len(known) == share:
                return
            self._round = iter(table)

    def _retain(self) -> Steps[None]:
        for count, unified in enumerate(self._services.hosted.table, 1):
            if count % _PARTITIONS_A_PAUSE == 0:
                yield None
            if unified.partition.directory.offline is not None:
                continue
            if self._services.hosted.table.get(unified.topic_partition) is not unified:
                continue  # it went in between
            try:
                self._retain_one(unified)
            except OSError as error:
                unified.partition.directory.report(error, unified.partition)
            except Corrupt as error:
                self._services.report_corruption(unified, error)
            if unified.log.start.is_leaving:
                # A kill would bring back what has not left yet: so the log start is kept now.
                unified.partition.directory.await_bounds(unified.partition)
                yield None
        self._services.tiering.retained()

    def _retain_one(self, unified: UnifiedLog) -> None:
        now_ms = self._services.clock.wall_ms()
        log_ = unified.log
        if log_.config.remote_storage_enable:
            follower, trim = unified.partition.follower, self._services.trim
            if follower is None:
                self._services.tiering.retain(unified, now_ms)
            elif trim is not None:
                trim(follower)
            return
        deletion = segments_to_delete(
            log_.segments(),
            log_.config,
            now_ms=now_ms,
            log_start_offset=log_.log_start_offset,
            high_watermark=unified.partition.high_watermark,
        )
        if deletion is None:
            return
        if deletion.roll_active:
            log_.roll()
        count = log_.delete_local_before(deletion.offset)
        log.info(
            "%s: %d segments below offset %d go: %s", unified.topic_partition, count, deletion.offset, deletion.reason
        )

    def _check_lag(self) -> Steps[None]:
        return self._services.hosted.table.checking_lag(self._services.config.integer("replica.lag.time.max.ms"))

    def _checkpoint(self) -> Steps[None]:
        self._services.directories.hold_ballast()
        yield from self._services.directories.checkpoint_all_steps(self._services.hosted.table.partitions)
        self._services.tiering.checkpoint()

    def _keep_bounds(self, directory: Directory) -> None:
        """Write down the bounds for which copies wait; those that come meanwhile in the same run."""
        name = f"log bounds in {directory.writer.path}"
        if name not in self._under_way:
            self._run(name, self._keeping_bounds(directory), TICK_SECONDS)

    def _keeping_bounds(self, directory: Directory) -> Steps[None]:
        writer = directory.writer
        kept = True
        while kept and (writer.unkept or writer in self._lacking):
            waiting, writer.unkept = writer.unkept, {}
            self._lacking.discard(writer)
            kept = False
            try:
                yield None  # also where there is nothing to write: those that wait may come again at once
                hosted = self._services.hosted.table.partitions
                kept = yield from self._services.directories.keeping_bounds(directory, hosted)
            finally:
                for owner in waiting:
                    if kept:
                        owner.on_flushed()
                    else:
                        writer.await_bounds(owner)

    def _remove_doomed(self) -> Steps[None]:
        directories = self._services.directories
        directories.doom_left()
        for directory in directories.online:
            if directory.files.doomed and directory.files.stale:
                # Their directories say that they were removed until the checkpoints do.
                yield from directories.checkpoint_steps(directory, self._services.hosted.table.partitions)
            for removal in directory.files.take_doomed():
                put_back = partial(directory.files.doomed.append, removal.path)
                self._services.removals.submit(removal, directory.writer, put_back)
