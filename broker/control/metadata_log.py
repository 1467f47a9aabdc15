"""The log of the cluster's own records, ``__cluster_metadata``, with one voter: this broker.

An answer to an administrative request leaves only when its records are on disk, whatever the flush settings of
topics say. Every start is a new epoch, noted in ``quorum-state`` before anything is appended in it. From time to
time the image is written out as a snapshot, and the log below it goes; a start reads the newest whole snapshot and
the log behind it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Final

from stratalog.broker.replicas.directories import Directory
from stratalog.broker.replicas.leader import Rework
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.runtime.clock import Clock
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import AppendInfo, Log
from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage
from stratalog.metadata.image.replay import MetadataReplay
from stratalog.metadata.image.snapshot import (
    SnapshotId,
    parse_snapshot_name,
    read_snapshot,
    snapshot_name,
    snapshot_steps,
)
from stratalog.metadata.quorum import quorum_state
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt, KafkaError
from stratalog.wire.records import metadata
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = [
    "METADATA_LOG_CONFIG",
    "METADATA_PARTITION",
    "METADATA_TOPIC_ID",
    "MetadataLog",
    "begin_epoch",
    "open_metadata",
    "read_image",
]

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID: Final[Uuid] = bytes(15) + b"\x01"
METADATA_LOG_CONFIG: Final = LogConfig(
    segment_bytes=1 << 30, segment_ms=7 * 86_400_000, retention_ms=-1, max_message_bytes=8 << 20, flush_messages=1
)
_READ_BYTES: Final = 1 << 20

log = logging.getLogger(__name__)


def begin_epoch(files: Filesystem, directory: str, node_id: int, *, epoch_min: int = 0) -> int:
    """Note durably that this node leads in a new epoch above ``epoch_min``; that epoch.

    The log's own epochs are such a bound: the file has no checksum. Raises `Corrupt` for a file of another node.
    """
    path = f"{directory}/{quorum_state.FILE_NAME}"
    try:
        before = quorum_state.parse_quorum_state(files.read_bytes(path))
    except FileNotFoundError:
        before = QuorumState(voters=(node_id,))
    if before.leader_epoch < epoch_min:
        log.warning(
            "%s says leader epoch %d, but the metadata log has epoch %d: that one is taken",
            path,
            before.leader_epoch,
            epoch_min,
        )
        before = replace(before, leader_epoch=epoch_min)
    state = quorum_state.become_leader(before, node_id)
    write_durably(files, path, state.to_bytes())
    return state.leader_epoch


def read_image(log_: Log, files: Filesystem) -> ClusterImage:
    """The image of the newest whole snapshot and the log behind it.

    Raises `Corrupt` where the log is damaged, or does not reach back to a snapshot that can be read.
    """
    image = EMPTY_IMAGE
    for snapshot in sorted(_snapshots(files, log_.directory), reverse=True):
        path = f"{log_.directory}/{snapshot_name(snapshot)}"
        try:
            image = read_snapshot(files.read_bytes(path), snapshot)
            break
        except Corrupt as error:
            log.error("%s; an older snapshot is tried", error)
    replay = MetadataReplay(image)
    if replay.next_offset < log_.log_start_offset:
        raise Corrupt(
            f"the metadata log in {log_.directory} begins at offset {log_.log_start_offset}, and no snapshot reaches "
            f"beyond offset {replay.next_offset}: restore the directory; the files are unchanged"
        )
    while replay.next_offset < log_.log_end_offset:
        offset = replay.next_offset
        read = log_.read(offset, max_bytes=_READ_BYTES, max_offset=log_.log_end_offset)
        try:
            for part in read.parts:
                replay.replay(os.pread(part.file.fileno(), part.length, part.position))
        except Corrupt as error:
            raise Corrupt(
                f"the metadata log in {log_.directory} is damaged near offset {offset} ({error}): restore the directory "
                "from a copy; the files are unchanged"
            ) from error
        if replay.next_offset <= offset:
            raise Corrupt(f"the metadata log in {log_.directory} cannot be read at offset {offset}")
    return replay.image()


def _snapshots(files: Filesystem, directory: str) -> list[SnapshotId]:
    names = (parse_snapshot_name(entry.name) for entry in files.scan(directory))
    return [name for name in names if name is not None]


def open_metadata(
    home: Directory,
    *,
    files: Filesystem,
    node_id: int,
    clock: Clock,
    rework: Rework,
    snapshot_bytes: int,
    threads: Executor,
) -> tuple[ClusterImage, MetadataLog]:
    """Open the metadata log in its directory, begin an epoch in it, and make the image.

    Snapshots are written in one of ``threads``.

    Raises `Corrupt`, `OSError`. The caller appends the leader change with which the epoch begins.
    """
    log_ = home.files.open_log(
        METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, now_ms=clock.wall_ms(), refuse_damage=True
    )
    if log_.recovery.tail_offset is not None:
        log.log(
            logging.WARNING if log_.recovery.tail_is_short else logging.ERROR,
            "the metadata log ends at offset %d: %d bytes behind it are no whole batch (%s); they are kept in %s. If "
            "topics or settings are missing now, restore the directory from a copy",
            log_.recovery.tail_offset,
            log_.recovery.truncated_bytes,
            log_.recovery.reason,
            log_.recovery.quarantine,
        )
    image = read_image(log_, files)
    epoch = begin_epoch(files, log_.directory, node_id, epoch_min=log_.leader_epochs.latest_epoch)
    partition = Partition(log_, directory=home.writer, high_watermark=log_.flushed_offset, clock=clock, rework=rework)
    partition.lead(node_id, epoch, replicas=[node_id], in_sync=[node_id])
    return image, MetadataLog(partition, files, snapshot_bytes, threads)


class MetadataLog:
    """Appends and snapshots of the running leader. ``partition`` does the writing and syncing."""

    def __init__(self, partition: Partition, files: Filesystem, snapshot_bytes: int, threads: Executor) -> None:
        self.partition = partition
        self._threads = threads
        self._files = files
        self._snapshot_bytes = snapshot_bytes
        self._bytes_since_snapshot = partition.log.size_bytes

    async def append(self, records: Sequence[Message], now_ms: int) -> int:
        """Append the records as one batch, all or none; the offset of the last one, once they are on disk.

        Raises `KafkaError` KAFKA_STORAGE_ERROR; whether they hold is then known after a restart only.
        """
        values = [metadata.encode_record(record) for record in records]
        return await self._append(build_batch([Record(at, now_ms, None, value) for at, value in enumerate(values)]))

    async def append_leader_change(self, node_id: int, now_ms: int) -> int:
        """Begin this start's epoch; the offset of the message."""
        epoch, offset = self.partition.leader_epoch, self.partition.log.log_end_offset
        return await self._append(
            quorum_state.leader_change_batch(node_id, epoch=epoch, offset=offset, timestamp_ms=now_ms)
        )

    async def _append(self, batch: bytearray) -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def acknowledge(outcome: AppendInfo | KafkaError) -> None:
            if done.cancelled():
                return
            if isinstance(outcome, KafkaError):
                done.set_exception(outcome)
            else:
                done.set_result(outcome.last_offset)

        self._bytes_since_snapshot += len(batch)
        self.partition.led().append_as_leader(batch, acknowledge)
        return await done

    @property
    def snapshot_due(self) -> bool:
        """Whether enough was written since the last snapshot (metadata.log.max.record.bytes.between.snapshots)."""
        return self._bytes_since_snapshot >= self._snapshot_bytes

    async def write_snapshot(
        self, image: ClusterImage, in_slices: Callable[[Generator[None, None, Any]], Awaitable[Any]]
    ) -> None:
        """Write the image, then let go of the log and the snapshots below it. Raises `OSError`.

        ``in_slices`` makes the content, which may have a hundred thousand records, with turns for others between. A
        thread writes and syncs it, and the log is shortened only after that. The caller must not append meanwhile.
        """
        batches: Sequence[bytearray] = await in_slices(snapshot_steps(image))
        log_ = self.partition.log
        snapshot = SnapshotId(image.provenance.offset + 1, image.provenance.epoch)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._write, f"{log_.directory}/{snapshot_name(snapshot)}", batches)
        self._bytes_since_snapshot = 0
        log_.roll()
        log_.advance_log_start(snapshot.end_offset)
        log_.delete_local_before(snapshot.end_offset)
        await loop.run_in_executor(self._threads, self._remove_before, snapshot)

    def _write(self, path: str, batches: Sequence[bytearray]) -> None:
        """In a thread. Raises `OSError`; then there is no file of this name."""
        write_durably(self._files, path, b"".join(batches))

    def _remove_before(self, snapshot: SnapshotId) -> None:
        """In a thread: remove the snapshots that are older. Raises `OSError`."""
        directory = self.partition.log.directory
        for older in _snapshots(self._files, directory):
            if older < snapshot:
                self._files.unlink(f"{directory}/{snapshot_name(older)}")
