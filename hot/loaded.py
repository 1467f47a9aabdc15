"""What opening a log is asked, and what it yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stratalog.hot.config import LogConfig
from stratalog.hot.filesystem import File, Filesystem
from stratalog.hot.leader_epochs import LeaderEpochCache
from stratalog.hot.log_summary import LogSummary
from stratalog.hot.producer_state import ProducerStateManager
from stratalog.hot.scan import OFFSET_MAX
from stratalog.hot.segment import Segment
from stratalog.hot.segment_cache import SegmentCache
from stratalog.wire.topic import TopicPartition, Uuid

LEADER_EPOCH_MAX: Final = (1 << 31) - 1

__all__ = ["LEADER_EPOCH_MAX", "LoadedLog", "OpenRequest", "RecoveryReport"]


class OpenRequest(NamedTuple):
    """The arguments of `Log.open`."""

    directory: str
    topic_partition: TopicPartition
    topic_id: Uuid
    config: LogConfig
    files: Filesystem
    cache: SegmentCache
    now_ms: int
    clean: bool
    recovery_point: int
    log_start_offset: int
    may_have_gaps: bool = False
    """The cleaner was here once, whatever the topic's settings say now."""
    summary: LogSummary | None = None
    """What the last orderly stop noted of the log: a hint that is compared with the files."""
    known_gaps_below: int | None = None
    """No offset is missing from here on; None if that is not known."""
    leader_epoch_max: int = LEADER_EPOCH_MAX
    """The newest leader epoch of the partition, as the cluster's metadata have it."""
    refuse_damage: bool = False
    """Raise `Corrupt` where more than a torn tail would be set aside, and leave the files as they are."""

    @property
    def gaps_below(self) -> int:
        """Offsets may be missing below this one: where the cleaner was, or where it is not known that it was not."""
        if self.known_gaps_below is not None:
            return self.known_gaps_below
        return OFFSET_MAX if self.may_have_gaps or self.config.compacted else 0

    def log_start(self, first_base_offset: int) -> int:
        """The checkpoint's log start; a log without an archive cannot begin below its first segment."""
        start = self.log_start_offset
        return start if self.config.remote_storage_enable else max(start, first_base_offset)


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did; all zero and None after a clean stop."""

    segments_checked: int = 0
    """Segments of which batches were verified."""
    truncated_bytes: int = 0
    """Bytes of a torn tail that were cut off the active segment."""
    tail_offset: int | None = None
    """The offset due where that tail began, if it was more than zeroes and lies in ``quarantine`` now."""
    tail_is_short: bool = False
    """No batch begins there that could be whole, as after a stop in the middle of a write."""
    damaged_offset: int | None = None
    """The first offset that could not be read where more than a torn tail was lost."""
    resume_offset: int | None = None
    """Where the log goes on after damage: above every offset that was flushed before."""
    reason: str = ""
    """What was wrong at ``damaged_offset``."""
    quarantine: str | None = None
    """The directory that now holds the damaged bytes."""
    indexes_rebuilt: list[int] = field(default_factory=list)
    """Base offsets of segments whose indexes were derived anew."""


@dataclass(slots=True)
class LoadedLog:
    """The parts of an opened log."""

    segments: list[Segment]
    leader_epochs: LeaderEpochCache
    producer_state: ProducerStateManager
    snapshots: list[int]
    """Offsets of the producer snapshots on disk, ascending."""
    log_start_offset: int
    log_end_offset: int
    report: RecoveryReport
    created: list[File] = field(default_factory=list)
    """The files of a log that did not exist before; durable with its first sync cycle."""
    flushed_offset: int = 0
    """What is known to be durable; the rest of the log is with its first sync cycle."""
    unsynced: list[str] = field(default_factory=list)
    """Paths of what recovery verified or wrote; perhaps not on the disk, perhaps not there at all."""
    names_changed: bool = False
    """Whether the directory itself has to be synced."""
    gaps_below: int = 0
    """Offsets may be missing below this one."""
    truncated_to: int | None = None
    """Recovery points above this offset are void, until new ones are stored."""
