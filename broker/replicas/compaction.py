"""Drives the cleaner of compacted topics: picks the next log, commands the worker, swaps in the new segments.

The worker (a ``cpu`` worker of its own, so that batches which wait for deep work are not held up) reads old segments
and writes new ones; it ends when there has been nothing to clean for a while. Everything that counts happens here, on the event loop:
readers see old segments or the new one, and a partition that is deleted meanwhile is left alone. A log that cannot be
read as it stands is marked, logged, and skipped until the next start. Source: Kafka's ``LogCleaner``,
``LogCleanerManager``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct

from stratalog.broker.replicas.directories import Directories
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.cleaner_figures import add_cleaner_figures
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.slices import Slices, Steps
from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.workers.cleaner_process import CleanerProcess
from stratalog.broker.workers.cleaner_worker import BeginCleaning, CleanGroup, EndCleaning
from stratalog.broker.workers.spawner import spawner_of
from stratalog.broker.workers.watch import WorkerState
from stratalog.broker.workers.workers import Workers
from stratalog.hot.cleaner.cleaner import CleanedSegment, CleanJob, MapBuilt, drop_leftovers
from stratalog.hot.cleaner.plan import Section, cleanable_section, dirtiest
from stratalog.hot.cleaner.swap import SegmentSwap
from stratalog.hot.cleaner_offsets import note_cleaner_offset
from stratalog.hot.storage.shortages import SHORTAGES
from stratalog.wire.errors import Corrupt, Retriable, StratalogError

__all__ = ["CleanerServices", "Compaction"]

PAUSE_SECONDS_MIN: Final = 0.05
"""Shortest time between two looks, even if ``log.cleaner.backoff.ms`` is shorter."""

_SHORTAGE_WAIT_SECONDS: Final = 0.1

log = logging.getLogger(__name__)


class _Moved(StratalogError):
    """The log has changed since the cleaning began: by retention, deletion or a failed disk."""


class CleanerServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that its cleaner uses. ``config`` gives the settings as they are now."""

    config: Callable[[], BrokerConfig]
    clock: Clock
    metrics: Metrics
    directories: Directories
    partitions: PartitionTable
    slices: Slices


