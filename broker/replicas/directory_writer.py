"""Writes and syncs one log directory: the appends of a turn of the loop are written and synced together.

An append only queues. At the end of the turn every log that has something queued does one ``writev``; then one
sync cycle at a time covers all files that are dirty at its start; of those that no request waits for it takes a few. The next
cycle does not wait for a log with much to sync, whose own next sync does. Each log is notified of its own file as soon as
that one is on disk. A write or sync that fails takes the whole directory offline: it is never tried again on the same
descriptors, because the kernel may have dropped the pages and would report success (fsyncgate). A full disk is no
failure of that kind: what could not be written is forgotten and answered as an error, and appends go on when there
is room again. Neither is a lack of file descriptors, which says nothing about the disk.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice

from stratalog.broker.runtime.event_loop import add_reader, remove_reader
from stratalog.broker.runtime.tick import Tick
from stratalog.hot.log.log_owner import LogOwner
from stratalog.hot.log.sync import SyncTicket, outcome_of
from stratalog.hot.storage.kernel_sync import KernelSync
from stratalog.hot.storage.removed_log import RemovedLog
from stratalog.hot.storage.shortages import DISK_FULL, NO_DESCRIPTOR, SHORTAGES

__all__ = ["DirectoryWriter", "nothing_gives_way"]

INLINE_BYTES_MAX = 4 << 20
"""Bytes that one turn of the loop writes before it lets other connections in."""

LONG_SYNC_BYTES = 1 << 18
"""A sync of so much takes longer than a small one by what a client notices: a copy that is behind brings a batch of 1 MB at least."""

_SHORTAGE_TOLD_SECONDS = 30.0
_SHORTAGE_WAIT_SECONDS = 0.1
_TOGETHER = 256
"""Logs in a cycle above which a thread takes several at once. That halves the cost of each besides its sync."""
_A_THREAD_AT_ONCE = 16
_UNHURRIED_A_CYCLE = 64
"""So many of the logs that no request waits for: what else comes, the metadata log too, waits for them."""
_GONE = NO_DESCRIPTOR | {errno.ENOENT}
"""Errors that a sync may raise if its partition was removed meanwhile: its directory may have another name."""

log = logging.getLogger(__name__)


def nothing_gives_way(_path: str) -> None:
    """No cache lies on this disk, as far as is known."""


class DirectoryWriter:
    """The write and sync cycle of one directory. Lives on the event loop; only the syncs themselves leave it."""

    def __init__(
        self,
        path: str,
        *,
        loop: asyncio.AbstractEventLoop,
        tick: Tick,
        sync_threads: Executor,
        on_failed: Callable[[DirectoryWriter, OSError], None],
        kernel_sync: KernelSync[tuple[LogOwner, SyncTicket]] | None = None,
        offline: OSError | None = None,
    ) -> None:
        """``kernel_sync`` takes the syncs of plain files. Threads run those that it refuses, or all if it is None.

        ``offline``: why the directory cannot be used from the start.
        """
        self.path = path
        self.offline = offline
        self.sync_cycles = 0
        self._loop = loop
        self._tick = tick
        self._sync_threads = sync_threads
        self._on_failed = on_failed
        self.on_full: Callable[[str], None] = nothing_gives_way
        """Called with `path` when its disk is full, to make room for records. Raises nothing."""
        self.on_bounds_wait: Callable[[], None] | None = None
        """Called when the bounds of a log are to be written down soon; `unkept` has its owner."""
        self.unkept: dict[LogOwner, None] = {}
        self._kernel_sync = kernel_sync
        if kernel_sync is not None:
            add_reader(loop, kernel_sync.fileno(), partial(self._kernel_has_synced, kernel_sync))
        self._queued: dict[LogOwner, None] = {}
        self._dirty: dict[LogOwner, None] = {}
        self._unhurried: dict[LogOwner, None] = {}
        self._owners: dict[LogOwner, None] = {}
        self._refused: dict[LogOwner, None] = {}
        self.postponed: set[LogOwner] = set()
        """Logs whose syncs wait for room or descriptors, to be tried again."""
        self.recovering: set[LogOwner] = set()
        """Logs that `sync_together` took, until what they had then is on the disk, or their sync is postponed."""
        self._held: set[LogOwner] = set()
        self._syncing = 0
        """The syncs for which the next cycle waits."""
        self._long: set[LogOwner] = set()
        """Logs under a sync for which it does not."""
        self._growth_bytes: dict[LogOwner, int] = {}
        """Bytes written since the last sync of a log began."""
        self._shortage_told_again_at = 0.0

    def add(self, owner: LogOwner) -> None:
        """Take a log in."""
        self._owners[owner] = None

    def remove(self, owner: LogOwner) -> None:
        """Forget a log, which the caller closes or deletes."""
        self._owners.pop(owner, None)
        self._queued.pop(owner, None)
        self._dirty.pop(owner, None)
        self._unhurried.pop(owner, None)
        self._refused.pop(owner, None)
        self._growth_bytes.pop(owner, None)
        self.unkept.pop(owner, None)
        self.postponed.discard(owner)
        self.recovering.discard(owner)
        self._held.discard(owner)

    def hold(self, owner: LogOwner) -> None:
        """Write nothing that the owner's log queues from now on, until `let_go` or `remove`."""
        self._held.add(owner)

    def holds(self, owner: LogOwner) -> bool:
        """Whether the owner's log is held."""
        return owner in self._held

    def let_go(self, owner: LogOwner) -> None:
        """Write what a held log has queued, and go on; nothing happens to one that is not held."""
        if owner in self._held:
            self._held.discard(owner)
            self.enqueue(owner)

    def await_bounds(self, owner: LogOwner) -> None:
        """Have the bounds of the owner's log written down; ``on_flushed`` says that they are."""
        if self.offline is None and owner not in self.unkept:
            self.unkept[owner] = None
            if self.on_bounds_wait is not None:
                self.on_bounds_wait()

    def enqueue(self, owner: LogOwner) -> None:
        """Write the queued records of the owner's log at the end of this turn. An offline directory writes none."""
        if self.offline is not None:
            return
        if not self._queued:
            self._tick.defer(self._write)
        self._queued[owner] = None

    def _write(self) -> None:
        written_bytes = 0
        try:
            while self._queued and written_bytes < INLINE_BYTES_MAX:
                owner = next(iter(self._queued))
                del self._queued[owner]
                if owner in self._held:
                    continue
                size_bytes = owner.log.queued_bytes
                written_bytes += size_bytes
                self._write_one(owner, size_bytes)
        finally:  # a mistake in one owner may not keep the others waiting for ever
            if self._queued:
                self._loop.call_soon(self._write)
            if self._dirty and not self._syncing:
                self._begin_cycle()

    def _write_one(self, owner: LogOwner, size_bytes: int) -> None:
        try:
            owner.log.write_queued()
        except OSError as error:
            self.report(error, owner)
            return
        self._growth_bytes[owner] = self._growth_bytes.get(owner, 0) + size_bytes
        if owner.flush_due() or owner in self._unhurried:
            self._dirty[owner] = None
        owner.on_written()

    def report(self, error: OSError, owner: LogOwner | None = None) -> None:
        """Handle an error of this directory; ``owner`` is None if it concerns no log.

        After a full disk or a lack of descriptors, the log goes back to the end of its files and tries again.
        Files that wait for a sync stay open, so a lack of descriptors starts a sync. Any other error takes
        the directory offline.
        """
        if error.errno not in SHORTAGES:
            self.fail(error)
            return
        self._tell_shortage(error)
        if error.errno in NO_DESCRIPTOR and not self._syncing:
            for one in list(self._owners):
                self.sync(one)
        if owner in self._owners and self.offline is None:
            self._refused[owner] = None
            self.retry_refused()
            owner.on_write_refused(error)

    def _tell_shortage(self, error: OSError) -> None:
        if self._loop.time() < self._shortage_told_again_at:
            return
        self._shortage_told_again_at = self._loop.time() + _SHORTAGE_TOLD_SECONDS
        if error.errno in DISK_FULL:
            self.on_full(self.path)
            log.error(
                "the disk of %s is full (%s): appends fail until there is room, reads go on. The chunk cache gives way if "
                "it lies there; lower local.retention.bytes of tiered topics, or enlarge the file system",
                self.path,
                error,
            )
            return
        log.error(
            "no file descriptor is left for %s (%s): writes and syncs that need one fail until others are closed; raise the limit "
            "of open files (ulimit -n) or lower max.connections",
            self.path,
            error,
        )

    def retry_refused(self) -> None:
        """Take refused logs back to the end of their files; those that fail again stay refused."""
        for owner in list(self._refused):
            try:
                owner.log.discard_unwritten()
            except RemovedLog:  # its owner is no longer here, or leaves now
                pass
            except OSError as error:
                if error.errno not in SHORTAGES:
                    self.fail(error)
                    return
                continue
            del self._refused[owner]

    def sync(self, owner: LogOwner) -> None:
        """Bring the owner's log to disk in the next cycle, whatever its flush settings say."""
        if self.offline is None:
            self._dirty[owner] = None
            if not self._syncing:
                self._begin_cycle()

    def sync_unhurried(self, owner: LogOwner) -> None:
        """As `sync`, for a log that no request waits for before it is written; thousands may come at once."""
        if self.offline is None:
            self._unhurried[owner] = None
            if not self._syncing:
                self._begin_cycle()

    @property
    def unhurried_count(self) -> int:
        """The logs that `sync_unhurried` took and whose syncs have not begun; each holds its new files open."""
        return len(self._unhurried)

    def sync_together(self, owner: LogOwner) -> None:
        """As `sync`, for one of many: the cycle begins when enough have come, or with `begin_together`."""
        if self.offline is None:
            self._dirty[owner] = None
            self.recovering.add(owner)
            if len(self._dirty) >= _TOGETHER:
                self.begin_together()

    def begin_together(self) -> None:
        """Begin the cycle that waits for more logs."""
        if self._dirty and not self._syncing:
            self._begin_cycle()

    def _begin_cycle(self) -> None:
        tickets: list[tuple[LogOwner, SyncTicket]] = []
        much: set[LogOwner] = set()
        while not tickets and (due := self._due()):
            for owner in due:
                self._dirty.pop(owner, None)
                self._unhurried.pop(owner, None)
                if self._growth_bytes.pop(owner, 0) >= LONG_SYNC_BYTES:
                    much.add(owner)
            tickets = [(owner, ticket) for owner in due if (ticket := self._begin_sync(owner)) is not None]
            self.recovering -= set(due) - {owner for owner, _ in tickets} if self.recovering else set()
        if not tickets or self.offline is not None:
            return
        self.sync_cycles += 1
        self._long |= {owner for owner, _ in tickets if owner in much}
        self._syncing = sum(owner not in self._long for owner, _ in tickets)
        kernel_sync = self._kernel_sync
        rest = []
        for owner, ticket in tickets:
            if kernel_sync is not None and (file := ticket.only_file) is not None:
                kernel_sync.add(file.fileno(), (owner, ticket))
            else:
                rest.append((owner, ticket))
        step = 1 if len(rest) < _TOGETHER else _A_THREAD_AT_ONCE
        for first in range(0, len(rest), step):
            self._sync_threads.submit(self._run_syncs, rest[first : first + step])
        self._submit_to_kernel()

    def _due(self) -> list[LogOwner]:
        """The logs of the next cycle: not those that are under a long sync."""
        few = islice((owner for owner in self._unhurried if owner not in self._dirty), _UNHURRIED_A_CYCLE)
        return [owner for owner in (*self._dirty, *few) if owner not in self._long]

    def _begin_sync(self, owner: LogOwner) -> SyncTicket | None:
        """Collect the files to sync. If a small file finds no room beside the
        records, all of it is tried again later.
        """
        try:
            return owner.log.begin_sync()
        except OSError as error:
            if error.errno not in SHORTAGES:
                self.fail(error)
                return None
            self._tell_shortage(error)
            self.postponed.add(owner)
            self._loop.call_later(_SHORTAGE_WAIT_SECONDS, self._sync_postponed, owner)
            return None

    def _sync_postponed(self, owner: LogOwner) -> None:
        if owner in self.postponed:
            self.postponed.discard(owner)
            self.sync(owner)

    def _submit_to_kernel(self) -> None:
        """Start the added syncs. A thread takes those that the kernel refuses, and raises their errors."""
        if self._kernel_sync is not None:
            for owner, ticket in self._kernel_sync.submit():
                self._sync_threads.submit(self._run_sync, owner, ticket)

    def _kernel_has_synced(self, kernel_sync: KernelSync[tuple[LogOwner, SyncTicket]]) -> None:
        """Take the finished syncs; there are often several, whose answers leave together."""
        try:
            finished = kernel_sync.finished()
        except OSError as failure:  # it is unknown now which bytes are on disk
            self.fail(failure)
            return
        self._submit_to_kernel()
        for (owner, ticket), error in finished:
            if error is None:
                ticket.synced()
            try:
                self._synced(owner, ticket, error)
            except Exception:  # a mistake in one owner may not keep the others waiting for ever
                log.exception("a partition did not take the end of its sync")

    def _run_syncs(self, tickets: Sequence[tuple[LogOwner, SyncTicket]]) -> None:
        """Runs in a thread: touches nothing of the logs but their descriptors."""
        outcomes = [(owner, ticket, outcome_of(ticket)) for owner, ticket in tickets]
        self._loop.call_soon_threadsafe(self._all_synced, outcomes)

    def _all_synced(self, outcomes: Sequence[tuple[LogOwner, SyncTicket, OSError | None]]) -> None:
        for owner, ticket, error in outcomes:
            try:
                self._synced(owner, ticket, error)
            except Exception:  # a mistake in one owner may not keep the others waiting for ever
                log.exception("a partition did not take the end of its sync")

    def _run_sync(self, owner: LogOwner, ticket: SyncTicket) -> None:
        self._run_syncs([(owner, ticket)])

    def _synced(self, owner: LogOwner, ticket: SyncTicket, error: OSError | None) -> None:
        let_go = owner not in self._owners
        if error is not None and error.errno in NO_DESCRIPTOR and self.offline is None and not let_go:
            self._tell_shortage(error)  # its directory could not be opened; no page was lost
            self._loop.call_later(_SHORTAGE_WAIT_SECONDS, self._sync_threads.submit, self._run_sync, owner, ticket)
            return
        if owner in self._long:
            self._long.discard(owner)
        else:
            self._syncing -= 1
        if self.offline is not None:
            return
        if error is not None and not (let_go and error.errno in _GONE):
            self.fail(error)
            return
        try:
            if not let_go:  # else its directory may have been renamed under the sync: it was deleted
                self.recovering.discard(owner)
                owner.log.finish_sync(ticket)
                owner.on_flushed()
        finally:
            if not self._syncing and (self._dirty or self._unhurried):
                self._begin_cycle()

    def close(self) -> None:
        """Wait for the kernel's last syncs and close its queue. Call it when the logs are closed."""
        if self._kernel_sync is not None:
            remove_reader(self._loop, self._kernel_sync.fileno())
            self._kernel_sync.close()
            self._kernel_sync = None

    @property
    def idle(self) -> bool:
        """True if no write is queued and no sync runs."""
        return not (self._queued or self._dirty or self._unhurried or self._syncing or self._long)

    def fail(self, error: OSError) -> None:
        """Take the directory offline, once; not for a log that was removed while others worked on it."""
        if self.offline is not None or isinstance(error, RemovedLog):
            return
        self.offline = error
        log.error(
            "log directory %s is offline: %s. Its %d partitions answer KAFKA_STORAGE_ERROR; after the disk is "
            "repaired, restart the broker: it verifies the files from disk before it serves them.",
            self.path,
            error,
            len(self._owners),
        )
        self._queued.clear()
        self._dirty.clear()
        self._unhurried.clear()
        self.unkept.clear()
        self.postponed.clear()
        self.recovering.clear()
        self._on_failed(self, error)
        for owner in list(self._owners):
            owner.on_storage_failed(error)
