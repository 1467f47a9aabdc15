"""When this node writes a snapshot of its image, and when the log and the snapshots before one may go.

Every node writes its own, after so many bytes of records or so much time. A node that is the whole quorum lets the log go at
once. With others it stays for ``metadata.max.retention.bytes`` and ``.ms``, for those who lag behind.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from stratalog.broker.quorum.publishing import InSlices, Publisher
from stratalog.broker.quorum.replica import MetadataReplica, StoredSnapshot
from stratalog.broker.runtime.clock import Clock
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.snapshot import SnapshotId, snapshot_steps
from stratalog.metadata.quorum.checkpoint import QuorumRecords
from stratalog.metadata.raft.events import CleanLog, Event, SnapshotDue, SnapshotWritten
from stratalog.metadata.raft.messages import OffsetAndEpoch

__all__ = ["SnapshotRules", "Snapshotting", "first_to_keep"]

_LOOK_SECONDS: Final = 60.0
"""How often retention is looked at, as in Kafka."""
_AGAIN_SECONDS: Final = 30.0
"""A snapshot that was refused is written again after so long: to make one of many partitions takes a second or two."""

log = logging.getLogger(__name__)


class SnapshotRules(Struct, frozen=True, kw_only=True):
    """The settings, by the names of ``metadata.log.max.record.bytes.between.snapshots`` and its neighbours."""

    snapshot_bytes: int
    snapshot_interval_ms: int
    """0 for no limit."""
    retention_bytes: int
    """Negative for no limit."""
    retention_ms: int
    """Negative for no limit."""
    keeps_log: bool
    """Whether other nodes may need what lies before the newest snapshot."""


def first_to_keep(
    stored: Sequence[StoredSnapshot], *, log_bytes: int, now_ms: int, rules: SnapshotRules
) -> SnapshotId | None:
    """The snapshot before which everything may go, None if nothing may. ``stored`` has the oldest first.

    The newest one stays in any case. Source: ``KafkaRaftLog.maybeClean``.
    """
    if not stored:
        return None
    if not rules.keeps_log:
        return stored[-1].snapshot
    total_bytes = log_bytes + sum(one.size_bytes for one in stored)
    first = 0
    for one in stored[:-1]:
        too_large = 0 <= rules.retention_bytes < total_bytes
        too_old = 0 <= rules.retention_ms < now_ms - one.written_ms
        if not too_large and not too_old:
            break
        total_bytes -= one.size_bytes
        first += 1
    return stored[first].snapshot if first else None


class Snapshotting:
    """Writes snapshots beside the work of the quorum. Lives on the event loop; files are written by a thread."""

    def __init__(
        self, replica: MetadataReplica, publisher: Publisher, rules: SnapshotRules, *, in_slices: InSlices, clock: Clock
    ) -> None:
        """``in_slices`` makes the content, which may have a hundred thousand records, with turns for others between."""
        self._replica = replica
        self._publisher = publisher
        self._rules = rules
        self._in_slices = in_slices
        self._clock = clock
        self._take: Callable[[Event], None] = lambda _event: None
        self._grown_bytes = replica.log.size_bytes
        self._newest = self._last_on_disk()
        self._since_ms = clock.wall_ms()
        self._due: tuple[ClusterImage, QuorumRecords] | None = None
        self._writes = False
        self._refused_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def _last_on_disk(self) -> SnapshotId | None:
        stored = self._replica.snapshots()
        return stored[-1].snapshot if stored else None

    def attach(self, take: Callable[[Event], None]) -> None:
        """Give events to the quorum by ``take`` from now on."""
        self._take = take
        self._look_later()

    def close(self) -> None:
        """Write nothing more."""
        self._take = lambda _event: None
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._look_later()
        self.published()
        self._clean()

    # -- writing -------------------------------------------------------------------------------------------------------

    def grown(self, size_bytes: int) -> None:
        """So many bytes more are in the log."""
        self._grown_bytes += size_bytes

    @property
    def is_due(self) -> bool:
        """Whether enough was written, or enough time has passed, since the last snapshot."""
        interval_ms = self._rules.snapshot_interval_ms
        waited = interval_ms > 0 and self._clock.wall_ms() - self._since_ms >= interval_ms
        return self._grown_bytes >= self._rules.snapshot_bytes or (waited and self._grown_bytes > 0)

    def published(self) -> None:
        """Look whether the image is to be written: there is a new one, or time has passed."""
        image, quorum = self._publisher.image, self._publisher.quorum
        end_offset = image.provenance.offset + 1
        known = self._newest.end_offset if self._newest is not None else 0
        if self._due is not None:  # the quorum may have passed over an earlier word
            known = max(known, self._due[0].provenance.offset + 1)
        rests = self._clock.monotonic() - self._refused_at < _AGAIN_SECONDS
        if not self._writes and not rests and self.is_due and end_offset > known:
            self._due = image, quorum
            self._take(SnapshotDue(end_offset))

    async def write(self, snapshot: SnapshotId) -> None:
        """Write the image that is due, under this name. The log before it goes after that."""
        due, grown_bytes = self._due, self._grown_bytes
        if self._writes or due is None or _id_of(due[0]) != snapshot:
            return
        self._due, self._writes = None, True
        try:
            batches = await self._in_slices(snapshot_steps(*due))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._replica.threads, self._replica.write_snapshot, snapshot, batches)
        except OSError as error:
            self._replica.directory.report(error)  # the log is as it was
            self._refused_at = self._clock.monotonic()
            return
        finally:
            self._writes = False
        if self._newest is not None and snapshot < self._newest:
            return  # the leader's is in the place of the log meanwhile
        self._grown_bytes -= grown_bytes
        self._newest, self._since_ms = snapshot, self._clock.wall_ms()
        self._take(SnapshotWritten(OffsetAndEpoch(*snapshot)))
        self._clean()

    def loaded(self, snapshot: SnapshotId) -> None:
        """The leader's snapshot is in the place of the log."""
        self._newest, self._since_ms, self._grown_bytes = snapshot, self._clock.wall_ms(), 0

    # -- letting go ----------------------------------------------------------------------------------------------------

    def _clean(self) -> None:
        """Have the log begin at the first snapshot that is to be kept."""
        log_ = self._replica.log
        try:
            stored = self._replica.snapshots()
        except OSError as error:
            log.warning("the snapshots in %s cannot be listed: %s; they stay for now", log_.directory, error)
            return
        keep = first_to_keep(stored, log_bytes=log_.size_bytes, now_ms=self._clock.wall_ms(), rules=self._rules)
        if keep is not None and (keep.end_offset > log_.log_start_offset or stored[0].snapshot < keep):
            self._take(CleanLog(OffsetAndEpoch(*keep)))

    async def remove_before(self, snapshot: SnapshotId) -> None:
        """Remove the snapshots before one that the log begins at."""
        replica = self._replica
        remove = partial(replica.remove_snapshots_before, snapshot)
        try:
            await asyncio.get_running_loop().run_in_executor(replica.threads, remove)
        except OSError as error:
            replica.directory.report(error)


def _id_of(image: ClusterImage) -> SnapshotId:
    return SnapshotId(image.provenance.offset + 1, image.provenance.epoch)
