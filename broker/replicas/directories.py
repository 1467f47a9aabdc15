"""The broker's log directories: owned, locked, loaded, checkpointed, closed.

A directory belongs to one broker of one cluster (``meta.properties``) and to one process (``.lock``).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import chain
from typing import Protocol

from msgspec import Struct, field

from stratalog.broker.replicas.directory_loading import (
    Settled,
    check_formatted,
    cluster_id_of,
    load_directories,
    put_marks_back,
    release_loaded,
    report,
    settle,
)
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.runtime.ballast import NOTHING_SPARE, Ballast, Spare
from stratalog.broker.runtime.slices import to_the_end
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.workers.spawner import spawner_of
from stratalog.hot.checkpoint_steps import bounds_steps, high_watermark_steps, recovery_point_steps
from stratalog.hot.directory import LogDirectory
from stratalog.hot.gone_logs import begin_points, begun, has_lost
from stratalog.hot.leaving_logs import doom_left, make_way, set_log_aside
from stratalog.hot.log.log import Log
from stratalog.hot.log.sync import SyncTicket
from stratalog.hot.stale_rows import row_stores, rows_stored
from stratalog.hot.storage.checkpoint import (
    MetaProperties,
    write_meta_properties,
)
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.metadata.image.directory_ids import LOST
from stratalog.metadata.image.topic_names import CLUSTER_METADATA_TOPIC
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["Directories", "Directory", "Kept"]

_UUID_BYTES = 16

log = logging.getLogger(__name__)


class Kept(Protocol):
    """A log with its high watermark: a hosted partition, or the replica of the metadata log."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Its name."""

    @property
    def log(self) -> Log:
        """Its batches."""

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed."""

    @property
    def directory(self) -> DirectoryWriter:
        """Writes and syncs the log."""


Hosted = Callable[[], Iterable[Kept]]
"""The partitions of this broker in all directories, found anew for each draft of a checkpoint.

