"""One offset space over two places: what is on the local disk, and what only the archive still holds.

.. code-block:: text

    log start ........ local log start ........ high watermark ... log end
    |--- archive only ---|-- both, read locally --|--- local ---|

Offsets held in both places are served locally. A reader that loses the race against eviction is answered from
the archive on its next try, never with OFFSET_OUT_OF_RANGE.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct, field

from stratalog.broker.replicas.aborted_entries import AbortedRange, aborted_entries
from stratalog.broker.replicas.asked_offsets import AskedOffsets
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replicas.recovery_report import missing_sentence
from stratalog.broker.runtime.metrics import TopicMetrics
from stratalog.hot.config import LONG_MAX
from stratalog.hot.log.log import Log
from stratalog.hot.log.read import CHECKED_BYTES_MAX, LocalRead, check_batches
from stratalog.hot.log.times import ScanOn
from stratalog.hot.recovery.missing import MissingRange
from stratalog.hot.segments.batch_search import BatchSearch, TimestampOffset
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.parts import FileSlice
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["LogRead", "RemoteRead", "RemoteReader", "SearchBatch", "UnifiedLog"]

log = logging.getLogger(__name__)

SearchBatch = Callable[[BatchSearch], Awaitable[TimestampOffset | None]]
"""Opens a batch, which may take long, without stopping the event loop. Raises `Corrupt`, `Retriable`."""


class RemoteRead(Protocol):
    """The part of the archive that can be read at once: slices of cached chunks."""

    @property
    def parts(self) -> Sequence[FileSlice]:
        """Slices of cache files, in order."""
        ...

    @property
    def size_bytes(self) -> int:
        """Their bytes."""
        ...

    @property
    def next_offset(self) -> int:
        """Where the next read goes on."""
        ...

    @property
    def aborted(self) -> Sequence[AbortedRange]:
        """The aborted transactions that overlap, in any order; one that reaches over many objects many times."""
        ...


class RemoteReader(Protocol):
    """The archive of one partition as its readers see it."""

    @property
    def start_offset(self) -> int:
        """The first archived offset."""
        ...

    @property
    def end_offset(self) -> int:
        """The remote end: behind the last archived offset."""
        ...

    @property
    def known(self) -> bool:
        """Whether these offsets were read from the archive, now or earlier."""
        ...

    @property
    def archive_clean_offset(self) -> int:
        """Up to here the archive has been compacted; 0 while that is not known."""
        ...

    def read(self, reader: object, offset: int, max_bytes: int, *, min_one_batch: bool) -> RemoteRead | None:
        """Cached bytes from the batch of ``offset`` on, or None while they are being fetched.

        ``reader`` tells streams apart for read-ahead. It is woken when what it waits for is cached, and with all
        others by the partition's watchers when more is known of the archive.
        """
        ...

    def throttle_ms(self, reader: object) -> int:
        """How long the reader waits for its turn to have something fetched; 0 if it does not."""
        ...

    def crossed(self, reader: object, offset: int) -> None:
        """``reader`` goes on at ``offset`` without the archive; it may have come from there."""
        ...

    def end_reads(self) -> None:
        """The partition is read here no longer: nothing is kept for its readers."""
        ...

    def may_hold(self, timestamp_ms: int, before_offset: int) -> bool:
        """Whether the manifest admits a record at or after this time below ``before_offset``."""
        ...

    async def find_timestamp(self, timestamp_ms: int, from_offset: int, before_offset: int) -> TimestampOffset | None:
        """The first archived record at or after a time in ``[from_offset, before_offset)``. Raises `KafkaError`."""
        ...

    async def find_max_timestamp(self, before_offset: int) -> TimestampOffset | None:
        """The first archived record with the largest timestamp below ``before_offset``. Raises `KafkaError`."""
        ...


class LogRead(Struct):
    """Part of an answer to a fetch. ``pending``: the archive is being asked; try again when woken.

    ``throttle_ms``: it is not being asked yet, because others, or this client, have asked for so much.
    """

    parts: Sequence[FileSlice] = ()
    size_bytes: int = 0
    next_offset: int = -1
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """(producer id, first offset) of aborted transactions that overlap: each once, by first offset."""
    pending: bool = False
    remote: bool = False
    throttle_ms: int = 0


class UnifiedLog:
    """A hosted partition together with its archive."""

    __slots__ = (
        "asked",
        "awaits_copies",
        "comparison_owed",
        "is_bare",
        "metrics",
        "on_damaged",
        "partition",
        "remote",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, partition: Partition, metrics: TopicMetrics, remote: RemoteReader | None = None) -> None:
        self.partition = partition
        self.metrics = metrics
        self.remote = remote
        self.asked = AskedOffsets()
        self.awaits_copies = False
        """Whether a replica is out of sync: it copies on from where it was, and what goes meanwhile it never hears of."""
        self.is_bare = False
        """Whether its log has a past and was not there, and it has not led since."""
        self.comparison_owed = False
        """Whether it was held back to be compared with its archive, and has not been: the leadership may have ended before."""
        self.on_damaged: Callable[[UnifiedLog], None] = _nothing_follows
        """Called when a range has been found that this disk has lost."""
        self.topic_partition: TopicPartition = partition.topic_partition
        self.topic_id: Uuid = partition.topic_id

    def copied(self) -> None:
        """Its copy from a leader ends: a log that has all that its leader said to be committed owes no comparison."""
        follower = self.partition.follower
        if follower is not None and follower.leader_high_watermark >= 0 and not follower.lag:
            self.comparison_owed = False

    @property
    def cleanable_below(self) -> int:
        """Exclusive upper bound for cleaning: the last stable offset, or what is on the disk; of a tiered topic the archive's end, too."""
        limit = min(self.partition.last_stable_offset, self.log.flushed_offset)
        if not self.log.config.remote_storage_enable:
            return limit
        return min(limit, 0 if self.remote is None else self.remote.end_offset)

    @property
    def forgettable_below(self) -> int:
        """Tombstones and markers below this offset may go: no replica and, of a tiered topic, no archive still has records they end."""
        if self.awaits_copies:
            return 0
        if not self.log.config.remote_storage_enable:
            return LONG_MAX
        return 0 if self.remote is None else self.remote.archive_clean_offset

    @property
    def log(self) -> Log:
        """The local log."""
        return self.partition.log

    @property
    def log_start_offset(self) -> int:
        """The first offset anyone may read, local or remote."""
        return self.partition.log.log_start_offset

    def read(
        self, reader: object, offset: int, *, limit: int, max_bytes: int, committed: bool, min_one_batch: bool
    ) -> LogRead:
        """Whole batches from the one that holds ``offset``, below ``limit``, up to which the reader may see.

        That is the high watermark or, if it reads what is ``committed``, the last stable offset: such a reader also
        gets the aborted transactions that overlap. Where the disk is damaged the archive is read; `MissingRange` is
        raised where it has not got that far. Raises OFFSET_OUT_OF_RANGE outside [log start, log end],
        KAFKA_STORAGE_ERROR while offline.
        """
        log = self.partition.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition} is outside [{log.log_start_offset}, {log.log_end_offset}]",
            )
        if offset >= limit:
            self.leave_archive(reader, offset)
            return LogRead(next_offset=offset)
        if offset < log.local_log_start_offset:
            return self._read_remote(reader, offset, limit, max_bytes, committed=committed, min_one_batch=min_one_batch)
        try:
            local = log.read(offset, max_bytes=max_bytes, max_offset=limit, min_one_batch=min_one_batch)
            if local.size_bytes and self._is_asked_again(reader, offset):
                local = self.checked(local, offset, limit)
        except (MissingRange, UnreadableBatch) as damage:
            missing = self.missing_after(damage)
            if offset < missing.base_offset:  # what comes before is sound
                return self.read(
                    reader, offset, limit=limit, max_bytes=max_bytes, committed=committed, min_one_batch=min_one_batch
                )
            if not self.is_archived(offset):
                raise missing from damage
            return self._read_remote(reader, offset, limit, max_bytes, committed=committed, min_one_batch=min_one_batch)
        self.leave_archive(reader, offset)
        found = LogRead(local.parts, local.size_bytes, local.next_offset)
        if committed and local.size_bytes and (entries := log.aborted_transactions(offset, local.next_offset)):
            found.aborted = aborted_entries(entries, offset, local.next_offset)
        return found

    def leave_archive(self, reader: object, offset: int) -> None:
        """The reader goes on at ``offset`` on this disk, at another broker, or when more is written: no chunks are kept for it."""
        if self.remote is not None:
            self.remote.crossed(reader, offset)

    def _is_asked_again(self, reader: object, offset: int) -> bool:
        """Whether what was read is to be checked: of frozen segments, and of the active one what the same reader reads again."""
        if offset < self.log.active_base_offset:
            return self.asked.again(offset)
        return self.partition.others_have_it and self.asked.again(hash((reader, offset)))

    def checked(self, local: LocalRead, offset: int, limit: int) -> LocalRead:
        """Check what was read from ``offset``, and return it: only so much as was checked, where other replicas have the rest.

        A part that cannot be read ends the connection while it is sent: its reader would ask for the same again, for ever.
        Raises `UnreadableBatch`, `OSError`.
        """
        log, parts = self.log, local.parts
        if self.partition.others_have_it:
            if local.size_bytes > CHECKED_BYTES_MAX:
                local = log.read(offset, max_bytes=CHECKED_BYTES_MAX, max_offset=limit, min_one_batch=True)
            parts = local.parts
        elif offset < log.active_base_offset < local.next_offset:
            parts = parts[:-1]  # damage of the active segment could not be set aside
        check_batches(parts, offset, log.gaps.below)
        return local

    def missing_after(self, damage: MissingRange | UnreadableBatch) -> MissingRange:
        """The range that cannot be read from the disk because of the damage a reader met there; logs it.

        Raises ``damage`` itself if it is of the active segment and no other replica has its records, and `OSError`.
        """
        if isinstance(damage, MissingRange):
            return damage
        missing = self.log.set_aside(damage, rolls=self.partition.others_have_it)
        if missing is None:
            raise damage
        log.error("%s", self.missing_sentence(missing))
        self.on_damaged(self)
        return missing

    def missing_sentence(self, missing: MissingRange) -> str:
        """The words about a range that this disk has lost."""
        remote_end = None if self.remote is None else self.remote.end_offset
        return missing_sentence(self.topic_partition, remote_end, missing, others_have_it=self.partition.others_have_it)

    def is_archived(self, offset: int) -> bool:
        """Whether the archive, as it is known, has the offset."""
        return self.remote is not None and self.remote.start_offset <= offset < self.remote.end_offset

    def _read_remote(
        self, reader: object, offset: int, limit: int, max_bytes: int, *, committed: bool, min_one_batch: bool
    ) -> LogRead:
        remote = self.remote
        if remote is None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"offset {offset} of {self.topic_partition} is not on this disk, which begins at "
                f"{self.log.local_log_start_offset}, and the topic has no archive here",
            )
        found = remote.read(reader, offset, max_bytes, min_one_batch=min_one_batch)
        while found is not None and not found.size_bytes and offset < found.next_offset:
            offset = found.next_offset  # the archive has a hole: its reader would ask for it again, and never for more
            if offset >= self.log.local_log_start_offset:
                return self.read(
                    reader, offset, limit=limit, max_bytes=max_bytes, committed=committed, min_one_batch=min_one_batch
                )
            found = remote.read(reader, offset, max_bytes, min_one_batch=min_one_batch)
        if found is None:
            return LogRead(next_offset=offset, pending=True, remote=True, throttle_ms=remote.throttle_ms(reader))
        aborted = aborted_entries(found.aborted, offset, found.next_offset) if committed and found.aborted else []
        return LogRead(found.parts, found.size_bytes, found.next_offset, aborted, remote=True)

    def offset_for_leader_epoch(self, epoch: int) -> tuple[int, int]:
        """``(epoch, end offset)``: the largest epoch not above ``epoch`` and where it ends (KIP-101, KIP-320)."""
        end = self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)
        return end.epoch, end.end_offset

    async def find_timestamp(
        self, timestamp_ms: int, *, committed: bool, search: SearchBatch
    ) -> TimestampOffset | None:
        """The first record at or after a time that consumers may see, archived or local.

        A segment that is evicted during the search is searched in the archive, too. Raises `KafkaError`,
        `Retriable`, `OSError`, `Corrupt`.
        """
        from_offset = self.log_start_offset
        while True:
            border = self.log.local_log_start_offset
            if from_offset < border:
                remote = self.archived_part(timestamp_ms)
                found = None if remote is None else await remote.find_timestamp(timestamp_ms, from_offset, border)
                next_offset = border
            else:
                limit = self.partition.last_stable_offset if committed else self.partition.high_watermark
                step = self._local_step(timestamp_ms, from_offset, limit)
                if step is None:
                    return None
                found = await self._found_by(step, timestamp_ms, from_offset, search)
                next_offset = step.next_offset
            if found is None:
                from_offset = next_offset
            elif found.offset >= self.log_start_offset:
                return found
            from_offset = max(from_offset, self.log_start_offset)

    def _local_step(
        self, timestamp_ms: int, from_offset: int, limit: int
    ) -> BatchSearch | ScanOn | MissingRange | None:
        while True:
            try:
                return self.log.timestamp_search(timestamp_ms, from_offset, max_offset=limit)
            except MissingRange as missing:
                return missing
            except UnreadableBatch as damage:
                self.missing_after(damage)  # and the search comes to it

    async def _found_by(
        self, step: BatchSearch | ScanOn | MissingRange, timestamp_ms: int, from_offset: int, search: SearchBatch
    ) -> TimestampOffset | None:
        if isinstance(step, BatchSearch):
            return await search(step)
        if isinstance(step, ScanOn):
            return await asyncio.sleep(0, None)
        start, remote = max(from_offset, step.base_offset), self.remote
        if remote is None or not self.is_archived(start):
            raise step
        end = min(step.end_offset, remote.end_offset)
        found = await remote.find_timestamp(timestamp_ms, start, end)
        if found is None and end < step.end_offset:
            raise step
        return found

    def archived_part(self, timestamp_ms: int) -> RemoteReader | None:
        """The archive, if a look-up for this time must begin there."""
        remote = self._deeper()
        return remote if remote is not None and remote.may_hold(timestamp_ms, self.log.local_log_start_offset) else None

    async def find_max_timestamp(self, search: SearchBatch) -> TimestampOffset | None:
        """The first record with the largest timestamp, archived or local. Raises as `find_timestamp`."""
        step = self._max_timestamp_step()
        best = await search(step) if isinstance(step, BatchSearch) else step
        missing_end = max((one.end_offset for one in self.log.missing_ranges()), default=0)
        remote = self._deeper() if not missing_end else self.remote
        if remote is not None:
            before_offset = max(self.log.local_log_start_offset, min(missing_end, remote.end_offset))
            archived = await remote.find_max_timestamp(before_offset)
            if archived is not None and (best is None or _is_before(archived, best)):
                best = archived
        return best

    def _max_timestamp_step(self) -> BatchSearch | TimestampOffset | None:
        while True:
            try:
                return self.log.max_timestamp_search()
            except UnreadableBatch as damage:
                self.missing_after(damage)

    def _deeper(self) -> RemoteReader | None:
        """The archive, where it reaches further back than the local disk."""
        return self.remote if self.log_start_offset < self.log.local_log_start_offset else None


def _nothing_follows(_damaged: UnifiedLog) -> None:
    """Only what is hosted is put in order."""


def _is_before(one: TimestampOffset, other: TimestampOffset) -> bool:
    """Whether a record has the larger timestamp, or the same one and stands before the other."""
    return (-one.timestamp_ms, one.offset) < (-other.timestamp_ms, other.offset)
