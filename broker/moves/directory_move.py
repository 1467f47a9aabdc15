"""One replica moves to another log directory of its broker: copied while it is served, then swapped in one turn of the loop.

.. code-block:: text

    pass after pass of the copier -- near the end --> rows of checkpoints, word to the controller
        --> writes are held, the last bytes, notes --> same files still? swap : let go, and another pass

A copy is no part of the log: role, clients, cleaner, retention and truncation go on as ever, and the next pass follows them.
Writes are held for the last bytes and their sync; appends wait that long, and no longer than `_HELD_SECONDS_MAX`. The swap
asks whether the log is what was copied, so nothing has to be kept away from it meanwhile. `stratalog.hot.moved_logs` has the
order on the disks. Source: KIP-113, KIP-858; Kafka's ``ReplicaAlterLogDirsThread`` copies records instead of files.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct

from stratalog.broker.replicas.directories import Directories, Directory
from stratalog.broker.replicas.hosted_partitions import HostedPartitions
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.slices import Slices
from stratalog.hot.cleaner_offsets import know_rows
from stratalog.hot.leaving_logs import doom_left, doom_partition
from stratalog.hot.log.log import Log
from stratalog.hot.log.moving import CopyView
from stratalog.hot.log_copy import PIECE_BYTES, LogCopy, SourceFailed
from stratalog.hot.moved_logs import (
    carry_rows,
    doom_copy,
    drop_notes,
    drop_origin,
    future_directory_name,
    note_origin,
    note_target,
    rows_carried,
    take_over,
)
from stratalog.metadata.quotas.replication_quota import ReplicationQuota
from stratalog.wire.errors import Corrupt

__all__ = ["DirectoryMove", "GivenUp", "MoveServices", "MoveThrottle"]

_LAST_BYTES: Final = 1 << 20
"""So much may be missing of a copy that is about to take the place of its log."""
_PIECE_BYTES_MIN: Final = 64 << 10
"""A throttled copy has pieces of this size; what is beyond the allowance is waited for afterwards."""
_HELD_SECONDS_MAX: Final = 1.0
"""Writes wait for the disk of the copy no longer than this; then they go on, and it is tried again."""
_LOOK_SECONDS: Final = 0.05
_TICKET_SECONDS: Final = 0.002
_THROTTLED_SECONDS_MAX: Final = 0.5
"""Between two looks at a throttle, whose rate may change."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class GivenUp(Exception):
    """The replica stays where it is."""


class MoveThrottle:
    """``replica.alter.log.dirs.io.max.bytes.per.second``, for all moves of a broker together."""

    def __init__(self, quota: ReplicationQuota, rate: Callable[[], int], monotonic: Callable[[], float]) -> None:
        """``rate`` is as it is now: it changes while the broker runs."""
        self._quota = quota
        self._rate = rate
        self._monotonic = monotonic

    def wait_seconds(self) -> float:
        """How long until something may be copied; infinite at a rate of 0."""
        return self._quota.wait_seconds(self._rate(), self._monotonic())

    def piece_bytes(self) -> int:
        """How large the next piece may be."""
        allowed = min(self._quota.allowed_bytes(self._rate(), self._monotonic()), PIECE_BYTES)
        return max(int(allowed), _PIECE_BYTES_MIN)

    def record(self, size_bytes: int) -> None:
        """So much was copied."""
        self._quota.record(size_bytes, self._rate(), self._monotonic())

    def byte_rate(self) -> float:
        """Bytes a second over the last windows."""
        return self._quota.byte_rate(self._monotonic())


class MoveServices(Struct, frozen=True, kw_only=True):
    """The parts of a broker that moves use."""

    clock: Clock
    directories: Directories
    hosted: HostedPartitions
    slices: Slices
    threads: Executor
    throttle: MoveThrottle
    is_cleaned: Callable[[UnifiedLog], bool]
    """Whether the cleaner works on a log."""
    cleaner_idle: Callable[[], bool]
    """Whether the cleaner works on none, and writes none of its checkpoints."""


