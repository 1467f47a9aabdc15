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

from stratalog.broker.quorum.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.broker.replicas.directories import Directory
from stratalog.broker.replicas.leader import Rework
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.runtime.clock import Clock
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import AppendInfo, Log
from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.metadata.image.features import bootstrap_records, runnable_records
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.image.replay import MetadataReplay
from stratalog.metadata.image.snapshot import (
    SnapshotId,
    parse_snapshot_name,
    read_snapshot_and_quorum,
    snapshot_name,
    snapshot_steps,
)
from stratalog.metadata.quorum import quorum_state
from stratalog.metadata.quorum.bootstrap import BOOTSTRAP_CHECKPOINT, read_bootstrap
from stratalog.metadata.quorum.checkpoint import STATIC_QUORUM, QuorumRecords
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt, Invalid, KafkaError
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid, uuid_text

__all__ = [
    "METADATA_LOG_CONFIG",
    "MetadataLog",
    "begin_epoch",
    "check_only_voter",
    "first_records",
    "open_metadata",
    "read_metadata",
]

METADATA_LOG_CONFIG: Final = LogConfig(
    segment_bytes=1 << 30, segment_ms=7 * 86_400_000, retention_ms=-1, max_message_bytes=8 << 20, flush_messages=1
)
_READ_BYTES: Final = 1 << 20

log = logging.getLogger(__name__)


def begin_epoch(files: Filesystem, directory: str, node_id: int, *, epoch_min: int = 0, kraft_version: int = 0) -> int:
    """Note durably that this node leads in a new epoch above ``epoch_min``; that epoch.

    The log's own epochs are such a bound: the file has no checksum. From ``kraft_version`` 1 on the log names the
    voters, not the file. Raises `Corrupt` for a file of another node.
    """
    path = f"{directory}/{quorum_state.FILE_NAME}"
    try:
        before = quorum_state.parse_quorum_state(files.read_bytes(path), path)
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
    state = state.in_version(max(state.data_version, kraft_version), (node_id,))
    write_durably(files, path, state.to_bytes())
    return state.leader_epoch


def first_records(files: Filesystem, directory: str) -> tuple[Message, ...]:
    """The records with which a new metadata log begins: those of ``bootstrap.checkpoint``, or the defaults without one.

    Raises `Corrupt` for a file that cannot be read, `Invalid` for a cluster that this release cannot run.
    """
    path = f"{directory}/{BOOTSTRAP_CHECKPOINT}"
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return tuple(bootstrap_records())
    try:
        records, lowered = runnable_records(read_bootstrap(content, path))
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from error
    for sentence in lowered:
        log.warning("%s: %s", path, sentence)
    return records


def check_only_voter(quorum: QuorumRecords, node_id: int, directory: str, directory_id: Uuid) -> None:
    """Raise `Invalid` if the log in ``directory`` belongs to a quorum of more voters, or to another directory's voter."""
    others = sorted(voter.voter_id for voter in quorum.voters if voter.voter_id != node_id)
    if others:
        raise Invalid(
            f"{directory} belongs to a quorum with the voters {', '.join(map(str, others))} beside this node: in this "
            "release one process is the whole cluster; format an empty directory with --standalone"
        )
    for voter in quorum.voters:
        if voter.voter_directory_id != directory_id:
            raise Invalid(
                f"{directory} names the directory {uuid_text(voter.voter_directory_id)} as that of node {node_id}, and "
                f"meta.properties says {uuid_text(directory_id)}: restore the file that belongs to this metadata log"
            )


def read_metadata(log_: Log, files: Filesystem) -> MetadataReplay:
    """The image and the voters of the newest whole snapshot and the log behind it.

    Raises `Corrupt` where the log is damaged, or does not reach back to a snapshot that can be read.
    """
    image, quorum = EMPTY_IMAGE, STATIC_QUORUM
    for snapshot in sorted(_snapshots(files, log_.directory), reverse=True):
        path = f"{log_.directory}/{snapshot_name(snapshot)}"
        try:
            image, quorum = read_snapshot_and_quorum(files.read_bytes(path), snapshot)
            break
        except Corrupt as error:
            if not snapshot.end_offset:  # it names the first voters, which the log behind it does not repeat
                raise
            log.error("%s: %s; an older snapshot is tried", path, error)
    replay = MetadataReplay(image, quorum)
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
    return replay


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

    Raises `Corrupt`, `OSError`, `Invalid` for a quorum of other voters. The caller appends the leader change with which the epoch begins.
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
    replay = read_metadata(log_, files)
    check_only_voter(replay.quorum, node_id, home.path, home.directory_id)
    latest, kraft_version = log_.leader_epochs.latest_epoch, replay.quorum.kraft_version
    epoch = begin_epoch(files, log_.directory, node_id, epoch_min=latest, kraft_version=kraft_version)
    partition = Partition(log_, directory=home.writer, high_watermark=log_.flushed_offset, clock=clock, rework=rework)
    partition.lead(node_id, epoch, replicas=[node_id], in_sync=[node_id])
    return replay.image(), MetadataLog(partition, files, snapshot_bytes, threads, replay.quorum)


class MetadataLog:
    """Appends and snapshots of the running leader. ``partition`` does the writing and syncing."""

    def __init__(
        self,
        partition: Partition,
        files: Filesystem,
        snapshot_bytes: int,
        threads: Executor,
        quorum: QuorumRecords = STATIC_QUORUM,
    ) -> None:
        """``quorum``: the voters, which snapshots go on naming when the log before them is gone."""
        self.partition = partition
        self._quorum = quorum
        self._threads = threads
        self._files = files
        self._snapshot_bytes = snapshot_bytes
        self._bytes_since_snapshot = partition.log.size_bytes

    async def append(self, records: Sequence[Message], now_ms: int, level: int) -> int:
        """Append the records as one batch, all or none; the offset of the last one, once they are on disk.

        They are written for ``level`` of ``metadata.version``, which is 0 before the first record says it.

        Raises `KafkaError` KAFKA_STORAGE_ERROR; whether they hold is then known after a restart only.
        """
        values = enumerate(record_values(records, level))
        return await self._append(build_batch([Record(at, now_ms, None, value) for at, value in values]))

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
        batches: Sequence[bytearray] = await in_slices(snapshot_steps(image, self._quorum))
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
