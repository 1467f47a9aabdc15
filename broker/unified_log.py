"""One offset space over two places: what is on the local disk, and what only the archive still holds.

.. code-block:: text

    log start ........ local log start ........ high watermark ... log end
    |--- archive only ---|-- both, read locally --|--- local ---|

Offsets held in both places are served locally. A reader that loses the race against eviction is answered from
the archive on its next try, never with OFFSET_OUT_OF_RANGE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stratalog.broker.aborted_entries import AbortedRange, aborted_entries
from stratalog.broker.metrics import TopicMetrics
from stratalog.broker.partition import Partition
from stratalog.hot.batch_search import BatchSearch, TimestampOffset
from stratalog.hot.log import Log
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.parts import FileSlice
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["LogRead", "RemoteRead", "RemoteReader", "SearchBatch", "UnifiedLog"]

SearchBatch = Callable[[BatchSearch], Awaitable[TimestampOffset | None]]
"""Opens a batch, which may take long, without stopping the event loop. Raises `Corrupt`, `Retriable`."""


class RemoteRead(Protocol):
    """What the archive gives at once: slices of cached chunks."""

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
        """``reader`` reads ``offset`` from the local disk; it may have come from the archive."""
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


@dataclass(slots=True)
class LogRead:
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
    """The leader of a partition together with its archive."""

    __slots__ = ("metrics", "partition", "remote", "topic_id", "topic_partition")

    def __init__(self, partition: Partition, metrics: TopicMetrics, remote: RemoteReader | None = None) -> None:
        self.partition = partition
        self.metrics = metrics
        self.remote = remote
        self.topic_partition: TopicPartition = partition.topic_partition
        self.topic_id: Uuid = partition.topic_id

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

        That is the high watermark or, if it reads what is ``committed``, the last stable offset: such a reader is told
        of the aborted transactions that overlap. Raises OFFSET_OUT_OF_RANGE outside [log start, log end],
        KAFKA_STORAGE_ERROR while offline.
        """
        log = self.partition.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition} is outside [{log.log_start_offset}, {log.log_end_offset}]",
            )
        if offset >= limit:
            return LogRead(next_offset=offset)
        if offset < log.local_log_start_offset:
            return self._read_remote(reader, offset, max_bytes, committed=committed, min_one_batch=min_one_batch)
        if self.remote is not None:
            self.remote.crossed(reader, offset)
        local = log.read(offset, max_bytes=max_bytes, max_offset=limit, min_one_batch=min_one_batch)
        found = LogRead(local.parts, local.size_bytes, local.next_offset)
        if committed and local.size_bytes and (entries := log.aborted_transactions(offset, local.next_offset)):
            found.aborted = aborted_entries(entries, offset, local.next_offset)
        return found

    def _read_remote(
        self, reader: object, offset: int, max_bytes: int, *, committed: bool, min_one_batch: bool
    ) -> LogRead:
        remote = self.remote
        if remote is None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"offset {offset} of {self.topic_partition} is not on this disk, which begins at "
                f"{self.log.local_log_start_offset}, and the topic has no archive here",
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

        What is evicted while it is being looked for is looked for in the archive, too. Raises `KafkaError`,
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
                step = self.log.timestamp_search(timestamp_ms, from_offset, max_offset=limit)
                if step is None:
                    return None
                found = await (search(step) if isinstance(step, BatchSearch) else asyncio.sleep(0, None))
                next_offset = step.next_offset
            if found is None:
                from_offset = next_offset
            elif found.offset >= self.log_start_offset:
                return found
            from_offset = max(from_offset, self.log_start_offset)

    def archived_part(self, timestamp_ms: int) -> RemoteReader | None:
        """The archive, if a look-up for this time must begin there."""
        remote = self._deeper()
        return remote if remote is not None and remote.may_hold(timestamp_ms, self.log.local_log_start_offset) else None

    async def find_max_timestamp(self, search: SearchBatch) -> TimestampOffset | None:
        """The first record with the largest timestamp, archived or local. Raises as `find_timestamp`."""
        step = self.log.max_timestamp_search()
        best = await search(step) if isinstance(step, BatchSearch) else step
        remote = self._deeper()
        if remote is not None:
            archived = await remote.find_max_timestamp(self.log.local_log_start_offset)
            if archived is not None and (best is None or archived.timestamp_ms >= best.timestamp_ms):
                best = archived
        return best

    def _deeper(self) -> RemoteReader | None:
        """The archive, where it reaches further back than the local disk."""
        return self.remote if self.log_start_offset < self.log.local_log_start_offset else None
