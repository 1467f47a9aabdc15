"""Rebuild what the log implies: producer state, aborted transactions and leader epochs, batch by batch."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Final, TypeVar

from stratalog.hot.segments.scan import read_batch
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.state.validation import read_end_marker
from stratalog.wire.batch import BatchHeader
from stratalog.wire.errors import Corrupt

__all__ = ["BATCHES_PER_STEP", "apply_stored_batch", "replay_segment", "replay_steps", "to_the_end"]

T = TypeVar("T")

BATCHES_PER_STEP: Final = 512
"""Some 5 ms."""


def apply_stored_batch(
    state: ProducerStateManager, header: BatchHeader, batch: bytes | bytearray | memoryview | None
) -> AbortedTxn | None:
    """Take a batch that stands in the log into the producer state; ``batch`` is needed for control batches only.

    Checks only what is needed to read: the leader has checked the rest. Returns the transaction that
    it aborts. A damaged marker is skipped, as its CRC was right when it was written.
    """
    aborted = None
    if header.producer_id >= 0:
        if not header.is_control:
            state.apply_batch(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                base_offset=header.base_offset,
                last_offset=header.last_offset,
                timestamp_ms=header.max_timestamp,
                transactional=header.is_transactional,
            )
        elif batch is not None:
            aborted = _apply_marker(state, header, batch)
    state.end_offset = header.next_offset
    return aborted


def _apply_marker(
    state: ProducerStateManager, header: BatchHeader, batch: bytes | bytearray | memoryview
) -> AbortedTxn | None:
    try:
        marker = read_end_marker(batch, header)
    except Corrupt:
        return None
    completed = None if marker is None else state.apply_marker(marker, header.base_offset)
    if completed is None or not completed.aborted:
        return None
    return AbortedTxn(
        completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
    )


def replay_steps(state: ProducerStateManager, segments: Iterable[Segment], to_offset: int) -> Iterator[None]:
    """Apply the stored batches in ``[state.end_offset, to_offset)``, in steps of `BATCHES_PER_STEP`. Raises `OSError`.

    Between two of them the log may change, but for what it holds below ``to_offset``.
    """
    for segment in segments:
        if segment.next_offset <= state.end_offset or segment.size_bytes == 0:
            continue
        if segment.base_offset >= to_offset:
            break
        yield from _segment_steps(state, segment, to_offset)
    state.end_offset = max(state.end_offset, to_offset)


def replay_segment(state: ProducerStateManager, segment: Segment, to_offset: int) -> list[AbortedTxn]:
    """Apply one segment's stored batches in ``[state.end_offset, to_offset)``; returns what they abort.

    Raises `OSError`.
    """
    return to_the_end(_segment_steps(state, segment, to_offset))


def _segment_steps(
    state: ProducerStateManager, segment: Segment, to_offset: int
) -> Generator[None, None, list[AbortedTxn]]:
    aborted = []
    file = segment.file  # which the segment may let go of between two steps
    start = segment.indexes.offsets.lookup(state.end_offset) if state.end_offset > segment.base_offset else 0
    for count, (position, header) in enumerate(segment.headers(start), 1):
        if header.base_offset >= to_offset:
            break
        if header.base_offset >= state.end_offset:
            batch = None
            if header.is_control and header.producer_id >= 0:
                batch = read_batch(file, position, header)
            void = apply_stored_batch(state, header, batch)
            if void is not None:
                aborted.append(void)
        if count % BATCHES_PER_STEP == 0:
            yield
    return aborted


def to_the_end(steps: Generator[None, None, T]) -> T:
    """Do all steps at once. Raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
