"""The start of a log: which offset is its first, and segments that leave from there.

The log start moves in memory at once, files go later: names change first, content follows (`hot.log.doomed_files`).
"""

from __future__ import annotations

from typing import Final

from stratalog.hot.log.doomed_files import DoomedFiles
from stratalog.hot.log.pending_swap import PendingSwap
from stratalog.hot.log.place import LogPlace
from stratalog.hot.log.snapshots import ProducerSnapshots
from stratalog.hot.log.sync_cycles import SyncCycles
from stratalog.hot.log.tail import LogTail
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segments import SegmentList
from stratalog.hot.state.leader_epochs import LeaderEpochCache
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["LogStart"]

_NAMES_AT_ONCE: Final = 4


class LogStart:
    """``offset`` is the first that anyone may read, here or in an archive; it moves up, unless the log begins anew.

    Segments leave oldest first, so that the files on the disk never have a hole.
    """

    __slots__ = (
        "_cycles",
        "_doomed",
        "_epochs",
        "_leaving",
        "_left",
        "_pending",
        "_place",
        "_producers",
        "_segments",
        "_snapshots",
        "_tail",
        "kept_offset",
        "offset",
    )

    def __init__(
        self,
        place: LogPlace,
        segments: SegmentList,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        snapshots: ProducerSnapshots,
        cycles: SyncCycles,
        tail: LogTail,
        doomed: DoomedFiles,
        pending: PendingSwap,
        offset: int,
    ) -> None:
        self._place = place
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self._snapshots = snapshots
        self._cycles = cycles
        self._tail = tail
        self._doomed = doomed
        self._pending = pending
        self.offset = offset
        self.kept_offset = offset
        """The start that the checkpoint of the log directory has: the next start of the broker begins there at least."""
        self._leaving: list[Segment] = []
        """Segments that have left the log and still have their names."""
        self._left = False
        """Whether the name that went last may come back after a power cut."""

    @property
    def is_kept(self) -> bool:
        """Whether the log begins there after a crash, too: by the checkpoint, or because its files begin there.

        A log that began anew below the start in the checkpoint would lose all up to that.
        """
        return self.offset == self.kept_offset or (self._begins_with_files and not self.waits_for_names)

    @property
    def waits_for_names(self) -> bool:
        """Whether the next sync cycle is all that is missing: until then the files may begin before."""
        if self._left and self._cycles.names_durable:
            self._left = False
        return self._left and self._begins_with_files

    @property
    def _begins_with_files(self) -> bool:
        if self._place.config.remote_storage_enable or self._leaving:
            return False
        return self.kept_offset <= self.offset <= self._segments[0].base_offset

    def advance(self, offset: int) -> bool:
        """Move the log start up to ``offset``; False if it is there already. Raises `KafkaError`.

        OFFSET_OUT_OF_RANGE above the log end; the caller checks the high watermark.
        """
        end_offset = self._tail.end_offset
        if offset > end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the log start of {self._place.topic_partition} cannot move to {offset}, the log ends at {end_offset}",
            )
        if offset <= self.offset:
            return False
        self.offset = offset
        self._epochs.truncate_from_start(offset)
        self._producers.on_log_start(offset)
        return True

    def _count_before(self, offset: int) -> int:
        segments, unsealed = self._segments, self._tail.unsealed
        count = 0
        while count < len(segments) - 1 and segments[count].next_offset <= offset and segments[count] not in unsealed:
            if self._pending.holds(segments[count]):
                break
            count += 1
        return count

    def local_start_after(self, offset: int) -> int:
        """Where the first local segment would begin after `delete_local_before` of this offset."""
        return self._segments[self._count_before(offset)].base_offset

    def delete_local_before(self, offset: int) -> int:
        """Remove the frozen segments that lie wholly below ``offset``; returns how many.

        Those of a swap that is under way stay until it has ended. The local log start moves first. The files are renamed oldest
        first, each name durable before the next: of several renames a crash may keep any, and a newer one alone would leave a
        hole. So of many segments some go now, and `go_on_leaving` takes the others. Raises `OSError`; what it interrupted is
        completed first by the next call.
        """
        segments, count = self._segments, self._count_before(offset)
        if count == 0 and not self._leaving:
            return 0
        if self._tail.failed is None:  # a log that finds no room may still make some
            self._tail.write()
        if count:  # after a power cut no segment before it tells of its producers
            self._snapshots.sync(segments[count].base_offset)
        self._leaving += segments.remove_first(count)
        if not self._place.config.remote_storage_enable:
            self.advance(segments[0].base_offset)
        self.go_on_leaving()
        return count

    def relocated(self) -> None:
        """The files have been copied, without segments that were leaving."""
        self._leaving.clear()
        self._snapshots.forget_before(self._segments[0].base_offset)

    @property
    def is_leaving(self) -> bool:
        """Whether segments that have left the log still have their names."""
        return bool(self._leaving)

    def go_on_leaving(self, count: int = _NAMES_AT_ONCE) -> None:
        """Take the names of some segments that have left the log, as `finish_leaving`: each costs a sync of the directory.

        Their snapshots go when the names have gone durably, so that of the last one stays: a start that finds a segment, and has to
        read it, knows producers from before it.
        """
        if self._leaving:
            first = self._leaving[:count][-1].base_offset
            self._take_names(count)
            self._snapshots.keep(first)

    def finish_leaving(self) -> None:
        """Take the names of the segments that have left the log, oldest first. Raises `OSError`; then call it again."""
        self._take_names(len(self._leaving))

    def _take_names(self, count: int) -> None:
        while self._leaving and count > 0:
            self._cycles.sync_names()
            self._doomed.doom_indexes()
            self._doomed.doom_log(self._leaving[0])
            del self._leaving[0]
            self._cycles.note_names()  # the last name may wait for the next cycle, or for the next one to go
            self._left = True
            count -= 1

    def left_durably(self) -> None:
        """All names are durable now."""
        self._left = False
