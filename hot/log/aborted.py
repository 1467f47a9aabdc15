"""The aborted transactions of a log, also where a transaction index is damaged."""

from __future__ import annotations

from stratalog.hot.log.parts import LogParts
from stratalog.hot.log.read import aborted_transactions
from stratalog.hot.recovery.replay import replay_segment
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.wire.errors import Corrupt

__all__ = ["aborted_of", "find_aborted"]


def find_aborted(parts: LogParts, from_offset: int, to_offset: int) -> list[AbortedTxn]:
    """The aborted transactions that touch ``[from_offset, to_offset)``. Raises `OSError`.

    A transaction index that cannot be read is derived from the log again.
    """
    segments = parts.segments
    active = segments.active
    if from_offset >= active.base_offset and active.known_aborted == []:
        return []  # what each read at the tail of a log finds
    try:
        return aborted_transactions(segments, from_offset, to_offset)
    except Corrupt:
        _rebuild(parts)
        return aborted_transactions(segments, from_offset, to_offset)


def aborted_of(parts: LogParts, segment: Segment) -> list[AbortedTxn]:
    """The aborted transactions of one segment; from the log where its index cannot be read. Raises `OSError`."""
    try:
        return segment.aborted
    except Corrupt:
        producers = parts.snapshots.state_at(segment.base_offset)
        aborted = replay_segment(producers, segment, segment.next_offset)
        segment.replace_aborted(aborted)
        return aborted


def _rebuild(parts: LogParts) -> None:
    """Derive the unreadable transaction indexes from the log, and write them out. Raises `OSError`."""
    for segment in parts.segments:
        try:
            segment.aborted  # noqa: B018 - reading it is the check
        except Corrupt:
            aborted_of(parts, segment)
            for file in segment.store_indexes(final=segment.frozen):
                parts.cycles.note_file(file)
            parts.cycles.note_names()
