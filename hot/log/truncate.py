"""Cuts the end of a log off: truncates to any offset, and drops batches that could not be written.

An offset may lie on a batch border, inside a batch, or where offsets are missing. In a range that the disk has lost, the log
ends before the range, and is copied again from there. A disk that fails half way leaves a log
that takes no appends. It knows where it was to end, and `discard_unwritten` cuts it there.
"""

from __future__ import annotations

from typing import Final

from stratalog.hot.log.aborted import aborted_of
from stratalog.hot.log.ending_swaps import end_swap
from stratalog.hot.log.parts import LogParts
from stratalog.hot.log.place import LogPlace
from stratalog.hot.log.restart import restart
from stratalog.hot.recovery.missing import MISSING
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segment_indexes import SegmentIndexes
from stratalog.hot.segments.segments import SegmentList
from stratalog.hot.state.producer_snapshot import ProducerEntry
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.wire.batch import NO_SEQUENCE

__all__ = ["discard_unwritten", "next_cut", "truncate_to"]

_SEGMENTS_AT_ONCE: Final = 4
"""Segments that a cut in steps takes away in one: the new names of each are synced before those of an older one."""


def next_cut(parts: LogParts, offset: int) -> int | None:
    """Where to `truncate_to` now on the way to ``offset``: below no more than a few segments.

    None while the producers there are still being read: ask again. So no turn of the event loop does all of it, and
    after each the log is whole, and only longer than it will be. Raises `OSError`, `Corrupt`.
    """
    parts.tail.write()
    segments = parts.segments
    if offset >= parts.tail.end_offset:
        return offset
    number = len(segments) - _SEGMENTS_AT_ONCE
    if number > segments.floor(max(offset, parts.start.offset)):
        offset = segments[number].base_offset
    if not parts.producers.entries or parts.snapshots.read_ahead(_end_after(parts, offset)):
        return offset
    return None


def truncate_to(parts: LogParts, offset: int) -> None:
    """Remove every batch with a record at or above ``offset``, and go on there.

    Inside a batch all of it goes, and the log goes on where it began. Where offsets are missing the log ends at
    ``offset`` itself, as in Kafka: it is what the leader and this replica agree on. An empty segment of that name says
    so to the next start. Durable on return. Raises `OSError`; then the log takes no appends until `discard_unwritten`.
    """
    parts.tail.write()
    if offset < parts.tail.end_offset:
        with parts.tail.stops_if_it_fails():
            _truncate(parts, offset)
    else:  # an epoch that this replica began as leader, and in which it wrote nothing, may be none of the leader's
        parts.epochs.truncate_from_end(parts.tail.end_offset)


def _truncate(parts: LogParts, offset: int) -> None:
    segments, start = parts.segments, parts.start
    offset = _before_missing(segments, offset)
    end_swap(parts, offset)
    segment = segments[segments.floor(offset)]
    border = _border(segment, offset)
    if border < max(segments[0].base_offset, start.offset):
        begin = offset if offset < start.offset else max(border, start.offset)
        # As they stood before the batch in which the log is to begin: it goes as well, and a retry of it is no duplicate.
        producers = (_known_producers(parts, border) or parts.snapshots.state_at(border)).to_bytes()
        restart(parts, begin, parts.epochs.until(begin), producers, log_start_offset=min(begin, start.offset))
        return
    batches_end = _batches_end(segment, border)
    parts.place.before_cut(border)
    parts.cycles.void_recovery_point(batches_end)
    _cut(parts, border)
    if batches_end < border:
        _go_on_at(parts, border)
    parts.cycles.sync_names()


def _border(segment: Segment, offset: int) -> int:
    """The offset itself, or the beginning of the batch in which it lies."""
    located = segment.locate(offset)
    return offset if located is None else min(offset, located[1].base_offset)


def _end_after(parts: LogParts, offset: int) -> int:
    """Where the last batch ends after a cut at ``offset``; all that stay, where the log begins anew."""
    segments = parts.segments
    offset = _before_missing(segments, offset)
    segment = segments[segments.floor(offset)]
    border = _border(segment, offset)
    if border < max(segments[0].base_offset, parts.start.offset):
        return border
    return min(border, segment.next_offset)


def _known_producers(parts: LogParts, offset: int) -> ProducerStateManager | None:
    """The producers as they stood there, if the log need not be read for it. If there are none now there were none: idle ones are forgotten."""
    if parts.producers.entries:
        return parts.snapshots.take_read(offset)
    producers = ProducerStateManager(str(parts.place.topic_partition))
    producers.end_offset = offset
    return producers


def _before_missing(segments: SegmentList, offset: int) -> int:
    """Where the log may end at or below ``offset``: not in a range that is missing."""
    for number in range(segments.floor(offset), -1, -1):
        if segments[number].missing is None:
            break
        offset = segments[number].base_offset
    return offset


def _batches_end(segment: Segment, border: int) -> int:
    """The offset behind the last batch of ``segment`` below ``border``; its own first one if there is none."""
    end = segment.base_offset
    if border > end and segment.written_bytes:
        for _, header in segment.headers(segment.indexes.offsets.lookup(border - 1)):
            if header.base_offset >= border:
                break
            end = header.next_offset
    return end