class DirectoryMove:
    """The move of one replica, a task on the event loop; the files are copied by threads, one call at a time."""

    def __init__(self, services: MoveServices, unified: UnifiedLog, source: Directory, target: Directory) -> None:
        self._services = services
        self.unified = unified
        self.source = source
        self.target = target
        self.cancelled = False
        """Set to end the move; it looks at it between two pieces."""
        name = unified.topic_partition
        self.path = f"{target.path}/{future_directory_name(name, os.urandom(16))}"
        self._copy = LogCopy(source.files.files, self._log.directory, self.path, unified.topic_id)
        self._copied_bytes = 0
        self._rows_written = False
        self.is_over = False
        """Whether the log lies in the target."""

    @property
    def _log(self) -> Log:
        return self.unified.log

    @property
    def lag(self) -> int:
        """The offsets that the copy lacks."""
        return max(self._log.log_end_offset - max(self._copy.end_offset, self._log.first_base_offset), 0)

    def prepare(self) -> None:
        """Make the directory of the copy: by it the next start knows of the move. Raises `OSError`.

        The log of an earlier topic may still bear the name that the copy is to get.
        """
        doom_left(self.target.files, self.unified.topic_partition, partial(os.urandom, 16))
        self.target.files.files.make_directory(self.path)

    def withdraw(self) -> None:
        """Undo `prepare`, in a move that has not run: the directory is empty. Raises `OSError`."""
        self.target.files.files.remove_directory(self.path)

    async def run(self) -> None:
        """Copy and swap. Raises `GivenUp`; then `clean_up` is due."""
        self._check()
        started = self._services.clock.monotonic()
        name = self.unified.topic_partition
        log.info("%s moves from %s to %s", name, self.source.path, self.target.path)
        with self._failures():
            await self._in_thread(partial(self._drop_notes, self._log.directory))
            await self._in_thread(self._copy.begin)
        while not await self._step():
            pass
        seconds = self._services.clock.monotonic() - started
        log.info("%s lies in %s now: %d bytes in %.1f s", name, self.target.path, self._copied_bytes, seconds)
        with self._failures():
            await self._in_thread(partial(drop_origin, self.target.files.files, self._log.directory))

    async def _step(self) -> bool:
        """One pass, or what is due next; True when the log has moved."""
        self._check()
        moving, view = self._log.moving, self._log.moving.view()
        with self._failures():
            # A swap of the cleaner that finds no room may wait for minutes: till then there is no file to copy.
            if view.is_settled and not self._copy.is_near(view, _LAST_BYTES):
                await self._pass(view)
                return False
            is_busy = moving.why_not() is not None or self._services.is_cleaned(self.unified)
            if not is_busy and await self._is_told():
                return await self._finish()
        await asyncio.sleep(_LOOK_SECONDS)
        return False

    def _check(self) -> None:
        """Raise `GivenUp` where the move has no end any more."""
        if self.cancelled:
            raise GivenUp("it was cancelled")
        if not self._is_here:
            raise GivenUp("the replica is not here any more")
        for directory in (self.source, self.target):
            if directory.writer.offline is not None:
                raise GivenUp(f"{directory.path} is offline")

    @property
    def _is_here(self) -> bool:
        return self._services.hosted.table.get(self.unified.topic_partition) is self.unified

    # -- copying ----------------------------------------------------------------------------------------------

    async def _pass(self, view: CopyView) -> None:
        """Copy what is missing at ``view``, as fast as the throttle allows."""
        throttle = self._services.throttle
        pieces = self._copy.copying(view)
        try:
            while True:
                self._check()
                wait_seconds = throttle.wait_seconds()
                if wait_seconds > 0:
                    await asyncio.sleep(min(wait_seconds, _THROTTLED_SECONDS_MAX))
                elif not await self._copy_piece(pieces):
                    return
        finally:
            pieces.close()

    async def _copy_piece(self, pieces: Generator[int, None, None]) -> bool:
        """False at the end of the pass."""
        self._copy.allowed_bytes = self._services.throttle.piece_bytes()
        size_bytes = await self._in_thread(partial(next, pieces, None))
        if size_bytes is None:
            return False
        self._services.throttle.record(size_bytes)
        self._copied_bytes += size_bytes
        return True

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Also when the task is cancelled its thread comes to an end first."""
        running = asyncio.get_running_loop().run_in_executor(self._services.threads, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    def _drop_notes(self, path: str) -> None:
        """Remove the notes of a move in the log. Runs in a thread."""
        try:
            drop_notes(self.source.files.files, path)
        except OSError as error:
            raise SourceFailed(error) from error

    @contextmanager
    def _failures(self) -> Generator[None, None, None]:
        """Report a disk that fails. Files that have left the log meanwhile are no failure, nor a log that has. Raises `GivenUp`."""
        try:
            yield
        except SourceFailed as failure:
            if not isinstance(failure.error, FileNotFoundError):
                self.source.writer.report(failure.error, self.unified.partition)
                raise GivenUp(f"{self.source.path} fails: {failure.error}") from failure
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not self._is_here:
                return
            self.target.writer.report(error)
            raise GivenUp(f"{self.target.path} does not take it: {error}") from error
        except Corrupt as error:
            raise GivenUp(f"its log is damaged: {error}") from error

    # -- before the swap --------------------------------------------------------------------------------------

    async def _is_told(self) -> bool:
        """Whether the checkpoints of the target and the controller know that the log comes to lie there."""
        source, target = self.source.files, self.target.files
        if not self._rows_written or not rows_carried(source, target, self._log):
            if self._log.may_have_gaps and not self._services.cleaner_idle():
                return False
            self.target.arriving[self.unified.topic_partition] = self.unified.partition
            carry_rows(source, target, self._log)
            steps = self._services.directories.checkpoint_steps(self.target, self._services.hosted.table.partitions)
            self._rows_written = await self._services.slices.run(steps)
            self._check()
            return False
        return self._services.hosted.placing.announce(self.unified, self.target.directory_id)

    # -- the swap ---------------------------------------------------------------------------------------------

    async def _finish(self) -> bool:
        """Hold writes, copy the rest, and swap; False if the log has changed meanwhile: another pass is due."""
        partition, log_, writer = self.unified.partition, self._log, self.source.writer
        try:
            log_.write_queued()
            log_.moving.begin()
        except OSError as error:
            writer.report(error, partition)
            return False
        writer.hold(partition)
        timer = asyncio.get_running_loop().call_later(_HELD_SECONDS_MAX, writer.let_go, partition)
        try:
            view = log_.moving.view()
            pieces = self._copy.copying(view)
            while await self._copy_piece(pieces):
                pass
            await self._in_thread(partial(self._seal, log_.leader_epochs.to_bytes()))
            while not log_.moving.is_at(view):
                if not writer.holds(partition) or log_.moving.view() != view:
                    return False
                writer.sync(partition)
                await asyncio.sleep(_TICKET_SECONDS)
            self._check()
            rows = rows_carried(self.source.files, self.target.files, log_)
            if not rows or self._services.is_cleaned(self.unified) or not writer.holds(partition):
                return False
            self._swap()
        finally:
            timer.cancel()
            writer.let_go(partition)
        return True

    def _seal(self, leader_epochs: bytes) -> None:
        """The copy is complete: note so on both disks. Runs in a thread."""
        files = self.source.files.files
        self._copy.finish(leader_epochs)
        note_origin(files, self.path, self.source.directory_id)
        try:
            note_target(files, self._log.directory, self.target.directory_id)
        except OSError as error:
            raise SourceFailed(error) from error

    def _swap(self) -> None:
        """In one turn of the loop: no append, no truncation and no other change of the log comes between."""
        services, log_, name = self._services, self._log, self.unified.topic_partition
        source, target = self.source, self.target
        try:
            take_over(source.files, target.files, log_, self.path)
        except SourceFailed as failure:
            # Also for want of room: another write could be lost to the copy at the next start.
            source.writer.fail(failure.error)
            raise
        try:
            doom_partition(source.files, name, os.urandom(16))
        except OSError as error:
            source.files.forget(name)
            source.writer.report(error)
        log_.moving.relocate(target.files.partition_path(name))
        know_rows(target.files, log_)
        target.arriving.pop(name, None)
        self.is_over = True
        self.unified.partition.move_to(target.writer)
        services.hosted.logs.moved(source, target)
        services.hosted.placing.settled(self.unified)

    # -- the end of a move that did not come to its end ---------------------------------------------------------

    async def clean_up(self) -> None:
        """Remove the copy, unless it is the only one that can be read."""
        self.target.arriving.pop(self.unified.topic_partition, None)
        if self._is_here:
            self._services.hosted.placing.settled(self.unified)
        self.drop_rows()
        await self._drop_source_notes()
        if self.target.writer.offline is not None:
            return
        if self._is_here and self.source.writer.offline is not None:
            log.warning("%s, an unfinished copy of %s, is kept", self.path, self._log.directory)
            return
        try:
            await self._in_thread(partial(doom_copy, self.target.files, self.path))
        except FileNotFoundError:
            return
        except OSError as error:
            self.target.writer.report(error)

    def drop_rows(self) -> None:
        """Have the target forget the rows that went ahead of the log: at once where the replica is no longer here.

        A log of its name that is begun there before the move ends would begin with them, at the start of another topic's log.
        """
        if not self._has_log:
            self.target.arriving.pop(self.unified.topic_partition, None)
            self.target.files.forget(self.unified.topic_partition)

    @property
    def _has_log(self) -> bool:
        """Whether a log of this name lies in the target: this one, or that of a topic which was made again."""
        name = self.unified.topic_partition
        hosted = self._services.hosted.table.get(name)
        is_hosted = hosted is not None and hosted.partition.directory is self.target.writer
        return is_hosted or name in self.target.files.partitions

    async def _drop_source_notes(self) -> None:
        """The log goes on: a later start must not take another one in the target for its copy."""
        if self.is_over or not self._is_here or self.source.writer.offline is not None:
            return
        with suppress(GivenUp), self._failures():
            await self._in_thread(partial(self._drop_notes, self._log.directory))
