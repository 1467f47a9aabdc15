"""The request to open a log, and the result."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct, field

from stratalog.hot.config import LogConfig
from stratalog.hot.segments.log_summary import LogSummary
from stratalog.hot.segments.scan import OFFSET_MAX
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.state.leader_epochs import LeaderEpochCache
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.storage.filesystem import File, Filesystem
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
    """The summary by the last orderly stop: a hint that is compared with the files."""
    known_gaps_below: int | None = None
    """No offset is missing from here on; None if that is not known."""
    known_border_gaps_below: int | None = None
    """From here on none is missing at the end of a segment, either; None if it is no less than the number before."""
    leader_epoch_max: int = LEADER_EPOCH_MAX
    """The newest leader epoch of the partition, as the cluster's metadata have it."""
    refuse_damage: bool = False
    """Raise `Corrupt` where more than a torn tail would be set aside, and leave the files as they are."""
    durable_end: int = OFFSET_MAX
    """The end of the offsets that a checkpoint shows as synced. A power cut may have torn what follows. By default all count."""
    unsynced_may_go: bool = False
    """Refuse nothing above the recovery point: no node relies on what this log may not have synced."""

    others_have_it: bool = False
    """Other replicas have the log: it ends before damage, and is copied from there on. To go on above it in the same leader
    epoch would make two logs of one history.
    """

    @property
    def gaps_below(self) -> int:
        """Offsets may be missing below this one: where the cleaner was, or where it is not known that it was not."""
        if self.known_gaps_below is not None:
            return self.known_gaps_below
        return OFFSET_MAX if self.may_have_gaps or self.config.compacted else 0

    @property
    def border_gaps_below(self) -> int:
        """Below this one offsets may be missing between two segments; above, they were lost with the end of a file."""
        known = self.known_border_gaps_below
        return self.gaps_below if known is None else min(known, self.gaps_below)

    @property
    def row_border_below(self) -> int:
        """The second number of the log's row; -1 where it has none, or one that does not count."""
        return -1 if self.known_gaps_below is None else self.border_gaps_below

    def cut_at(self, offset: int) -> OpenRequest:
        """The request for a log that was cut since the checkpoints were written: they show nothing from ``offset`` on."""
        recovery_point, durable_end = min(self.recovery_point, offset), min(self.durable_end, offset)
        return self._replace(recovery_point=recovery_point, durable_end=durable_end)

    def log_start(self, first_base_offset: int) -> int:
        """The checkpoint's log start; a log without an archive cannot begin below its first segment."""
        start = self.log_start_offset
        return start if self.config.remote_storage_enable else max(start, first_base_offset)


class RecoveryReport(Struct):
    """The findings and repairs of a start; all zero and None after a clean stop."""

    segments_checked: int = 0
    """Segments with batches that were verified."""
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
    has_lost_flushed: bool = False
    """Whether that is below the recovery point: what was lost had been synced."""
    reason: str = ""
    """The fault at ``damaged_offset``."""
    quarantine: str | None = None
    """The directory that now holds the damaged bytes."""
    indexes_rebuilt: list[int] = field(default_factory=list)
    """Base offsets of segments whose indexes were derived anew."""
    frozen_indexes_rebuilt: list[str] = field(default_factory=list)
    """Paths, without a suffix, of frozen segments that were sound, but their indexes were not."""
    missing: list[Segment] = field(default_factory=list)
    """The ranges that are missing on this disk (`hot.recovery.missing`): found when the log was opened, or since."""


class LoadedLog(Struct):
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
    """Everything below is known to be durable; the rest is so after the first sync cycle."""
    unsynced: list[str] = field(default_factory=list)
    """Paths of what recovery verified or wrote; perhaps not on the disk, perhaps not there at all."""
    names_changed: bool = False
    """Whether the directory itself has to be synced."""
    gaps_below: int = 0
    """Offsets may be missing below this one."""
    border_gaps_below: int = 0
    """... and below this one also between two segments."""
    known_border_gaps_below: int = 0
    """As it was asked for: perhaps above the end of the log, -1 without a row."""
    truncated_to: int | None = None
    """Recovery points above this offset are void, until new ones are stored."""
