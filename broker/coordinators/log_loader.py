"""Reading a coordinator's log into its shard, in steps short enough for other requests to be served meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final

from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.partition import Partition
from stratalog.hot.log.log import Log
from stratalog.hot.state.validation import read_end_marker
from stratalog.metadata.coordination import CoordinatorShard, Producer
from stratalog.wire.batch import BatchHeader, check_batch, iter_headers, iter_records
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.parts import FileSlice

__all__ = ["load_log", "until_loadable"]

_READ_BYTES: Final = 256 << 10
_STEP_SECONDS: Final = 0.002
_LOOKED_EVERY: Final = 64
"""Records between two looks at the clock."""

log = logging.getLogger(__name__)


async def until_loadable(partition: Partition, leader: Leader) -> bool:
    """Wait until all that the log has now is committed and in its files; False if ``leader`` ends before.

    A record above the high watermark may be gone with the next leader: a coordinator that acts on it, or answers from it,
    may say the opposite of what the next one does. Batches that were queued while this broker followed may not be in
    the file yet: a move between directories holds them, or the directory has much to write. Batches that find no room
    there leave the log, and are waited for no longer.

    It takes no turn of the loop if there is nothing to wait for. Raises KAFKA_STORAGE_ERROR where the log cannot be written:
    the mark stands still then.
    """
    log_, end = partition.log, partition.log.log_end_offset
    if _has(partition, end):
        return leader.ended is None
    words = "%s: its coordinator waits until all below offset %d is committed; the high watermark is %d, in sync are %s"
    log.info(words, log_.topic_partition, end, partition.high_watermark, leader.state.in_sync)
    moved = asyncio.Event()
    watcher = moved.set
    partition.end_watchers.add(watcher)
    try:
        while leader.ended is None and not _has(partition, end):
            failed = partition.directory.offline or log_.tail.failed
            if failed is not None:
                why = f"{log_.topic_partition} cannot be written from offset {log_.written_offset} on: {failed}"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
            moved.clear()
            await moved.wait()
    finally:
        partition.end_watchers.discard(watcher)
    return leader.ended is None


def _has(partition: Partition, end_offset: int) -> bool:
    """Whether all that the log has below ``end_offset`` is committed, and in its files."""
    log_ = partition.log
    return min(partition.high_watermark, log_.written_offset) >= min(end_offset, log_.log_end_offset)


async def load_log(log_: Log, shard: CoordinatorShard, monotonic: Callable[[], float]) -> int:
    """Apply every record from the log start to the log end; how many there were.

    Raises `Corrupt` for a batch or a record that is not what was written, `OSError`.
    """
    loop = asyncio.get_running_loop()
    loader = _Loader(shard, log_, monotonic)
    end = log_.log_end_offset
    offset = log_.local_log_start_offset
    while offset < end:
        read = log_.read(offset, max_bytes=_READ_BYTES, max_offset=end)
        if read.next_offset <= offset:
            raise Corrupt(f"{log_.topic_partition} in {log_.directory} cannot be read at offset {offset}")
        for part in read.parts:
            await loader.apply(await loop.run_in_executor(None, _bytes_of, part))
        offset = read.next_offset
    return loader.count


def _bytes_of(part: FileSlice) -> bytes:
    data = os.pread(part.file.fileno(), part.length, part.position)
    if len(data) != part.length:
        raise Corrupt(f"{len(data)} bytes of {part.length} at position {part.position}: the file was cut")
    return data


class _Loader:
    """Applies batches and gives the loop its turns."""

    def __init__(self, shard: CoordinatorShard, log_: Log, monotonic: Callable[[], float]) -> None:
        self.count = 0
        self._shard = shard
        self._name = f"{log_.topic_partition} in {log_.directory}"
        self._monotonic = monotonic
        self._turn_began = monotonic()

    async def apply(self, data: bytes) -> None:
        """Apply whole batches."""
        end = 0
        for position, header in iter_headers(data):
            end = position + header.size_bytes
            try:
                check_batch(data, position)
                await self._batch(data, position, header)
            except Corrupt as error:
                raise Corrupt(f"{self._name}, the batch at offset {header.base_offset}: {error}") from error
        if end != len(data):
            raise Corrupt(f"{self._name}: {len(data) - end} bytes are no batch")

    async def _batch(self, data: bytes, position: int, header: BatchHeader) -> None:
        producer = Producer(header.producer_id, header.producer_epoch) if header.producer_id >= 0 else None
        if header.is_control:
            marker = read_end_marker(memoryview(data)[position:], header)
            if marker is not None:
                ended = Producer(marker.producer_id, marker.producer_epoch)
                self._shard.replay_marker(ended, commit=marker.commit, offset=header.base_offset)
            return
        transaction = producer if header.is_transactional else None
        replay = self._shard.replay
        count = 0
        for count, record in enumerate(iter_records(data, position), 1):
            if record.key is None:
                raise Corrupt(f"the record at offset {record.offset} has no key")
            replay(record.key, record.value, offset=record.offset, producer=transaction)
            if not count % _LOOKED_EVERY:
                await self._breathe()
        self.count += count
        await self._breathe()

    async def _breathe(self) -> None:
        if self._monotonic() - self._turn_began > _STEP_SECONDS:
            await asyncio.sleep(0)
            self._turn_began = self._monotonic()
