"""What opening a log is asked, and what it yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from stratalog.hot.config import LogConfig
from stratalog.hot.filesystem import File, Filesystem
from stratalog.hot.leader_epochs import LeaderEpochCache
from stratalog.hot.producer_state import ProducerStateManager
from stratalog.hot.segment import Segment, SegmentCache
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["LoadedLog", "OpenRequest", "RecoveryReport"]


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


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did; all zero and None after a clean stop."""

    segments_checked: int = 0
    """Segments whose every batch was verified."""
    truncated_bytes: int = 0
    """Bytes of a torn tail that were cut off the active segment."""
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
    truncated_to: int | None = None
    """Recovery points above this offset are void, until new ones are stored."""