A topic may be deleted between two drafts: a row of its log would be that of the next log of its name, also after a kill.
"""


class Directory(Struct):
    """One log directory with its files, its writer and the lock that keeps other processes out."""

    files: LogDirectory
    writer: DirectoryWriter
    directory_id: bytes
    lock: int | None
    """None where the directory was offline from the start."""
    ballast: Ballast
    arriving: dict[TopicPartition, Kept] = field(default_factory=dict)
    """Logs that are about to move here: their rows are in the checkpoints already."""

    @property
    def path(self) -> str:
        """Where it is."""
        return self.files.path


class Directories:
    """All log directories of one broker."""

    def __init__(
        self, directories: Sequence[Directory], cluster_id: str, node_id: int, *, metadata_only: str | None = None
    ) -> None:
        """``metadata_only``: a directory that holds the metadata log and no topics."""
        self.all = list(directories)
        self.metadata_only = metadata_only
        self.metadata: Kept | None = None
        """The replica of the metadata log, once it is open: each checkpoint of its directory has its rows."""
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.settled = Settled([])
        """The moves between directories that the last stop has interrupted, as this start has left them."""

    @classmethod
    def open(
        cls,
        paths: Iterable[str],
        *,
        files: Filesystem,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        tick: Tick,
        sync_threads: Executor,
        on_failed: Callable[[DirectoryWriter, OSError], None],
        metadata_dir: str | None = None,
        metadata_only: str | None = None,
        spare: Spare = NOTHING_SPARE,
        may_format: bool = True,
    ) -> Directories:
        """Lock and load every directory; the first start gives the cluster its id, where ``may_format`` allows it.

        One whose disk fails is offline from the start, if another one holds topics; without ``metadata_dir`` there is no
        start. ``spare`` makes room on a full disk. Raises `Invalid` for a directory of another broker, cluster or
        process, `OSError` for one that cannot be used.
        """
        loaded = load_directories(paths, files, spare, needed=metadata_dir, metadata_only=metadata_only)
        usable = [one.files for one in loaded if one.error is None]
        try:
            if not may_format:
                check_formatted(usable)
            cluster_id = cluster_id_of(usable, node_id)
            settled = settle(loaded, metadata_only=metadata_only)
        except BaseException:
            release_loaded(loaded)
            raise
        directories = []
        for one in loaded:
            found = one.files
            if one.error is None and (found.owner is None or found.owner.directory_id is None):
                found.owner = MetaProperties(cluster_id, node_id, os.urandom(_UUID_BYTES))
                write_meta_properties(files, found.path, found.owner)
            writer = DirectoryWriter(
                found.path,
                loop=loop,
                tick=tick,
                sync_threads=sync_threads,
                on_failed=on_failed,
                kernel_sync=None if one.error is not None else spawner_of(loop).kernel_sync(found.path),
                offline=one.error,
            )
            directory_id = None if found.owner is None else found.owner.directory_id
            directories.append(Directory(found, writer, directory_id or LOST, one.lock, one.ballast))
            report(found)
        opened = cls(directories, cluster_id, node_id, metadata_only=metadata_only)
        opened.settled = settled
        return opened

    @property
    def is_partly_unread(self) -> bool:
        """Whether a directory was offline from the start, or is away: the logs that lie there are unknown."""
        return bool(self.settled.away) or any(directory.lock is None for directory in self.all)

    @property
    def ids(self) -> list[Uuid]:
        """The ids of all, also of those that have failed."""
        return [directory.directory_id for directory in self.all]

    @property
    def online(self) -> list[Directory]:
        """Those that have not failed."""
        return [directory for directory in self.all if directory.writer.offline is None]

    @property
    def with_topics(self) -> list[Directory]:
        """Those that have not failed and may hold topics."""
        return [directory for directory in self.online if directory.path != self.metadata_only]

    def holding(self, topic_partition: TopicPartition) -> list[Directory]:
        """The directories in which a partition's log already lies: one, but for a disk that was away."""
        return [directory for directory in self.all if topic_partition in directory.files.partitions]

    def that_lost(self, topic_partition: TopicPartition, placed_in: Uuid) -> Directory | None:
        """The directory that held a partition's log once, and does not any more; None if there is none.

        ``placed_in`` is the directory that the cluster's metadata name.
        """
        for directory in self.online:
            if directory.directory_id == placed_in and has_lost(directory.files, topic_partition):
                return directory
        return None

    def begun(self, topic_partition: TopicPartition) -> None:
        """A partition's log is there: it is gone from no directory."""
        for directory in self.all:
            begun(directory.files, topic_partition)

    def forget_gone(self, topic_partition: TopicPartition) -> None:
        """A partition's log that is gone is not missed: no directory has a row of it any more."""
        for directory in self.all:
            if topic_partition in directory.files.gone:
                directory.files.forget(topic_partition)

    def begin_points(self, is_placed_here: Callable[[TopicPartition], bool]) -> None:
        """The logs of the last run have been looked at: those that are not here from now on are new, but for these."""
        unread = [directory.path for directory in self.all if directory.lock is None]
        here = [directory.path for directory in self.all if directory.lock is not None]
        for directory in self.online:
            try:
                for name in [one for one in directory.files.gone if not is_placed_here(one)]:
                    directory.files.forget(name)
                begin_points(directory.files, here, unread)
            except OSError as error:
                directory.writer.report(error)

    def tell_without_topic(self, topic_ids: Container[Uuid]) -> None:
        """Name the directories of partitions whose topic is none of ``topic_ids``: deleted while this broker was away, or lost."""
        left = [
            one.path
            for directory in self.online
            for name, one in directory.files.partitions.items()
            if one.topic_id is not None and one.topic_id not in topic_ids and name.topic != CLUSTER_METADATA_TOPIC
        ]
        if left:
            log.warning(
                "%d directories are of partitions whose topics the cluster does not have, %s first: deleted while this broker "
                "was away, or forgotten by the cluster. They are kept; remove them if the topics were meant to go",
                len(left),
                left[0],
            )

    def set_moved_aside(self, is_held_elsewhere: Callable[[TopicPartition, Uuid], bool]) -> None:
        """At a start: keep the logs aside that the metadata gave to other brokers while this one was away, as Kafka does.

        They are not deleted: metadata that were restored may be older than the logs.
        """
        for directory in self.online:
            found = directory.files.partitions.values()
            moved = [
                one.topic_partition
                for one in found
                if one.topic_id and is_held_elsewhere(one.topic_partition, one.topic_id)
            ]
            try:
                kept = [self.set_log_aside(directory, name) for name in moved]
            except OSError as error:
                directory.writer.report(error)
                continue
            if kept:
                log.warning(
                    "%d partitions in %s lie on other brokers since this one was away; their logs are kept as %s and so on. Remove "
                    "them when the cluster is healthy",
                    len(kept),
                    directory.path,
                    kept[0],
                )

    def set_log_aside(self, directory: Directory, topic_partition: TopicPartition) -> str:
        """Move one log out of the way; the path where it is kept. Raises `OSError`."""
        return set_log_aside(directory.files, topic_partition, os.urandom(_UUID_BYTES))

    def make_way(self, directory: Directory, topic_partition: TopicPartition, topic_id: Uuid, *, is_only: bool) -> None:
        """Have no log of another topic bear this name, as `leaving_logs.make_way`. Raises `OSError`, `Corrupt`."""
        make_way(directory.files, topic_partition, topic_id, partial(os.urandom, _UUID_BYTES), is_only=is_only)

    def doom_left(self) -> None:
        """Rename the directories of partitions that have left and found no room for it then; those that find none wait on."""
        for directory in self.online:
            try:
                for name in list(directory.files.leaving):
                    doom_left(directory.files, name, partial(os.urandom, _UUID_BYTES))
            except OSError as error:
                directory.writer.report(error)

    def emptiest(self, partition_counts: dict[str, int]) -> Directory:
        """Where a new partition goes: the online directory with the fewest. Raises `OSError` if none is online."""
        if not self.with_topics:
            raise OSError("every log directory is offline")
        return min(self.with_topics, key=lambda directory: partition_counts.get(directory.path, 0))

    def of(self, writer: DirectoryWriter) -> Directory:
        """The directory of a writer."""
        return next(directory for directory in self.all if directory.writer is writer)

    def checkpoint(self, partitions: Iterable[Kept]) -> bool:
        """Write recovery points, log starts and high watermarks; False if any of it could not be written.

        A directory whose disk fails goes offline, one whose disk is full is tried again next time.
        """
        every = list(partitions)
        written = [to_the_end(self.checkpoint_steps(directory, lambda: every)) for directory in self.all]
        return all(written)

    def checkpoint_all_steps(self, hosted: Hosted) -> Generator[None, None, None]:
        """The same in steps."""
        for directory in self.all:
            yield from self.checkpoint_steps(directory, hosted)
            yield

    def checkpoint_steps(self, directory: Directory, hosted: Hosted) -> Generator[None, None, bool]:
        """The same for one directory and all partitions in it, in steps of some hundred rows each."""
        if directory.writer.offline is not None:
            return next(self._kept(directory, hosted), None) is None
        try:
            files, ballast = directory.files, directory.ballast
            stale = dict(files.stale)
            logs, marked = partial(self._logs, directory, hosted), dict[Log, int]()
            rows = partial(self._high_watermarks, directory, hosted, marked)
            ballast.lend((yield from high_watermark_steps(files, rows)))
            yield
            ballast.lend((yield from recovery_point_steps(files, logs, marked)))
            yield
            ballast.lend((yield from bounds_steps(files, logs)))
            for store in row_stores(files, stale):
                yield
                ballast.lend(store)
        except OSError as error:
            directory.writer.report(error)
            return False
        return True

    def keeping_bounds(self, directory: Directory, hosted: Hosted) -> Generator[None, None, bool]:
        """Write down the bounds of all logs in a directory, in steps; False if the disk does not take them."""
        try:
            directory.ballast.lend((yield from bounds_steps(directory.files, partial(self._logs, directory, hosted))))
        except OSError as error:
            directory.writer.report(error)
            return False
        return True

    def _kept(self, directory: Directory, hosted: Hosted) -> Iterator[Kept]:
        """The logs in a directory at this moment."""
        if self.metadata is not None and self.metadata.directory is directory.writer:
            yield self.metadata
        yield from (one for one in hosted() if one.directory is directory.writer)

    def _logs(self, directory: Directory, hosted: Hosted) -> Iterator[Log]:
        return (one.log for one in self._kept(directory, hosted))

    def _high_watermarks(
        self, directory: Directory, hosted: Hosted, marked: dict[Log, int]
    ) -> Iterator[tuple[TopicPartition, int]]:
        """The rows; ``marked`` gets the cuts that they stand behind."""
        for one in chain(list(directory.arriving.values()), self._kept(directory, hosted)):
            if one.log.cycles.noted_cut is not None:
                marked[one.log] = one.log.cycles.noted_cut
            yield one.topic_partition, one.high_watermark

    def hold_ballast(self) -> None:
        """Restore the ballast files as far as the disks have room."""
        for directory in self.online:
            directory.ballast.hold()

    def verified(self) -> None:
        """Clear the offline marks of an earlier run. Call it when every log was opened, verified and synced."""
        for directory in self.all:
            if directory.files.was_offline and directory.writer.offline is None and not directory.writer.postponed:
                try:
                    directory.files.clear_offline()
                except OSError as error:
                    directory.writer.report(error)

    async def recovered(self) -> None:
        """Wait until what the last run left in the logs is on the disk; whatever is copied meanwhile has no end."""
        while any(directory.writer.recovering for directory in self.all):  # noqa: ASYNC110 - once, at the start
            await asyncio.sleep(0.001)

    async def settle(self) -> None:
        """Wait until no write and no sync is left: a sync that fails makes the stop unclean."""
        while not all(directory.writer.idle for directory in self.all):  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0.001)

    def close(self, partitions: Iterable[Kept], *, broker_epoch: int, sync_threads: Executor) -> None:
        """Close every log, syncing in ``sync_threads``. Directories without a failure get the clean-shutdown mark."""

        def sync(tickets: Sequence[SyncTicket]) -> None:
            running = [sync_threads.submit(ticket.run) for ticket in tickets]
            failures = [error for one in running if (error := one.exception()) is not None]
            if failures:
                raise failures[0]

        for directory, mine in self._grouped(partitions):
            logs: dict[TopicPartition, Log] = {one.topic_partition: one.log for one in mine}
            try:
                if directory.writer.offline is None:
                    directory.files.write_high_watermarks({one.topic_partition: one.high_watermark for one in mine})
                    rows_stored(directory.files, dict(directory.files.stale))
                    directory.files.close(logs, broker_epoch=broker_epoch, sync=sync)
            except OSError as error:
                directory.writer.report(error)
        self.release()

    def release(self, *, untouched: bool = False) -> None:
        """Release the locks of all directories; ``untouched`` ones keep the mark of their last stop."""
        if untouched:
            put_marks_back(directory.files for directory in self.all)
        for directory in self.all:
            directory.writer.close()
            if directory.lock is not None:
                os.close(directory.lock)

    def _grouped(self, partitions: Iterable[Kept]) -> list[tuple[Directory, list[Kept]]]:
        grouped: dict[str, list[Kept]] = {directory.path: [] for directory in self.all}
        for partition in partitions:
            grouped[partition.directory.path].append(partition)
        return [(directory, grouped[directory.path]) for directory in self.all]