def _go_on_at(parts: LogParts, offset: int) -> None:
    """Begin a segment at ``offset``, above the last batch; an active one without any makes room for it, but for the first.

    With the first one the local log would start here, and offsets in the gap would be looked for in an archive.
    """
    segments = parts.segments
    old = segments.active
    parts.tail.sync_segments()
    parts.gaps.expect_at_borders(offset)
    if old.size_bytes or len(segments) == 1:
        parts.tail.begin_segment(offset)
        parts.tail.write()
        return
    new = parts.place.new_segment(offset)
    new.file.fdatasync()
    parts.place.files.sync_directory(parts.place.directory)
    segments.remove_from(len(segments) - 1)
    if segments:
        segments[-1].next_offset = offset
    segments.append(new)
    parts.tail.add(new)
    parts.doomed.doom_durably(old)


# -- a failed write --------------------------------------------------------------------------------------------


def discard_unwritten(parts: LogParts) -> None:
    """After a failed write (a full disk): forget what was queued and return to ``written_offset``.

    Raises `OSError` if the files cannot be put in order yet; then it may be tried again, and the log takes no appends until it
    was: its end would count batches that are in no file. That holds also where no write has failed, as after a retention that
    found no descriptor. A log that could not begin anew raises it until it does, or the next start.
    """
    tail = parts.tail
    if tail.failed_for_good and tail.failed is not None:
        raise tail.failed.with_traceback(None)
    with tail.stops_if_it_fails():
        tail.discard_queued()
        parts.snapshots.store_awaited()
        forgotten = dict(parts.producers.entries)
        _cut(parts, tail.written_offset)
    _await_first_batches(parts.producers.entries, forgotten)
    tail.failed = None
    tail.write()


def _await_first_batches(entries: dict[int, ProducerEntry], forgotten: dict[int, ProducerEntry]) -> None:
    """Make a producer whose very first batch was refused send that one again before any other.

    From an unknown producer any sequence is taken, and from one that only a marker tells of: its next batch, already on its
    way, would be, and the first one then be out of order for ever.
    """
    for producer_id, before in forgotten.items():
        first = next(iter(before.batches), None)
        awaited = before.awaited_sequence if first is None else first.first_sequence
        entry = entries.get(producer_id)
        if entry is not None:
            if entry.producer_epoch == before.producer_epoch and entry.last_sequence == NO_SEQUENCE:
                entry.awaited_sequence = awaited
        elif awaited == 0:
            entries[producer_id] = ProducerEntry(
                producer_id,
                producer_epoch=before.producer_epoch,
                last_timestamp_ms=before.last_timestamp_ms,
                awaited_sequence=0,
            )


# -- cutting ---------------------------------------------------------------------------------------------------


def _cut(parts: LogParts, offset: int) -> None:
    """End the log with the batch before ``offset``; removes all behind it, newest first.

    A segment leaves the list once its files have left the log. Raises `OSError`; tried again, it goes on where it was.
    """
    segments, tail = parts.segments, parts.tail
    tail.written_offset = min(tail.written_offset, offset)
    last = segments.floor(offset)
    if last and segments[last].missing is not None:  # the segment before it ends there, and is the active one
        last -= 1
    aborted_of(parts, segments[last])  # known before anything goes: an index that is damaged is derived from the log
    for number in range(len(segments) - 1, last, -1):
        tail.unseal(segments[number])
        parts.doomed.doom_durably(segments[number])
        segments.remove_from(number)
    segments.forget_borders()
    segment = segments.active
    tail.unseal(segment)
    _cut_segment(parts.place, segment, offset)
    end_offset = segment.next_offset
    producers = _known_producers(parts, end_offset)  # what was read is void with the end of this cut
    tail.cut(end_offset)
    parts.cycles.cut(end_offset)
    parts.gaps.cut(end_offset)
    parts.epochs.truncate_from_end(end_offset)
    parts.snapshots.keep(0, end_offset)
    if not parts.producers.take_back(end_offset):
        parts.producers.take_over(producers or parts.snapshots.state_at(end_offset))
    parts.cycles.note_names()


def _cut_segment(place: LogPlace, segment: Segment, offset: int) -> None:
    located = segment.locate(offset) if segment.written_bytes else None
    position = segment.written_bytes if located is None else located[0]
    end_offset = min(segment.next_offset if located is None else located[1].base_offset, offset)
    indexes, aborted = segment.indexes, segment.aborted
    place.cache.drop(segment)
    segment.frozen = False
    offsets, times = indexes.offsets, indexes.times
    offsets.truncate(position)
    times.truncate(end_offset)
    offsets.stored_count = times.stored_count = 0
    segment.size_bytes = segment.written_bytes = position
    segment.next_offset = max(end_offset, segment.base_offset)
    segment.replace_aborted(entry for entry in aborted if entry.last_offset < end_offset)
    segment.indexes = SegmentIndexes(offsets, times, place.config.index_interval_bytes, position)
    # Each offset entry comes with one for the largest timestamp so far, if that has grown: it may be of a batch long before.
    segment.add_tail_timestamps(segment.indexes, offsets.positions[-1] if len(offsets) else 0)
    if position == 0:
        segment.first_append_ms = segment.roll_timestamp_ms = -1
    # Last, for a file that is shorter than its segment cannot be cut once more.
    segment.file.truncate(position)
    segment.file.fdatasync()  # the next append must not mix with what was cut
    if segment.missing is not None:
        place.files.unlink(segment.path(MISSING))
        segment.missing = None
