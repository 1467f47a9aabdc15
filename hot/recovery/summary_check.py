"""Summaries of logs: taken when a log was closed in order, and believed as far as the files bear them out.

* After an orderly stop: if the directory and every file that the summary names stand as they stood, nothing is opened.
* After a kill: the summary tells up to where the active segment was complete and synced, so that only what came later
  is verified. It must have been the same file, and the last batch of then, and the snapshot of the producers of then,
  must still be there. Each way to make a log shorter removes that snapshot, or the file, or its end.

Where the files differ, the result is None, and the log is opened without the summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from crc32c import crc32c
from msgspec import Struct

from stratalog.hot.recovery.interrupted import NAMED
from stratalog.hot.recovery.missing import mark_missing
from stratalog.hot.recovery.opening import LoadedLog, OpenRequest, RecoveryReport
from stratalog.hot.recovery.snapshots import SNAPSHOT
from stratalog.hot.segments.log_summary import ActiveSummary, LogSummary
from stratalog.hot.segments.scan import scan_headers
from stratalog.hot.segments.segment import SUFFIXES, Segment, segment_path
from stratalog.hot.segments.segment_indexes import TailIndexes
from stratalog.hot.segments.transaction_index import (
    ABORTED_ENTRY_BYTES,
    AbortedTxn,
    aborted_from_bytes,
    aborted_to_bytes,
)
from stratalog.hot.state.leader_epochs import LeaderEpochCache
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.storage.checkpoint import LEADER_EPOCHS, PARTITION_METADATA
from stratalog.hot.storage.filesystem import FileStatus, Filesystem
from stratalog.wire.batch import HEADER_BYTES
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import Uuid

__all__ = ["KnownPart", "known_epochs", "known_part", "load_summarised", "take_summary"]

_LOG: Final = SUFFIXES[0]
_INDEXES: Final = frozenset(SUFFIXES[1:])
_STEP_BYTES: Final = 4096


# -- taking one ------------------------------------------------------------------------------------------------


def take_summary(
    files: Filesystem,
    directory: str,
    topic_id: Uuid,
    segments: Sequence[Segment],
    epochs: LeaderEpochCache,
    producer_count: int,
    end_offset: int,
) -> LogSummary | None:
    """The summary of a log that has been written and synced as a whole, and that does not change any more.

    None if there is something in its directory that a start has to look at. Raises `OSError`.
    """
    active = _active_summary(segments[-1], end_offset)
    found = _summarised_files(files, directory)
    logs = [f"{segment.base_offset:020d}{_LOG}" for segment in segments]
    if active is None or found is None or logs != [name for name in found if name.endswith(_LOG)]:
        return None
    if any(found[name].size_bytes != one.size_bytes for name, one in zip(logs, segments, strict=True)):
        return None  # damaged bytes are still to be set aside
    if not {PARTITION_METADATA, f"{end_offset:020d}{SNAPSHOT}"} <= found.keys():
        return None
    history = epochs.until(end_offset)
    return LogSummary(topic_id, end_offset, producer_count, files.status(directory), found, history, active)


def _summarised_files(files: Filesystem, directory: str) -> dict[str, FileStatus] | None:
    found = {}
    for entry in files.scan(directory):
        match = NAMED.fullmatch(entry.name)
        suffix = "" if match is None else match[2]
        if suffix in (_LOG, SNAPSHOT) or entry.name in (LEADER_EPOCHS, PARTITION_METADATA):
            found[entry.name] = files.status(f"{directory}/{entry.name}")
        elif suffix not in _INDEXES:
            return None  # unfinished business
    return found


def _active_summary(segment: Segment, end_offset: int) -> ActiveSummary | None:
    if segment.stored is not None:
        return segment.stored
    if segment.next_offset != end_offset or segment.pending or segment.frozen:
        return None
    try:
        aborted = segment.aborted
    except Corrupt:
        return None
    indexes = segment.indexes
    known = indexes.tail()
    start = known.last_position if known is not None else 0
    position = end = start
    for position, header in scan_headers(segment.file, start, segment.size_bytes, step_bytes=_STEP_BYTES):
        end = position + header.size_bytes
    if known is None or end != segment.size_bytes:
        return None
    last = segment.file.pread(HEADER_BYTES, position).hex() if segment.size_bytes else ""
    aborted_crc = crc32c(aborted_to_bytes(aborted))
    return ActiveSummary(
        segment.base_offset, segment.roll_timestamp_ms, position, last, known, len(aborted), aborted_crc
    )


# -- after an orderly stop -------------------------------------------------------------------------------------


def load_summarised(request: OpenRequest, summary: LogSummary) -> LoadedLog | None:
    """The log as it was closed, without opening its files; None if they are not what they were then.

    Raises `OSError`.
    """
    if summary.topic_id != request.topic_id or request.recovery_point > summary.end_offset:
        return None
    if not _unchanged(request, summary):
        return None
    segments = _segments(request, summary)
    report = RecoveryReport(missing=[one for one in segments if _is_missing(request, one)])
    active = segments[-1]
    snapshots = [int(name[: -len(SNAPSHOT)]) for name in summary.files if name.endswith(SNAPSHOT)]
    state = _producers(request, summary)
    aborted = _aborted(request, summary.active)
    if active.base_offset != summary.active.base_offset or state is None or aborted is None:
        return None
    active.take_stored_aborted(aborted)
    epochs = LeaderEpochCache(summary.epochs)
    log_start = request.log_start(segments[0].base_offset)
    epochs.truncate_from_start(log_start)
    end = summary.end_offset
    return LoadedLog(
        segments,
        epochs,
        state,
        snapshots,
        log_start,
        end,
        report,
        flushed_offset=end,
        gaps_below=min(request.gaps_below, end),
        border_gaps_below=min(request.border_gaps_below, end),
        known_border_gaps_below=request.row_border_below,
    )


def _is_missing(request: OpenRequest, segment: Segment) -> bool:
    return mark_missing(request.files, segment, request.border_gaps_below)


def _unchanged(request: OpenRequest, summary: LogSummary) -> bool:
    status, directory = request.files.status, request.directory
    try:
        if status(directory) != summary.directory:
            return False
        return all(status(f"{directory}/{name}") == known for name, known in summary.files.items())
    except FileNotFoundError:
        return False


def _segments(request: OpenRequest, summary: LogSummary) -> list[Segment]:
    logs = [(int(name[: -len(_LOG)]), status) for name, status in summary.files.items() if name.endswith(_LOG)]
    ends = [base_offset for base_offset, _ in logs[1:]]
    segments = [
        Segment(
            request.files,
            request.directory,
            base_offset,
            request.config,
            request.cache,
            size_bytes=status.size_bytes,
            next_offset=end,
            frozen=True,
            first_append_ms=status.modified_ns // 1_000_000 if status.size_bytes else -1,
        )
        for (base_offset, status), end in zip(logs, [*ends, summary.end_offset], strict=True)
    ]
    active = segments[-1]
    active.frozen = False
    active.roll_timestamp_ms = summary.active.roll_timestamp_ms
    active.stored = summary.active
    return segments


def _producers(request: OpenRequest, summary: LogSummary) -> ProducerStateManager | None:
    """The producers at the end of the log."""
    state = ProducerStateManager(str(request.topic_partition))
    state.end_offset = summary.end_offset
    if summary.producer_count:
        path = segment_path(request.directory, summary.end_offset, SNAPSHOT)
        try:
            state.load_bytes(request.files.read_bytes(path), summary.end_offset)
        except (Corrupt, FileNotFoundError):
            return None
    return state


def _aborted(request: OpenRequest, active: ActiveSummary) -> list[AbortedTxn] | None:
    """The first entries of the transaction index, as many as there were."""
    if not active.aborted_count:
        return []
    path = segment_path(request.directory, active.base_offset, SUFFIXES[3])
    try:
        data = request.files.read_bytes(path)[: active.aborted_count * ABORTED_ENTRY_BYTES]
        return aborted_from_bytes(data) if crc32c(data) == active.aborted_crc else None
    except (Corrupt, FileNotFoundError):
        return None


# -- after a kill ----------------------------------------------------------------------------------------------


class KnownPart(Struct, frozen=True):
    """The part of a segment that need not be verified again, and what it implies."""

    base_offset: int
    position: int
    """Behind its last batch."""
    end_offset: int
    roll_timestamp_ms: int
    indexes: TailIndexes
    aborted: list[AbortedTxn]
    producers: ProducerStateManager


def known_part(request: OpenRequest, segment: Segment) -> KnownPart | None:
    """The part of ``segment``, where the recovery point lies, that the summary vouches for. Raises `OSError`."""
    summary = request.summary
    if summary is None or request.clean or summary.topic_id != request.topic_id:
        return None
    active = summary.active
    if active.base_offset != segment.base_offset or request.recovery_point < summary.end_offset:
        return None
    before = summary.files.get(segment.path().rpartition("/")[2])
    if before is None or not before.size_bytes or not _still_there(request, summary.files, summary.end_offset):
        return None
    try:
        now = request.files.status(segment.path())
    except FileNotFoundError:  # the log has lost all of its segments, and this one stands for them
        return None
    if now.inode != before.inode or now.size_bytes < before.size_bytes:
        return None
    if segment.file.pread(HEADER_BYTES, active.last_batch_position).hex() != active.last_batch_header:
        return None
    producers, aborted = _producers(request, summary), _aborted(request, active)
    if producers is None or aborted is None:
        return None
    indexes = TailIndexes(segment.base_offset, request.config.index_interval_bytes, active.indexes, before.size_bytes)
    return KnownPart(
        segment.base_offset,
        before.size_bytes,
        summary.end_offset,
        active.roll_timestamp_ms,
        indexes,
        aborted,
        producers,
    )


def known_epochs(request: OpenRequest) -> LeaderEpochCache | None:
    """The epochs as that stop left them, if their checkpoint was not replaced since. Raises `OSError`."""
    summary = request.summary
    known = None if summary is None or request.clean else summary.files.get(LEADER_EPOCHS)
    if summary is None or known is None or summary.topic_id != request.topic_id:
        return None
    unchanged = request.files.status(f"{request.directory}/{LEADER_EPOCHS}") == known
    return LeaderEpochCache(summary.epochs) if unchanged else None


def _still_there(request: OpenRequest, files: Mapping[str, FileStatus], end_offset: int) -> bool:
    """Whether the snapshot of the producers is the one of that stop: nothing below it was cut off since."""
    path = segment_path(request.directory, end_offset, SNAPSHOT)
    try:
        return request.files.status(path) == files.get(path.rpartition("/")[2])
    except FileNotFoundError:
        return False
