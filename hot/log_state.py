"""The fields of a log and what can be told from them; appending, writing and the rest build on it."""

from __future__ import annotations

from collections.abc import Callable

from stratalog.hot.config import LogConfig
from stratalog.hot.filesystem import Filesystem
from stratalog.hot.leader_epochs import LeaderEpochCache
from stratalog.hot.loaded import LoadedLog
from stratalog.hot.producer_state import ProducerStateManager
from stratalog.hot.segment import Segment, SegmentInfo
from stratalog.hot.segment_cache import SegmentCache
from stratalog.hot.segments import SegmentList
from stratalog.hot.sync import Replacement, StoredFile, Syncable, SyncTicket
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["LogState"]


class LogState:
    """Offsets, segments and states of one partition. `Log` is the class to use."""

    __slots__ = (
        "_cache",
        "_created",
        "_directory_dirty",
        "_dirty",
        "_doomed",
        "_failed",
        "_files",
        "_half_doomed",
        "_leaving",
        "_next_expiry_ms",
        "_releases",
        "_replacement_count",
        "_replacements",
        "_seals",
        "_segments",
        "_snapshots",
        "_tickets",
        "_truncated_to",
        "_unsynced",
        "compacted_before",
        "config",
        "directory",
        "flushed_offset",
        "gaps_below",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producer_state",
        "recovery",
        "topic_id",
        "topic_partition",
        "written_offset",
    )

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        files: Filesystem,
        cache: SegmentCache,
        loaded: LoadedLog,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.recovery = loaded.report
        """What opening found and did."""
        self.leader_epochs: LeaderEpochCache = loaded.leader_epochs
        self.producer_state: ProducerStateManager = loaded.producer_state
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = self.written_offset = loaded.log_end_offset
        self.flushed_offset = loaded.flushed_offset
        self._files = files
        self._cache = cache
        self._segments = SegmentList(loaded.segments)
        self._snapshots: list[int] = loaded.snapshots
        self._dirty: list[Segment] = []
        self._seals: dict[Segment, bytes] = {}
        self._releases: list[Callable[[], None]] = []
        self._unsynced: dict[Syncable, None] = dict.fromkeys(loaded.created)
        self._unsynced |= {StoredFile(files, path): None for path in loaded.unsynced}
        self._replacements: list[Replacement] = []
        self._replacement_count = 0
        self._tickets: list[SyncTicket] = []
        self._created = bool(loaded.created)
        self._directory_dirty = self._created or loaded.names_changed
        self.compacted_before = False
        """The cleaner has been here: offsets may be missing, whatever the topic's settings say now."""
        self.gaps_below = loaded.gaps_below
        """No offset is missing from here on: the cleaner never was in what comes behind."""
        self._leaving: list[Segment] = []
        self._doomed: list[tuple[list[str], int | None]] = []
        self._half_doomed: list[str] = []
        self._failed: OSError | None = None
        self._next_expiry_ms = 0
        self._truncated_to: int | None = loaded.truncated_to

    # -- what stands where --------------------------------------------------------------------------------

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that can be read here."""
        return max(self.log_start_offset, self._segments[0].base_offset)

    @property
    def first_base_offset(self) -> int:
        """Where the first local segment begins: a batch border, never above the local log start."""
        return self._segments[0].base_offset

    @property
    def active_base_offset(self) -> int:
        """Where the active segment begins: everything local below it is frozen."""
        return self._segments.active.base_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of an undecided transaction, None when there is none."""
        offset = self.producer_state.first_unstable_offset
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of all local segments, queued ones included."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def flush_due(self) -> bool:
        """Whether so many offsets are written and not known to be durable as ``flush.messages`` says, or a roll is not."""
        flushed_offset = self.flushed_offset
        return (
            self.written_offset - flushed_offset >= self.config.flush_messages
            or flushed_offset < self._segments.active.base_offset
        )

    @property
    def queued_bytes(self) -> int:
        """Bytes that the next `write_queued` will write."""
        total = 0
        for segment in self._dirty:  # as a rule one, for which a generator would cost more than the sum
            total += segment.size_bytes - segment.written_bytes
        return total

    def segments(self) -> list[SegmentInfo]:
        """Every local segment, oldest first. Raises `OSError`."""
        last = len(self._segments) - 1
        return [segment.info(active=number == last) for number, segment in enumerate(self._segments)]

    def update_config(self, config: LogConfig) -> None:
        """Obey new topic settings from the next append on."""
        self.config = config
        for segment in self._segments:
            segment.config = config

    def _refusal(self, leader_epoch: int) -> KafkaError:
        """Why this log takes no append now."""
        if self._failed is not None:
            return KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.topic_partition} takes no appends after a failed write: {self._failed}",
            )
        return KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {leader_epoch} of {self.topic_partition} is over: the log has epoch "
            f"{self.leader_epochs.latest_epoch}",
        )

    def _begin_segment(self, base_offset: int) -> Segment:
        """Make a new active segment in memory; the old one is sealed by the next write, as it stands now."""
        old = self._segments.active
        self._seals[old] = self.producer_state.to_bytes()
        if not self._dirty or self._dirty[-1] is not old:
            self._dirty.append(old)
        segment = Segment(self._files, self.directory, base_offset, self.config, self._cache)
        self._segments.append(segment)
        self._dirty.append(segment)
        return segment
