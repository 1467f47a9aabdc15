"""One log directory: what lies in it, whether it may be used, and every log of it opened.

The offline marker is a file left by a broker whose sync failed: the page cache may then hold bytes that the disk
does not. The next start drops the cache of every file before it verifies them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from msgspec import Struct, field

from stratalog.hot.checkpoint_draft import CheckpointChanges
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.log.sync import SyncTicket
from stratalog.hot.recovery.opening import LEADER_EPOCH_MAX
from stratalog.hot.recovery.quarantine import STRAY
from stratalog.hot.segments.log_summary import LOG_SUMMARIES, LogSummary, summaries_from_bytes, summaries_to_bytes
from stratalog.hot.segments.scan import OFFSET_MAX
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.state.log_bounds import (
    LOG_BOUNDS,
    LogBounds,
    allowed_gaps_below,
    bounds_from_bytes,
    bounds_to_bytes,
    is_newer_than_checkpoint,
)
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.checkpoint import MetaProperties, RemoteLogState
from stratalog.hot.storage.directory_names import FoundPartition, directory_name, parse_directory_name
from stratalog.hot.storage.filesystem import Entry, Filesystem
from stratalog.hot.storage.registration_mark import REGISTRATION
from stratalog.hot.storage.removal import DirectoryRemoval
from stratalog.hot.unverified_logs import UNVERIFIED, read_unverified, write_unverified
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["BALLAST", "NEW_BESIDE", "OFFLINE", "LogDirectory"]

OFFLINE: Final = ".stratalog-offline"
NEW_BESIDE: Final = ".stratalog-new-beside"
BALLAST: Final = ".stratalog-ballast"
DELETE_SUFFIX: Final = "-delete"
_CLOSED_TOGETHER: Final = 64
"""Logs whose files are open at one time while a directory is closed."""

_DOOMED: Final = re.compile(r"\S+\.[0-9a-f]{32}-delete")
_ROOT_FILES: Final = frozenset(
    {
        *(checkpoint.RECOVERY_POINTS, checkpoint.LOG_START_OFFSETS),
        *(checkpoint.HIGH_WATERMARKS, checkpoint.CLEANER_OFFSETS, checkpoint.FORGOTTEN_OFFSETS),
        *(checkpoint.REMOTE_LOG, checkpoint.SECOND_TIMELINES, checkpoint.KNOWN_BUCKET),
        *(checkpoint.DELETED_ARCHIVES, f"{checkpoint.DELETED_ARCHIVES}.damaged"),
        *(checkpoint.META_PROPERTIES, checkpoint.BOOTSTRAP, REGISTRATION, checkpoint.CLEAN_SHUTDOWN),
        *(LOG_BOUNDS, LOG_SUMMARIES, UNVERIFIED),
        *(BALLAST, OFFLINE, NEW_BESIDE, ".lock"),
    }
)


Sync = Callable[[Sequence[SyncTicket]], None]


def _one_by_one(tickets: Sequence[SyncTicket]) -> None:
    for ticket in tickets:
        ticket.run()


class LogDirectory(Struct):
    """The state of one log directory, read once when the broker starts."""

    path: str
    files: Filesystem
    owner: MetaProperties | None = None
    clean: bool = False
    """The last stop was clean and nothing is known to be wrong."""
    unverified: set[TopicPartition] = field(default_factory=set)
    """Logs that this does not hold of: they were not opened since a stop that was not clean. Also some that left since."""
    clean_broker_epoch: int = -1
    was_offline: bool = False
    """A sync failed here before; caches were dropped."""
    partitions: dict[TopicPartition, FoundPartition] = field(default_factory=dict)
    """The partitions that lay here at the start, less those deleted or set aside since."""
    doomed: list[str] = field(default_factory=list)
    """Directories of deleted partitions whose files still have to go."""
    leaving: set[TopicPartition] = field(default_factory=set)
    """Partitions whose logs have left, and whose directories still bear their names: there was no room for others."""
    unknown: list[str] = field(default_factory=list)
    """Names that this broker does not write; left alone and reported."""
    damaged_checkpoints: list[str] = field(default_factory=list)
    """Checkpoints that could not be read: their logs are verified from the start."""
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    remote_logs: dict[TopicPartition, RemoteLogState] = field(default_factory=dict)
    second_timelines: dict[TopicPartition, int] = field(default_factory=dict)
    """Partitions whose log may be of another timeline than their archive; the numbers mean nothing."""
    cleaner_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    """Up to where each compacted log is clean; also of those that are compacted no longer."""
    cleaner_lock: Lock = field(default_factory=Lock)
    """Held while ``cleaner-offset-checkpoint`` or ``forgotten-offset-checkpoint`` is written."""
    forgotten_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    """Up to where logs may lack tombstones and markers that a cleaner has dropped; and the same as the checkpoint has it."""
    forgotten_stored: dict[TopicPartition, int] = field(default_factory=dict)
    bounds: dict[TopicPartition, LogBounds] = field(default_factory=dict)
    """The content of ``log-bounds``, as it is or will be."""
    summaries: dict[TopicPartition, LogSummary] = field(default_factory=dict)
    """Summaries by the last orderly stop, of logs that have not been opened since."""
    _gaps_unknown: bool = False
    """It is lost which logs were compacted once."""
    _written_elsewhere: bool = False
    """Another broker has written checkpoints here since ``log-bounds``, and may have cleaned logs."""
    is_bare: bool = False
    """Without readable recovery points at the start: nothing was begun here before, or all of it is gone."""
    gone: set[TopicPartition] = field(default_factory=set)
    """Logs that had recovery points at the start, and did not lie here."""
    bounds_stored: bool = False
    """``log-bounds`` and the checkpoint of log starts hold what is in ``bounds``."""
    points_stored: bool = False
    """The checkpoint of recovery points holds ``recovery_points``, since this start."""
    changes: CheckpointChanges = field(default_factory=CheckpointChanges)
    stale: dict[TopicPartition, set[str]] = field(default_factory=dict)
    """Logs that have left while checkpoints may have rows of them; each time another set, of those that `stale_rows` writes."""

    @classmethod
    def load(cls, path: str, files: Filesystem) -> LogDirectory:
        """Read the root files and list the partitions; the mark of a clean shutdown is taken away.

        Raises `OSError`, and `Corrupt` if the identity of the directory is unreadable: it is not ours to guess.
        """
        files.make_directory(path)
        with suppress(PermissionError):  # then the directory is older than this broker, and its maker has to keep it
            files.sync_directory(str(Path(path).parent))
        directory = cls(path, files)
        directory.owner = checkpoint.read_meta_properties(files, path)
        entries = files.scan(path)
        names = {entry.name for entry in entries}
        epoch = checkpoint.take_clean_shutdown(files, path)
        directory.was_offline = OFFLINE in names
        directory.clean = epoch is not None and not directory.was_offline
        directory.clean_broker_epoch = -1 if epoch is None else epoch
        directory.recovery_points = directory._offsets(checkpoint.RECOVERY_POINTS)
        directory.log_start_offsets = directory._offsets(checkpoint.LOG_START_OFFSETS)
        directory.high_watermarks = directory._offsets(checkpoint.HIGH_WATERMARKS)
        try:
            directory.remote_logs = checkpoint.read_remote_log(files, path)
        except Corrupt:
            directory.damaged_checkpoints.append(checkpoint.REMOTE_LOG)
        directory.second_timelines = directory._offsets(checkpoint.SECOND_TIMELINES, is_vital=False)
        if checkpoint.SECOND_TIMELINES in directory.damaged_checkpoints:
            directory.second_timelines = dict.fromkeys(directory.remote_logs, 0)  # any of them may have been named
        directory.cleaner_offsets = directory._offsets(checkpoint.CLEANER_OFFSETS, is_vital=False)
        directory.forgotten_stored = directory._offsets(checkpoint.FORGOTTEN_OFFSETS, is_vital=False)
        directory.forgotten_offsets = dict(directory.forgotten_stored)
        directory._read_summaries(names)
        for entry in entries:
            directory._sort_in(entry)
        directory._read_bounds(names)
        directory.unverified = read_unverified(files, path, directory.partitions, directory.damaged_checkpoints)
        points = checkpoint.RECOVERY_POINTS
        directory.is_bare = points not in names or points in directory.damaged_checkpoints
        directory.gone = directory.recovery_points.keys() - directory.partitions.keys()
        if directory.was_offline:
            directory._drop_caches()
        return directory

    def _offsets(self, name: str, *, is_vital: bool = True) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(self.files, self.path, name)
        except Corrupt:
            self.damaged_checkpoints.append(name)
            self.clean = self.clean and not is_vital
            return {}

    def _read_bounds(self, names: Collection[str]) -> None:
        """Log starts are taken from here, unless something else has written their checkpoint since."""
        if LOG_BOUNDS in names:
            try:
                self.bounds = bounds_from_bytes(self.files.read_bytes(f"{self.path}/{LOG_BOUNDS}"))
            except Corrupt:
                self.damaged_checkpoints.append(LOG_BOUNDS)
        if not self.bounds:
            cleaned = checkpoint.CLEANER_OFFSETS
            self._gaps_unknown = (
                cleaned in self.damaged_checkpoints or not self.cleaner_offsets.keys() <= self.partitions.keys()
            )
            return
        lost = checkpoint.LOG_START_OFFSETS in self.damaged_checkpoints
        self._written_elsewhere = not lost and not is_newer_than_checkpoint(self.files, self.path)
        if not self._written_elsewhere:
            starts = {name: one.log_start_offset for name, one in self.bounds.items()}
            if not lost and starts != {name: self.log_start_offsets.get(name) for name in starts}:
                self.damaged_checkpoints.append(checkpoint.LOG_START_OFFSETS)
            self.log_start_offsets |= starts

    def _read_summaries(self, names: Collection[str]) -> None:
        """Read the summaries, which save time.

        After a failed sync they are not used: the cache may hold bytes that the disk lacks.
        """
        if LOG_SUMMARIES in names and not self.was_offline:
            try:
                self.summaries = summaries_from_bytes(self.files.read_bytes(f"{self.path}/{LOG_SUMMARIES}"))
            except Corrupt:
                self.damaged_checkpoints.append(LOG_SUMMARIES)

    def _topic_id(self, topic_partition: TopicPartition, path: str) -> Uuid | None:
        """As the directory's own file has it, None if that is missing or unreadable."""
        summary = self.summaries.get(topic_partition)
        try:
            if summary is not None:
                known = summary.files.get(checkpoint.PARTITION_METADATA)
                if self.files.status(f"{path}/{checkpoint.PARTITION_METADATA}") == known:
                    return summary.topic_id
            return checkpoint.read_topic_id(self.files, path)
        except (Corrupt, FileNotFoundError):
            return None

    def _sort_in(self, entry: Entry) -> None:
        path = f"{self.path}/{entry.name}"
        if not entry.is_directory:
            if entry.name not in _ROOT_FILES and not entry.name.endswith(".tmp"):
                self.unknown.append(entry.name)
        elif _DOOMED.fullmatch(entry.name):
            self.doomed.append(path)
        elif (partition := parse_directory_name(entry.name)) is not None:
            self.partitions[partition] = FoundPartition(partition, self._topic_id(partition, path), path)
        elif STRAY.fullmatch(entry.name) is None:
            self.unknown.append(entry.name)

    def _drop_caches(self) -> None:
        for partition in self.partitions.values():
            for entry in self.files.scan(partition.path):
                if not entry.is_directory:
                    self.files.open_read(f"{partition.path}/{entry.name}").drop_cache()

    # -- opening ------------------------------------------------------------------------------------------

    def partition_path(self, topic_partition: TopicPartition) -> str:
        """Where a partition's log lies."""
        return f"{self.path}/{directory_name(topic_partition)}"

    def open_log(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        *,
        now_ms: int,
        cache: SegmentCache | None = None,
        leader_epoch_max: int = LEADER_EPOCH_MAX,
        refuse_damage: bool = False,
        unsynced_may_go: bool = False,
        others_have_it: bool = False,
    ) -> Log:
        """Open (or create) one log with what the checkpoints say of it. Raises `OSError`, `Corrupt`.

        ``leader_epoch_max`` is the partition's newest epoch; the last three are as in `OpenRequest`.
        """
        known_gaps_below, known_border_gaps_below = self._known_gaps_below(topic_partition, config)
        cleaned = self._gaps_unknown or bool(known_gaps_below) or topic_partition in self.cleaner_offsets
        log = Log.open(
            self.partition_path(topic_partition),
            topic_partition,
            topic_id,
            config,
            files=self.files,
            now_ms=now_ms,
            clean=self.clean and topic_partition not in self.unverified,
            recovery_point=self.recovery_points.get(topic_partition, 0),
            log_start_offset=self.log_start_offsets.get(topic_partition, 0),
            cache=cache,
            may_have_gaps=cleaned,
            summary=self.summaries.pop(topic_partition, None),
            known_gaps_below=known_gaps_below,
            known_border_gaps_below=known_border_gaps_below,
            leader_epoch_max=leader_epoch_max,
            durable_end=self.durable_end(topic_partition),
            refuse_damage=refuse_damage, unsynced_may_go=unsynced_may_go, others_have_it=others_have_it,
        )  # fmt: skip
        anywhere = log.gaps.below if config.compacted else 0
        log.gaps.know_passed(*allowed_gaps_below(self.bounds, topic_partition, otherwise=anywhere))
        return log

    def _known_gaps_below(self, name: TopicPartition, config: LogConfig) -> tuple[int | None, int | None]:
        """As ``log-bounds`` has them; None if it has no row, or another broker may have cleaned the log: above its own row."""
        _, gaps_below, border_gaps_below, _ = self.bounds.get(name, (0, None, None, None))
        cleaned_below = self.cleaner_offsets.get(name, -1)
        if self._written_elsewhere and (config.compacted or cleaned_below >= 0):
            return None, None
        return (None, None) if cleaned_below > (gaps_below or 0) else (gaps_below, border_gaps_below)

    def durable_end(self, name: TopicPartition) -> int:
        """The end of what some checkpoint shows to have been synced; the largest offset if one of them is unreadable."""
        kept = {checkpoint.RECOVERY_POINTS, checkpoint.REMOTE_LOG, checkpoint.HIGH_WATERMARKS}
        if kept.intersection(self.damaged_checkpoints):
            return OFFSET_MAX
        archived = self.remote_logs[name].remote_end_offset if name in self.remote_logs else 0
        return max(archived, self.recovery_points.get(name, 0), self.high_watermarks.get(name, 0))

    # -- checkpoints and the end --------------------------------------------------------------------------

    def write_checkpoints(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write recovery points and log starts of all open logs; partitions not open keep theirs. Raises `OSError`."""
        self.write_recovery_points(logs)
        self.store_bounds()

    def write_recovery_points(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write the recovery points, and take over the bounds that `store_bounds` writes. Raises `OSError`.

        Each file takes some 20 ms for 10,000 partitions; `stratalog.hot.checkpoint_steps` does it in steps.
        """
        self.recovery_points |= {name: log.flushed_offset for name, log in logs.items()}
        self.changes.store_count += 1
        self.points_stored = False
        checkpoint.write_offsets(self.files, self.path, checkpoint.RECOVERY_POINTS, self.recovery_points)
        self._note_bounds(logs)

    def write_bounds(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write log starts, and below where offsets may be missing, of these logs, if they have changed. Raises `OSError`."""
        self._note_bounds(logs)
        self.store_bounds()
        for log in logs.values():
            row = self.bounds[log.topic_partition]
            log.gaps.kept(row.gaps_below, row.border_gaps_below)

    def _note_bounds(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Take the bounds over. A partition that is removed before they are stored is not written."""
        self.log_start_offsets |= {name: log.log_start_offset for name, log in logs.items()}
        bounds = self.bounds | {name: log.bounds for name, log in logs.items()}
        if bounds != self.bounds:
            self.bounds_stored = False
            self.bounds = bounds

    def store_bounds(self) -> None:
        """Write the bounds that were taken over, if they have changed. Raises `OSError`."""
        if self.bounds_stored:
            return
        self.changes.store_count += 1
        checkpoint.write_offsets(self.files, self.path, checkpoint.LOG_START_OFFSETS, self.log_start_offsets)
        checkpoint.write_durably(self.files, f"{self.path}/{LOG_BOUNDS}", bounds_to_bytes(self.bounds))
        self.bounds_stored = True

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks of all partitions here. Raises `OSError`."""
        self.changes.store_count += 1
        checkpoint.write_offsets(self.files, self.path, checkpoint.HIGH_WATERMARKS, high_watermarks)

    def mark_offline(self, reason: str) -> None:
        """Leave the marker: a sync failed, nothing cached here may be believed. Raises `OSError`."""
        note = json.dumps({"version": 0, "reason": reason})
        checkpoint.write_durably(self.files, f"{self.path}/{OFFLINE}", note.encode())

    def clear_offline(self) -> None:
        """Every log was verified from the disk and synced: the directory is good again. Raises `OSError`."""
        self.files.unlink(f"{self.path}/{OFFLINE}")
        self.files.sync_directory(self.path)
        self.was_offline = False

    def close(self, logs: Mapping[TopicPartition, Log], *, broker_epoch: int, sync: Sync = _one_by_one) -> None:
        """Close all logs and leave the mark of a clean shutdown, as the last write. Their high watermarks are written.

        ``sync`` runs the sync tickets of logs, perhaps side by side, and returns when all have run. Raises `OSError`.
        """
        every = list(logs.items())
        summaries = {}
        for first in range(0, len(every), _CLOSED_TOGETHER):
            group = every[first : first + _CLOSED_TOGETHER]
            tickets = [(log, ticket) for _, log in group if (ticket := log.begin_close()) is not None]
            sync([ticket for _, ticket in tickets])
            for log, ticket in tickets:
                log.finish_sync(ticket)
            for name, log in group:
                if (summary := log.summary()) is not None:
                    summaries[name] = summary
                log.abandon()
        self.write_checkpoints(logs)
        for log in logs.values():
            if log.cycles.noted_cut is not None:
                log.cycles.checkpoints_stored(log.cycles.noted_cut)
        checkpoint.write_durably(self.files, f"{self.path}/{LOG_SUMMARIES}", summaries_to_bytes(summaries))
        left = self.partitions.keys() - logs.keys()
        write_unverified(self.files, self.path, left & self.unverified if self.clean else left)
        checkpoint.write_clean_shutdown(self.files, self.path, broker_epoch)

    # -- deleting a partition -----------------------------------------------------------------------------

    def forget(self, topic_partition: TopicPartition) -> None:
        """Drop a partition from every checkpoint: its directory has gone or has another name."""
        self.partitions.pop(topic_partition, None)
        self.gone.discard(topic_partition)
        self.forget_rows(topic_partition)

    def forget_rows(self, topic_partition: TopicPartition) -> None:
        """The next log of this name has none of what the checkpoints say; see `stale_rows`."""
        for known in (self.recovery_points, self.log_start_offsets, self.high_watermarks, self.bounds, self.summaries):
            known.pop(topic_partition, None)
        others = {
            checkpoint.CLEANER_OFFSETS: self.cleaner_offsets.pop(topic_partition, None),
            checkpoint.FORGOTTEN_OFFSETS: self.forgotten_offsets.pop(topic_partition, None),
            checkpoint.SECOND_TIMELINES: self.second_timelines.pop(topic_partition, None),
            checkpoint.REMOTE_LOG: self.remote_logs.pop(topic_partition, None),
        }
        had = {file for file, row in others.items() if row is not None} | self.stale.get(topic_partition, set())
        self.changes.forget(topic_partition)
        self.stale[topic_partition] = had
        self.bounds_stored = self.points_stored = False

    def take_doomed(self) -> list[DirectoryRemoval]:
        """Hand over the directories of deleted partitions to be removed; one that could not be goes back into ``doomed``."""
        doomed, self.doomed = self.doomed, []
        return [DirectoryRemoval(self.files, path) for path in doomed]
