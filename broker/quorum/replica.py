"""A node's copy of the metadata log on its disk: batches written, read, synced and cut; snapshots beside them.

.. code-block:: text

    Quorum ---- write, cut, sync ----> MetadataReplica ----> Log
       ^                                     |
       +---- on_flushed, on_failed ----------+<---- DirectoryWriter (one sync cycle for all logs of the directory)

The quorum decides what is done, in which order. A write is in the file when `write` returns, so that others may fetch it;
it is on the disk when `on_flushed` says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from stratalog.broker.quorum.metadata_log import READ_BYTES, snapshots_in, store_quorum_state
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.hot.log.log import Log
from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.filesystem import Filesystem, append_all
from stratalog.metadata.image.snapshot import SnapshotId, parse_snapshot_name, snapshot_name
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["MetadataReplica", "StoredSnapshot"]

_FLUSH_SECONDS: Final = 1.0
"""An observer syncs its writes after this time; a voter syncs before it fetches again."""
_PART: Final = ".part"
"""The end of the name of a snapshot that is being fetched, as in Kafka."""
_UNFINISHED: Final = ".tmp"
"""The end of the name of one that is being written, as `write_durably` has it."""


class StoredSnapshot(NamedTuple):
    """A snapshot on the disk."""

    snapshot: SnapshotId
    size_bytes: int
    written_ms: int
    """When its file was written, in wall time."""


class MetadataReplica:
    """The log, its directory and its snapshots. Lives on the event loop; what is slow runs in ``threads``."""

    def __init__(self, log_: Log, *, directory: DirectoryWriter, files: Filesystem, threads: Executor) -> None:
        self.log = log_
        self.directory = directory
        self.high_watermark = 0
        """Everything below it is committed."""
        self.on_synced: Callable[[], None] = lambda: None
        """Called when more of the log is on the disk."""
        self.on_failed: Callable[[OSError], None] = lambda _error: None
        """Called once when the directory has failed: nothing that is not on the disk will be."""
        self.threads = threads
        self._files = files
        self._written_at = 0.0
        directory.add(self)

    @property
    def topic_partition(self) -> TopicPartition:
        """``__cluster_metadata-0``."""
        return self.log.topic_partition

    # -- the log -------------------------------------------------------------------------------------------------------

    def write(self, batches: Sequence[bytes | bytearray | memoryview], *, epoch: int, now_ms: int) -> None:
        """Append whole batches, which have their offsets, and bring them to the file.

        Raises `KafkaError` KAFKA_STORAGE_ERROR if there is no room or the disk has failed. The log is then what it was
        before, or takes no appends.
        """
        if self.directory.offline is not None:
            raise self._storage_error(self.directory.offline)
        try:
            for batch in batches:
                self.log.append_as_follower(memoryview(batch), leader_epoch=epoch, now_ms=now_ms)
            self.log.write_queued()
        except OSError as error:
            self.directory.report(error, self)
            raise self._storage_error(error) from error

    def settle(self) -> None:
        """Take the log back to the end of its files after a refused change. Raises `OSError` as long as the disk refuses that."""
        if self.log.tail.failed is not None:
            self.log.discard_unwritten()

    def _storage_error(self, error: OSError) -> KafkaError:
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log in {self.log.directory} cannot be written: {error}"
        )

    def sync(self) -> None:
        """Bring what is written to the disk; `on_synced` follows."""
        self.directory.sync(self)

    def read(self, offset: int, end_offset: int) -> bytes:
        """Whole batches from the one with ``offset`` up to ``end_offset``: the first one, then up to 1 MiB.

        Raises `Corrupt`, `OSError`.
        """
        if offset >= end_offset:
            return b""
        read = self.log.read(offset, max_bytes=READ_BYTES, max_offset=end_offset)
        return b"".join(os.pread(part.file.fileno(), part.length, part.position) for part in read.parts)

    def truncate(self, offset: int) -> None:
        """Cut the log off at ``offset``, durably. Raises `OSError`."""
        self.log.truncate_to(offset)

    def store_state(self, state: QuorumState) -> None:
        """Put ``quorum-state`` in place, durably. May run in a thread. Raises `OSError`."""
        store_quorum_state(self._files, self.log.directory, state)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def write_snapshot(self, snapshot: SnapshotId, batches: Sequence[bytearray]) -> None:
        """Write and sync a snapshot of this node's image. For a thread. Raises `OSError`; then it takes no room."""
        path = self._path(snapshot)
        with self._gone_if_it_fails(path + _UNFINISHED):
            write_durably(self._files, path, b"".join(batches))

    def snapshot_chunk(self, snapshot: SnapshotId, position: int) -> tuple[int, bytes]:
        """The size of a snapshot in bytes, and up to 1 MiB of it from ``position`` on. Raises `OSError`."""
        file = self._files.open_read(self._path(snapshot))
        try:
            size = file.size_bytes()
            return size, file.pread(min(READ_BYTES, size - position), position) if 0 <= position < size else b""
        finally:
            file.close()

    def keep_chunk(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """Keep bytes of the leader's snapshot from ``position`` on; position 0 begins anew.

        Raises `OSError`; then those that came before are gone, too: the logs of the directory may need their room.
        """
        path = self._path(snapshot) + _PART
        with self._gone_if_it_fails(path):
            file = self._files.open_append(path)
            try:
                file.truncate(position)
                append_all(file, [data])
            finally:
                file.close()

    @contextmanager
    def _gone_if_it_fails(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError:
            with suppress(OSError):
                self._files.unlink(path)
            raise

    def read_part(self, snapshot: SnapshotId) -> bytes:
        """The content of a snapshot that was fetched, and has no name yet. For a thread. Raises `OSError`."""
        return self._files.read_bytes(self._path(snapshot) + _PART)

    def read_snapshot(self, snapshot: SnapshotId) -> bytes:
        """The content of a finished snapshot. For a thread. Raises `OSError`."""
        return self._files.read_bytes(self._path(snapshot))

    def finish_snapshot(self, snapshot: SnapshotId) -> None:
        """Sync the fetched snapshot and give it its name. For a thread. Raises `OSError`."""
        part = self._path(snapshot) + _PART
        file = self._files.open_append(part)
        try:
            file.fdatasync()
        finally:
            file.close()
        self._files.rename(part, self._path(snapshot))
        self._files.sync_directory(self.log.directory)

    def begin_behind(self, snapshot: SnapshotId) -> None:
        """Begin an empty log behind a snapshot that is on the disk. Raises `OSError`."""
        self.log.truncate_fully_and_start_at(snapshot.end_offset, [], None)

    def delete_before(self, snapshot: SnapshotId) -> None:
        """Let the log begin at a snapshot that is on the disk. Raises `OSError`."""
        self.log.roll()
        self.log.advance_log_start(snapshot.end_offset)
        self.log.delete_local_before(snapshot.end_offset)

    def snapshots(self) -> list[StoredSnapshot]:
        """The finished snapshots, oldest first. Raises `OSError`."""
        stored = []
        for snapshot in snapshots_in(self._files, self.log.directory):
            try:
                status = self._files.status(self._path(snapshot))
            except FileNotFoundError:
                continue  # a thread has just removed it
            stored.append(StoredSnapshot(snapshot, status.size_bytes, status.modified_ns // 1_000_000))
        return stored

    def remove_snapshots_before(self, snapshot: SnapshotId) -> None:
        """Remove older snapshots, and parts of others that no one will finish. For a thread. Raises `OSError`."""
        directory = self.log.directory
        for entry in self._files.scan(directory, sized=()):
            of = parse_snapshot_name(entry.name.removesuffix(_PART).removesuffix(_UNFINISHED))
            if of is not None and of < snapshot:
                with suppress(FileNotFoundError):
                    self._files.unlink(f"{directory}/{entry.name}")

    def _path(self, snapshot: SnapshotId) -> str:
        return f"{self.log.directory}/{snapshot_name(snapshot)}"

    # -- what the log directory reports --------------------------------------------------------------------------------

    def flush_due(self) -> bool:
        """The quorum says when to sync."""
        return False

    def on_written(self) -> None:
        """Writes end in `write`."""

    def on_flushed(self) -> None:
        """More of the log is on disk."""
        self.on_synced()

    def on_write_refused(self, error: OSError) -> None:
        """A write found no room: `write` has raised it."""

    def on_storage_failed(self, error: OSError) -> None:
        """The directory is offline."""
        self.on_failed(error)

    def tick(self, now: float) -> None:
        """Sync what has been written for a while; ``now`` is monotonic time in seconds."""
        if self.log.written_offset <= self.log.flushed_offset:
            self._written_at = now
        elif now - self._written_at >= _FLUSH_SECONDS:
            self._written_at = now
            self.sync()

    def close(self) -> None:
        """The log is the caller's from now on."""
        self.directory.remove(self)