class Compaction:
    """Looks for the dirtiest log every ``log.cleaner.backoff.ms``, and again whenever a cleaning has ended."""

    def __init__(self, services: CleanerServices) -> None:
        self._services = services
        self._spawner = spawner_of(asyncio.get_running_loop())
        self._threads = self._spawner.threads(1, "compaction")
        self.process = CleanerProcess(self._spawner)
        self._running: dict[str, asyncio.Task[bool]] = {}
        self._uncleanable: dict[UnifiedLog, str] = {}
        self._sessions = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = self._is_looking = False
        self.cleanings = 0
        self.read_bytes = 0
        self.written_bytes = 0
        self._max_dirty_ratio = 0.0

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin. Without ``log.cleaner.enable`` compacted topics only grow."""
        self._add_figures()
        if self._services.config().boolean("log.cleaner.enable"):
            self._look_later()
        else:
            log.warning("log.cleaner.enable is false: compacted topics are not cleaned")

    async def close(self) -> None:
        """Give up the running cleaning; the next start begins it again."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.process.close()
        self._threads.shutdown(wait=True)

    def _look_later(self) -> None:
        seconds = max(self._services.config().integer("log.cleaner.backoff.ms") / 1000, PAUSE_SECONDS_MIN)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._look_later()
        self.look()

    @property
    def idle(self) -> bool:
        """True if no log is being cleaned, or looked at."""
        return not (self._running or self._is_looking)

    def uncleanable(self) -> dict[UnifiedLog, str]:
        """The logs that are skipped, and why."""
        table = self._services.partitions
        self._uncleanable = {
            one: why for one, why in self._uncleanable.items() if table.get(one.topic_partition) is one
        }
        return self._uncleanable

    # -- what is next ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Start what is due now. A broker may have thousands of compacted logs: it looks at them in slices."""
        full = len(self._running) >= self._services.config().integer("log.cleaner.threads")
        if not (full or self._closed or self._is_looking):
            self._is_looking = True
            self._services.slices.start(self._dirtiest(), self._found)

    def _found(self, unified: UnifiedLog | None, error: Exception | None) -> None:
        self._is_looking = False
        if error is not None:
            raise error
        if self._closed or unified is None or not self._may_work_on(unified):
            return
        section = self._section(unified)  # as it is now: the log may have been cut since
        if section is not None:
            path = unified.log.directory
            task = self._running[path] = asyncio.get_running_loop().create_task(self._clean(unified, section))
            task.add_done_callback(partial(self._ended, path))
            self.look()

    def _ended(self, path: str, task: asyncio.Task[bool]) -> None:
        del self._running[path]
        if self._closed or task.cancelled():
            return
        if task.result():
            self.look()
        if not self._running:
            self.process.rest()

    def _dirtiest(self) -> Steps[UnifiedLog | None]:
        uncleanable = self.uncleanable()
        found, sections = [], []
        for unified in list(self._services.partitions.of_topics(lambda one: one.log.config.compacted)):
            if unified not in uncleanable and self._may_work_on(unified):
                section = self._section(unified)
                if section is not None:
                    found.append(unified)
                    sections.append(section)
            yield None
        self._max_dirty_ratio = max((section.dirty_ratio for section in sections), default=0.0)
        number = dirtiest(sections, [unified.log.compaction.policy for unified in found])
        return None if number is None else found[number]

    def works_on(self, unified: UnifiedLog) -> bool:
        """Whether the log is being cleaned."""
        return unified.log.directory in self._running

    def _may_work_on(self, unified: UnifiedLog) -> bool:
        partition = unified.partition
        is_here = (
            self._services.partitions.get(unified.topic_partition) is unified and partition.directory.offline is None
        )
        return is_here and not self.works_on(unified) and partition.held_back is None

    def _section(self, unified: UnifiedLog) -> Section | None:
        log_ = unified.log
        files = self._services.directories.of(unified.partition.directory).files
        try:
            return cleanable_section(
                log_.compaction.cleanable_segments(),
                log_.compaction.policy,
                cleaned_offset=files.cleaner_offsets.get(unified.topic_partition),
                log_start_offset=log_.log_start_offset,
                log_end_offset=log_.log_end_offset,
                limit_offset=unified.cleanable_below,
                now_ms=self._services.clock.wall_ms(),
            )
        except OSError as error:
            unified.partition.directory.report(error)
        except Corrupt as error:
            self._mark(unified, str(error))
        return None

    def _mark(self, unified: UnifiedLog, why: str) -> None:
        self._uncleanable[unified] = why
        log.error(
            "%s cannot be compacted and is skipped from now on: %s. Its records stay as they are; restart the broker "
            "when the cause is gone.",
            unified.topic_partition,
            why,
        )

    # -- one cleaning ---------------------------------------------------------------------------------------------

    async def _clean(self, unified: UnifiedLog, section: Section) -> bool:
        """Clean one log. True if it succeeded: then the next one may follow at once."""
        try:
            await self._clean_log(unified, section)
        except Corrupt as error:
            self._mark(unified, str(error))
        except (_Moved, Retriable, FileNotFoundError) as error:
            log.info("%s: the cleaning was given up and will be tried again: %s", unified.topic_partition, error)
        except OSError as error:
            unified.partition.directory.report(error)
        except Exception as error:
            log.exception("%s: cleaning failed unexpectedly", unified.topic_partition)
            self._mark(unified, repr(error))
        else:
            return True
        files = self._services.directories.of(unified.partition.directory).files.files
        with suppress(OSError):  # the next cleaning, or the next start, removes them
            await asyncio.get_running_loop().run_in_executor(
                self._threads, drop_leftovers, files, unified.log.directory
            )  # to free a file of a gigabyte takes long
        return False

    async def _clean_log(self, unified: UnifiedLog, section: Section) -> None:
        config, log_ = self._services.config(), unified.log
        share = config.integer("log.cleaner.dedupe.buffer.size") // max(config.integer("log.cleaner.threads"), 1)
        job = log_.compaction.clean_job(
            section,
            now_ms=self._services.clock.wall_ms(),
            forgettable_below=unified.forgettable_below,
            map_bytes=share,
            map_load_factor=_number(config.values["log.cleaner.io.buffer.load.factor"]),
        )
        self._sessions += 1
        session, started = self._sessions, self._services.clock.monotonic()
        try:
            built: MapBuilt = await self._worker().submit(BeginCleaning(session, job, self._rate))
            self._check_uncut(unified, job)
            await self._note_gaps(unified, section.end_offset)
            self._check_uncut(unified, job)
            if not log_.compaction.cleaned_before:  # gaps must not be taken for damage, if the topic's policy changes
                await self._store_offset(unified, section.first_dirty_offset)
            done = [await self._clean_group(unified, session, number) for number in range(len(built.groups))]
        except Corrupt:
            self._check_uncut(unified, job)  # the files of a log that was cut, or has left, are not those of the job
            raise
        finally:
            self._forget(session)
        self._check_uncut(unified, job)
        await self._store_offset(unified, built.end_offset)
        self._tell(unified, section, built, done, self._services.clock.monotonic() - started)

    @property
    def _rate(self) -> float:
        return _number(self._services.config().values["log.cleaner.io.max.bytes.per.second"])

    async def _clean_group(self, unified: UnifiedLog, session: int, number: int) -> CleanedSegment:
        self._check(unified)
        cleaned: CleanedSegment = await self._worker().submit(CleanGroup(session, number, self._rate))
        self._check(unified)
        if cleaned.changed:
            await self._note_forgotten(unified, cleaned)
            await self._swap(unified, cleaned)
        return cleaned

    async def _note_forgotten(self, unified: UnifiedLog, cleaned: CleanedSegment) -> None:
        """Store up to where tombstones and markers are missing, before one is: replicas that end below have to be told."""
        if cleaned.counts.forgotten_below:
            self._check_forgettable(unified, cleaned)
            write = unified.log.forgotten.noting(cleaned.counts.forgotten_below)
            await asyncio.get_running_loop().run_in_executor(self._threads, write)
            self._check(unified)

    @staticmethod
    def _check_forgettable(unified: UnifiedLog, cleaned: CleanedSegment) -> None:
        """Raise `_Moved` if a replica has fallen out of sync since the cleaning began: it may have just begun to copy the log."""
        if cleaned.counts.forgotten_below > unified.forgettable_below:
            raise _Moved("it lacks tombstones or markers that a replica which is out of sync has not seen")

    def _check(self, unified: UnifiedLog) -> None:
        """Raise `_Moved` if the log can no longer be cleaned."""
        self._check_here(unified)
        if unified.partition.held_back is not None:
            raise _Moved("it is being compared with its archive")

    def _check_here(self, unified: UnifiedLog) -> None:
        if self._services.partitions.get(unified.topic_partition) is not unified:
            raise _Moved("it is no longer led here")
        if unified.partition.directory.offline is not None:
            raise _Moved("its log directory is offline")

    def _check_uncut(self, unified: UnifiedLog, job: CleanJob) -> None:
        """Raise `_Moved` also if the offsets of a job may be of records that are gone: none becomes the log's row."""
        self._check(unified)
        if not unified.log.compaction.is_as_it_was(job):
            raise _Moved("it was cut")

    async def _swap(self, unified: UnifiedLog, cleaned: CleanedSegment) -> None:
        compaction = unified.log.compaction
        if (swap := compaction.begin_replace(cleaned)) is None:
            raise _Moved("its segments have changed")
        try:
            await self._carry_out(unified, swap, swap.stage())
            self._check(unified)
            if cleaned.end_offset > unified.cleanable_below:  # an upload that is under way reads the file of this name
                raise _Moved("its topic is tiered since, and this is not archived yet")
            self._check_forgettable(unified, cleaned)
            if not compaction.put_in(swap):
                raise _Moved("its segments have changed")
            unified.log.forgotten.dropped(cleaned.counts.forgotten_below)
        except (_Moved, OSError):
            with suppress(_Moved):
                await self._retrying(unified, swap, swap.withdraw)
                compaction.withdrawn()
            raise
        await self._retrying(unified, swap, partial(compaction.retire, swap))
        unified.partition.directory.sync(unified.partition)

    async def _retrying(self, unified: UnifiedLog, swap: SegmentSwap, steps: Callable[[], Iterator[None]]) -> None:
        """A swap that has begun waits for room and for descriptors; it never stops half-way."""
        while True:
            try:
                return await self._carry_out(unified, swap, steps())
            except OSError as error:
                if error.errno not in SHORTAGES:
                    raise
            await asyncio.sleep(_SHORTAGE_WAIT_SECONDS)

    async def _carry_out(self, unified: UnifiedLog, swap: SegmentSwap, steps: Iterator[None]) -> None:
        """Rename files on the loop, so that no deletion comes between; a thread waits for the disk."""
        self._check_pending(unified, swap)
        for _ in steps:
            await asyncio.get_running_loop().run_in_executor(self._threads, swap.sync)
            self._check_pending(unified, swap)

    def _check_pending(self, unified: UnifiedLog, swap: SegmentSwap) -> None:
        self._check_here(unified)
        if not unified.log.compaction.is_pending(swap):
            raise _Moved("it was cut")

    async def _note_gaps(self, unified: UnifiedLog, end_offset: int) -> None:
        """Store the offset below which gaps may be, before the first gap exists. A start would take them for damage."""
        if unified.log.compaction.expect_gaps(end_offset, unified.cleanable_below):
            services = self._services
            directory = services.directories.of(unified.partition.directory)
            if not await services.slices.run(
                services.directories.keeping_bounds(directory, services.partitions.partitions)
            ):
                raise _Moved("its log directory could not take note of its gaps")

    async def _store_offset(self, unified: UnifiedLog, offset: int) -> None:
        files = self._services.directories.of(unified.partition.directory).files
        write = note_cleaner_offset(files, unified.topic_partition, offset)
        await asyncio.get_running_loop().run_in_executor(self._threads, write)

    # -- the worker -----------------------------------------------------------------------------------------------

    def _worker(self) -> Workers:
        return self.process.begin(max(self._services.config().integer("log.cleaner.threads"), 1))

    @property
    def worker(self) -> WorkerState | None:
        """State of the worker; None before the first compaction."""
        return None if self.process.workers is None else self.process.workers.state

    def _forget(self, session: int) -> None:
        if self.process.workers is not None and not self._closed:
            with suppress(Retriable):
                self.process.workers.submit(EndCleaning(session), lambda *_: None)

    # -- log lines -----------------------------------------------------------------------------------------------

    def _tell(
        self, unified: UnifiedLog, section: Section, built: MapBuilt, done: Iterable[CleanedSegment], seconds: float
    ) -> None:
        before = after = kept = records = 0
        for cleaned in done:
            size_bytes = sum(size for _, size in cleaned.replaces)
            before += size_bytes
            after += cleaned.size_bytes if cleaned.changed else size_bytes
            self.written_bytes += cleaned.size_bytes
            records += cleaned.counts.records
            kept += cleaned.counts.records_kept
        self.cleanings += 1
        self.read_bytes += before + section.dirty_bytes
        log.info(
            "%s: cleaned up to offset %d of %d in %.1f s: %d keys, %d of %d records and %d of %d bytes are left",
            unified.topic_partition, built.end_offset, section.end_offset, seconds, built.key_count, kept, records,
            after, before,
        )  # fmt: skip

    def _add_figures(self) -> None:
        add_cleaner_figures(
            self._services.metrics,
            uncleanable=self._uncleanable_counts,
            dirty_ratio=lambda: self._max_dirty_ratio,
            count=partial(getattr, self),
        )

    def _uncleanable_counts(self) -> dict[str, int]:
        counts = {directory.path: 0 for directory in self._services.directories.all}
        for unified in self.uncleanable():
            counts[unified.partition.directory.path] += 1
        return counts


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
