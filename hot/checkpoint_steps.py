"""Writes the checkpoints of a log directory in steps: a hundred thousand partitions stop no event loop.

Each function gathers the rows and makes their text in steps, and returns what writes the file, to be called before the next
step: no partition is deleted and no other checkpoint written in between. A file that would say what it says already is
not written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

from stratalog.hot.checkpoint_draft import CheckpointDraft, number_rows
from stratalog.hot.directory import LogDirectory
from stratalog.hot.forgotten_offsets import are_forgotten_kept, write_forgotten_offsets
from stratalog.hot.log.log import Log
from stratalog.hot.state.log_bounds import LOG_BOUNDS, LogBounds, bound_rows, framed_bounds
from stratalog.hot.storage import checkpoint
from stratalog.wire.topic import TopicPartition

__all__ = ["Store", "bounds_steps", "high_watermark_steps", "recovery_point_steps"]

Store = Callable[[], None]
"""Writes a file. Raises `OSError`; then it may be called again."""

T = TypeVar("T")
Logs = Callable[[], Iterable[Log]]
"""The open logs, found anew for each draft."""

_NAMES_PER_PAUSE: Final = 500
_TRIES: Final = 3
"""After so many drafts that were overtaken by another checkpoint, the next one is made in one go."""


def recovery_point_steps(
    directory: LogDirectory, logs: Logs, marked: Mapping[Log, int]
) -> Generator[None, None, Store]:
    """Recovery points of all open logs; partitions not open keep theirs.

    ``marked`` are the cuts behind which high watermarks are on the disk: a mark from before a cut would say that what went
    was committed. A log that was cut again since, or after its recovery point was gathered, keeps its note of the cut.
    """
    return (yield from _drafted(directory, lambda gone: _recovery_points(directory, logs, marked, gone)))


def bounds_steps(directory: LogDirectory, logs: Logs) -> Generator[None, None, Store]:
    """Log starts, and below where offsets may be missing; partitions not open keep theirs. And what copies have taken over."""
    return partial(
        _with_forgotten, directory, (yield from _drafted(directory, lambda gone: _bounds(directory, logs, gone)))
    )


def _with_forgotten(directory: LogDirectory, store: Store) -> None:
    store()
    if not are_forgotten_kept(directory):
        write_forgotten_offsets(directory)


def high_watermark_steps(
    directory: LogDirectory, high_watermarks: Callable[[], Iterable[tuple[TopicPartition, int]]]
) -> Generator[None, None, Store]:
    """High watermarks, of the partitions that are given and no others."""
    return (yield from _drafted(directory, lambda gone: _high_watermarks(directory, high_watermarks(), gone)))


def _drafted(
    directory: LogDirectory, draft: Callable[[set[TopicPartition]], Generator[None, None, Store]]
) -> Generator[None, None, Store]:
    """A draft that no other checkpoint has overtaken: what that one has taken in would be lost."""
    changes = directory.changes
    for _ in range(_TRIES):
        store_count = changes.store_count
        with changes.drafting() as gone:
            store = yield from draft(gone)
        if changes.store_count == store_count:
            return store
    steps = draft(set())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            last: Store = end.value
            return last


def _recovery_points(
    directory: LogDirectory, logs: Logs, marked: Mapping[Log, int], gone: set[TopicPartition]
) -> Generator[None, None, Store]:
    held = directory.recovery_points
    changed: dict[TopicPartition, int] = {}
    cuts: list[tuple[Log, int]] = []

    def rows() -> Iterator[tuple[TopicPartition, int]]:
        for log in logs():
            name, cut, point = log.topic_partition, log.cycles.noted_cut, log.flushed_offset
            if cut is not None and marked.get(log) == cut:
                cuts.append((log, cut))
            if held.get(name) != point:
                changed[name] = point
            yield name, point

    draft = CheckpointDraft(number_rows)
    yield from draft.putting(rows())
    yield from _put_others(draft, held)
    if changed or not directory.points_stored:
        yield from draft.writing()
        draft.drop(gone)

    def store() -> None:
        if changed or not directory.points_stored:
            directory.changes.store_count += 1
            directory.points_stored = False
            _write_numbers(directory, checkpoint.RECOVERY_POINTS, draft)
            directory.recovery_points |= _without(changed, gone)
            directory.points_stored = True
        for log, cut in cuts:
            if log.topic_partition not in gone:
                log.cycles.checkpoints_stored(cut)

    return store


def _bounds(directory: LogDirectory, logs: Logs, gone: set[TopicPartition]) -> Generator[None, None, Store]:
    held, held_starts = directory.bounds, directory.log_start_offsets
    changed: dict[TopicPartition, LogBounds] = {}
    moved: list[tuple[Log, LogBounds]] = []
    draft = CheckpointDraft(bound_rows)
    of_starts = CheckpointDraft(number_rows)

    def rows() -> Iterator[tuple[TopicPartition, LogBounds]]:
        for log in logs():
            name, before = log.topic_partition, held.get(log.topic_partition)
            row = log.bounds
            if row != before:
                changed[name] = row
            if row.log_start_offset != log.start.kept_offset or log.gaps.differs(row.gaps_below, row.border_gaps_below):
                moved.append((log, row))
            of_starts.put(name, row.log_start_offset)
            yield name, before if row == before and before is not None else row

    yield from draft.putting(rows())
    if not changed and directory.bounds_stored:
        return partial(_note_kept, moved, gone)
    yield from _put_others(draft, held)
    yield from _put_others(of_starts, held_starts)
    yield from draft.writing()
    yield from of_starts.writing()
    draft.drop(gone)
    of_starts.drop(gone)

    def store() -> None:
        directory.changes.store_count += 1
        new = _without(changed, gone)
        directory.bounds_stored = False
        directory.bounds |= new
        directory.log_start_offsets |= {name: row.log_start_offset for name, row in new.items()}
        _write_numbers(directory, checkpoint.LOG_START_OFFSETS, of_starts)
        content = framed_bounds(draft.pieces())
        checkpoint.write_durably(directory.files, f"{directory.path}/{LOG_BOUNDS}", content)
        directory.bounds_stored = True
        _note_kept(moved, gone)

    return store


def _note_kept(moved: Iterable[tuple[Log, LogBounds]], gone: set[TopicPartition]) -> None:
    for log, row in moved:
        if log.topic_partition not in gone:
            log.start.kept_offset = row.log_start_offset
            log.gaps.kept(row.gaps_below, row.border_gaps_below)


def _put_others(draft: CheckpointDraft[T], held: Mapping[TopicPartition, T]) -> Iterator[None]:
    """Put the rows of partitions that are not open. No list of pairs: it would be the garbage collector's."""
    for count, name in enumerate(list(held), 1):
        if name in held and not draft.holds(name):
            draft.put(name, held[name])
        if count % _NAMES_PER_PAUSE == 0:
            yield


def _without(rows: dict[TopicPartition, T], gone: set[TopicPartition]) -> dict[TopicPartition, T]:
    return {name: row for name, row in rows.items() if name not in gone} if gone else rows


def _high_watermarks(
    directory: LogDirectory, wanted: Iterable[tuple[TopicPartition, int]], gone: set[TopicPartition]
) -> Generator[None, None, Store]:
    draft = CheckpointDraft(number_rows)
    yield from draft.putting(wanted)
    yield from draft.writing()
    draft.drop(gone)

    def store() -> None:
        directory.changes.store_count += 1
        _write_numbers(directory, checkpoint.HIGH_WATERMARKS, draft)

    return store


def _write_numbers(directory: LogDirectory, name: str, draft: CheckpointDraft[int]) -> None:
    content = checkpoint.numbers_framed(draft.pieces(), draft.count)
    checkpoint.write_durably(directory.files, f"{directory.path}/{name}", content)
