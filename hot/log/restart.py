"""Begins a log anew at another offset, without its batches, which are removed or kept aside."""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.hot.log.ending_swaps import end_swap
from stratalog.hot.log.parts import LogParts
from stratalog.hot.recovery.quarantine import Quarantine
from stratalog.hot.recovery.snapshots import SNAPSHOT
from stratalog.hot.segments.segment import SUFFIXES, Segment
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.storage.checkpoint import LEADER_EPOCHS
from stratalog.hot.storage.shortages import SHORTAGES

__all__ = ["quarantine_and_restart", "restart"]


def quarantine_and_restart(
    parts: LogParts,
    offset: int,
    leader_epochs: Sequence[EpochEntry],
    producer_snapshot: bytes | None,
    *,
    log_start_offset: int | None,
    now_ms: int,
    reason: str,
    oldest_first: bool = False,
) -> str | None:
    """As `restart`, but keeps the local files; returns the directory that has them, None if there were none.

    ``oldest_first``: a crash in the middle leaves no log that passes for a whole one.
    """
    quarantine = Quarantine(parts.place.files, parts.place.directory, now_ms)
    if oldest_first:
        _empty_queue(parts)  # into files that are still here
        with parts.tail.stops_if_it_fails(for_good=True):
            end_swap(parts)
            for segment in parts.segments:
                parts.place.cache.drop(segment)
            oldest, *later = parts.segments
            quarantine.move(_names(oldest)[:1], reason)  # its ``.index`` says to a start that it is lost, and goes last
            quarantine.move([name for segment in reversed(later) for name in _names(segment)], reason)
    restart(
        parts,
        offset,
        leader_epochs,
        producer_snapshot,
        log_start_offset=log_start_offset,
        keep=(quarantine, reason),
    )
    return quarantine.directory


def restart(
    parts: LogParts,
    offset: int,
    leader_epochs: Sequence[EpochEntry],
    producer_snapshot: bytes | None,
    *,
    log_start_offset: int | None,
    keep: tuple[Quarantine, str] | None = None,
) -> None:
    """Remove every local batch and go on at ``offset`` with the given history of epochs and producers.

    The log start becomes ``log_start_offset`` (an archive's), by default ``offset``. ``keep``: where the local files
    go, and why; None if they are removed. Raises `OSError`, and `Corrupt` for a snapshot that is not one, before
    anything is removed.
    """
    producers = ProducerStateManager(str(parts.place.topic_partition))
    if producer_snapshot is not None:
        producers.load_bytes(producer_snapshot, offset)
    producers.end_offset = offset
    tail = parts.tail
    _empty_queue(parts)
    with tail.stops_if_it_fails(for_good=True):
        is_stored = producer_snapshot is not None and parts.snapshots.store_ahead(offset, producer_snapshot)
        _begin_anew(parts, offset, leader_epochs, producers, keep, offset if is_stored else None)
    tail.failed, tail.failed_for_good = None, False
    parts.start.offset = offset if log_start_offset is None else log_start_offset
    parts.epochs.truncate_from_start(parts.start.offset)  # as where the log start has moved: replicas are alike
    if producer_snapshot is not None and not is_stored:
        parts.snapshots.awaited = offset, producer_snapshot
    try:
        parts.snapshots.store_awaited()
        tail.write()
        parts.cycles.sync_names()
    except OSError as error:  # the log has its place: `discard_unwritten` does the rest when there is room
        tail.failed, tail.failed_for_good = error, error.errno not in SHORTAGES
        raise
    parts.start.left_durably()


def _empty_queue(parts: LogParts) -> None:
    tail = parts.tail
    if tail.failed is not None and tail.failed.errno in SHORTAGES:
        # All of it goes, also the batches that found no room: they were refused. A log that had no room to begin anew is as
        # empty as it will be.
        tail.discard_queued()
    else:
        tail.write()


def _begin_anew(
    parts: LogParts,
    offset: int,
    leader_epochs: Sequence[EpochEntry],
    producers: ProducerStateManager,
    keep: tuple[Quarantine, str] | None,
    snapshot_offset: int | None,
) -> None:
    end_swap(parts)
    parts.start.finish_leaving()
    parts.place.before_cut(offset)
    parts.cycles.void_recovery_point(0)  # a crash leaves some of the old segments, before a gap that is no damage
    active = parts.place.new_segment(offset)
    _replace_segments(parts, active, keep)
    if keep is not None:
        names = [f"{one:020d}{SNAPSHOT}" for one in parts.snapshots.offsets if one != snapshot_offset]
        keep[0].move([*names, LEADER_EPOCHS], keep[1])
        parts.snapshots.offsets.clear()
    parts.snapshots.begin_anew(snapshot_offset)
    parts.producers.take_over(producers)
    parts.epochs.clear()
    for entry in leader_epochs:
        parts.epochs.assign(*entry)
    parts.epochs.dirty = True
    parts.tail.restart(active, offset)
    parts.cycles.restart(offset)
    parts.gaps.begin_anew(offset)


def _replace_segments(parts: LogParts, active: Segment, keep: tuple[Quarantine, str] | None) -> None:
    """Put an empty segment in the place of all others. The log always has one (on the disk, unless the old ones are kept aside).

    Old ones go newest first: a crash in between leaves a log that ends at the first gap.
    """
    segments, files = parts.segments, parts.place.files
    active.replace_aborted(())
    if keep is None and all(segment.base_offset != active.base_offset for segment in segments):
        active.file.truncate(0)
        files.sync_directory(parts.place.directory)
    for number in range(len(segments) - 1, -1, -1):
        _leave(parts, segments[number], active, keep)
        if number:
            segments.remove_from(number)
    segments.remove_from(0)
    segments.append(active)


def _leave(parts: LogParts, segment: Segment, active: Segment, keep: tuple[Quarantine, str] | None) -> None:
    """Take one segment's files out of the log, or empty them if they bear the name of the new one."""
    cache = parts.place.cache
    if keep is not None:
        cache.drop(segment)
        keep[0].move(_names(segment), keep[1])
    elif segment.base_offset == active.base_offset:
        cache.drop(segment)
        active.file.truncate(0)
        active.file.fdatasync()
    else:
        parts.doomed.doom_durably(segment)


def _names(segment: Segment) -> list[str]:
    return [segment.path(suffix).rpartition("/")[2] for suffix in SUFFIXES]
