"""Makes the parts of one log from the findings of its opening, and hands all of them to operations that change many."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.hot.log.doomed_files import DoomedFiles
from stratalog.hot.log.gaps import LogGaps
from stratalog.hot.log.pending_swap import PendingSwap
from stratalog.hot.log.place import LogPlace
from stratalog.hot.log.snapshots import ProducerSnapshots
from stratalog.hot.log.start import LogStart
from stratalog.hot.log.sync_cycles import SyncCycles
from stratalog.hot.log.tail import LogTail
from stratalog.hot.recovery.opening import LoadedLog
from stratalog.hot.segments.segments import SegmentList
from stratalog.hot.state.leader_epochs import LeaderEpochCache
from stratalog.hot.state.producer_state import ProducerStateManager

__all__ = ["LogParts"]


class LogParts(NamedTuple):
    """Each part stays the same object as long as the log is open; what it holds changes."""

    place: LogPlace
    segments: SegmentList
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    cycles: SyncCycles
    snapshots: ProducerSnapshots
    tail: LogTail
    doomed: DoomedFiles
    start: LogStart
    gaps: LogGaps
    pending: PendingSwap

    @classmethod
    def of(cls, place: LogPlace, loaded: LoadedLog) -> LogParts:
        """Wire the parts of a log that was just opened."""
        segments = SegmentList(loaded.segments)
        epochs, producers = loaded.leader_epochs, loaded.producer_state
        cycles = SyncCycles(place, segments, epochs, loaded)
        snapshots = ProducerSnapshots(place, segments, cycles, loaded.snapshots)
        tail = LogTail(place, segments, producers, snapshots, cycles, loaded.log_end_offset)
        doomed = DoomedFiles(place, cycles)
        log_start, pending = loaded.log_start_offset, PendingSwap()
        start = LogStart(place, segments, epochs, producers, snapshots, cycles, tail, doomed, pending, log_start)
        gaps = LogGaps(loaded.gaps_below, loaded.border_gaps_below, loaded.known_border_gaps_below)
        return cls(place, segments, epochs, producers, cycles, snapshots, tail, doomed, start, gaps, pending)
