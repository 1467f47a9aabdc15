"""Changes that the quorum makes to this node's log and snapshots: appends, cuts, syncs, and the leader's snapshot in their place.

A change that finds no room, or that the disk refuses, leaves the log other than the machine believes it to be:
``on_refused`` has the machine begin anew from the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from stratalog.broker.quorum.batches import control_batch
from stratalog.broker.quorum.control_records import voter_set
from stratalog.broker.quorum.publishing import Publisher
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.broker.quorum.snapshotting import Snapshotting
from stratalog.broker.runtime.clock import Clock
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.snapshot import SnapshotId, read_snapshot_and_quorum, snapshot_name
from stratalog.metadata.quorum.checkpoint import QuorumRecords
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import Event, Flushed, SnapshotLoaded
from stratalog.metadata.raft.messages import Batch
from stratalog.wire.errors import ErrorCode, KafkaError, StratalogError

__all__ = ["LogChanges"]

log = logging.getLogger(__name__)


class LogChanges:
    """Carries out the actions about the log. Lives on the event loop."""

    def __init__(
        self,
        replica: MetadataReplica,
        publisher: Publisher,
        snapshotting: Snapshotting,
        clock: Clock,
        *,
        take: Callable[[Event], None],
        beside: Callable[[Coroutine[Any, Any, None]], None],
        on_refused: Callable[[KafkaError], None],
        on_failed: Callable[[], None],
    ) -> None:
        """``take`` gets events; ``beside`` runs a coroutine beside them; ``on_failed`` is called when the node has to end."""
        self._replica = replica
        self._publisher = publisher
        self._snapshotting = snapshotting
        self._clock = clock
        self._take = take
        self._beside = beside
        self._on_refused = on_refused
        self._on_failed = on_failed
        self._truncations = 0
        self._placed: Batch | None = None
        self._life = 0
        self._loads = 0
        self.half_begun: SnapshotId | None = None
        """The snapshot that the log was to begin behind when the disk refused: the log is neither as before nor as it will be."""
        replica.on_synced = self._synced

    def forget(self) -> None:
        """The machine is gone, another one begins with the log as it is: a snapshot on its way does not replace it."""
        self._truncations = 0
        self._placed = None
        self._life += 1

    @property
    def is_loading(self) -> bool:
        """Whether a snapshot is on its way into the log's place, also for a machine that is gone."""
        return self._loads > 0

    def carriers(self) -> dict[type[act.Action], Callable[[Any], None]]:
        """Return the method that carries out each action of this part."""
        return {
            act.Append: self.append,
            act.Flush: self.flush,
            act.Truncate: self.truncate,
            act.DeleteLogBefore: self.delete_before,
            act.WriteSnapshot: self.write_snapshot,
            act.WriteSnapshotChunk: self.keep_chunk,
            act.LoadSnapshot: self.load_snapshot,
        }

    # -- appends -------------------------------------------------------------------------------------------------------

    def place(self, batch: Batch) -> None:
        """Write the batch of a proposal, before the machine asks for it. Raises `KafkaError`; then there is no trace."""
        self._write(batch, batch.data)
        self._placed = batch

    def append(self, action: act.Append) -> None:
        """Append batches: those of another leader, or the control records of this one."""
        for batch in action.batches:
            if self._placed is not None and batch.data is self._placed.data:
                self._placed = None
                continue
            data = batch.data
            if data is None:
                data = control_batch(batch, timestamp_ms=self._clock.wall_ms())
            try:
                self._write(batch, data)
            except KafkaError as error:
                self._on_refused(error)
                return

    def _write(self, batch: Batch, data: bytes | bytearray | memoryview) -> None:
        self._replica.write([data], epoch=batch.epoch, now_ms=self._clock.wall_ms())
        self._snapshotting.grown(len(data))

    def flush(self, action: act.Flush) -> None:
        """Sync the log; `Flushed` follows."""
        if self._replica.log.flushed_offset >= action.end_offset:  # a sync for another reason was faster
            self._synced()
        else:
            self._replica.sync()

    def _synced(self) -> None:
        self._take(Flushed(self._replica.log.flushed_offset, self._truncations))

    # -- cuts ----------------------------------------------------------------------------------------------------------

    def truncate(self, action: act.Truncate) -> None:
        """Cut the log off."""
        self._truncations += 1
        if self._change(lambda: self._replica.truncate(action.offset), self._replica):
            end_offset = self._replica.log.log_end_offset
            if end_offset < action.offset:  # records of another past: a batch of the log reached beyond the offset
                where = self._replica.log.directory
                text = f"{where} was cut at offset {action.offset} and ends at {end_offset}: the leader has other batches there"
                self._on_refused(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text))

    def delete_before(self, action: act.DeleteLogBefore) -> None:
        """Let the log begin at a snapshot; older ones go."""
        snapshot = SnapshotId(*action.snapshot)
        if self._change(lambda: self._replica.delete_before(snapshot), self._replica):
            self._beside(self._snapshotting.remove_before(snapshot))

    def _change(self, work: Callable[[], object], owner: MetadataReplica | None) -> bool:
        """Change the log, or what lies beside it, which has no ``owner``; False if the disk refuses."""
        try:
            work()
        except OSError as error:
            self._replica.directory.report(error, owner)
            text = f"the metadata log in {self._replica.log.directory} cannot be changed: {error}"
            self._on_refused(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text))
            return False
        return True

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def write_snapshot(self, action: act.WriteSnapshot) -> None:
        """Write the image under this name, beside."""
        self._beside(self._snapshotting.write(SnapshotId(*action.snapshot)))

    def keep_chunk(self, action: act.WriteSnapshotChunk) -> None:
        """Keep bytes of the leader's snapshot."""
        snapshot = SnapshotId(*action.snapshot)
        self._change(lambda: self._replica.keep_chunk(snapshot, action.position, action.data), None)

    def load_snapshot(self, action: act.LoadSnapshot) -> None:
        """Put the fetched snapshot in the place of the log, beside; `SnapshotLoaded` follows."""
        self._loads += 1
        self._beside(self._load(action, self._life))

    async def _load(self, action: act.LoadSnapshot, life: int) -> None:
        try:
            await self._finish(action, life)
        finally:
            self._loads -= 1

    async def _finish(self, action: act.LoadSnapshot, life: int) -> None:
        """Read the file, sync it, begin an empty log behind it, and make its image this node's, in this order.

        A file that cannot be read or kept has the machine begin anew, which asks for it again.
        """
        loop, replica, snapshot = asyncio.get_running_loop(), self._replica, SnapshotId(*action.snapshot)
        try:
            content = await loop.run_in_executor(replica.threads, replica.read_part, snapshot)
            image, quorum = await loop.run_in_executor(replica.threads, read_snapshot_and_quorum, content, snapshot)
            await loop.run_in_executor(replica.threads, replica.finish_snapshot, snapshot)
        except (OSError, StratalogError) as error:
            if life == self._life:
                text = f"the leader's snapshot {snapshot_name(snapshot)} cannot be loaded: {error}"
                self._on_refused(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text))
            return
        if await self._take_place(snapshot, image, quorum, life):
            self._take(SnapshotLoaded(action.snapshot, voter_set(quorum.voters), quorum.kraft_version))

    async def _take_place(self, snapshot: SnapshotId, image: ClusterImage, quorum: QuorumRecords, life: int) -> bool:
        """Begin an empty log behind a snapshot that has its name; False if the disk refuses, or the machine is gone."""
        await self._publisher.halt()
        if life != self._life or not self._begin_log(snapshot):
            if self.half_begun is None:  # else committed records that are not applied yet may be in no file
                self._publisher.go_on()
            return False
        self._truncations += 1
        await self._publisher.replace(image, quorum)
        self._snapshotting.loaded(snapshot)
        return True

    def _begin_log(self, snapshot: SnapshotId) -> bool:
        self.half_begun = snapshot
        if not self._change(lambda: self._replica.begin_behind(snapshot), self._replica):
            return False
        self.half_begun = None
        return True

    async def begin_behind(self, snapshot: SnapshotId) -> bool:
        """Let the log, which ends below this snapshot of the disk, begin behind it, between two machines.

        There was no room for that when the snapshot came. False if there still is none. Raises `Corrupt`, `OSError`.
        """
        loop, replica = asyncio.get_running_loop(), self._replica
        if self._publisher.image.provenance.offset + 1 >= snapshot.end_offset:
            await self._publisher.halt()
            if not self._begin_log(snapshot):
                return False
            self._publisher.go_on()
            return True
        content = await loop.run_in_executor(replica.threads, replica.read_snapshot, snapshot)
        image, quorum = await loop.run_in_executor(replica.threads, read_snapshot_and_quorum, content, snapshot)
        has_begun = await self._take_place(snapshot, image, quorum, self._life)
        self._truncations = 0  # the machine that comes counts from its own beginning
        return has_begun
