"""Which spans a backfill converts next, and how they become tasks and runs. Pure.

Neighbouring small objects become one span, large ones are divided by offsets, so that a span makes a file of about the
size asked for and all workers are busy to the end. Offsets that the ledger covers are left alone, however the archive's objects
were merged since; spans whose objects were compacted are converted anew where that is asked for. Where the archive went
back since, spans whose objects it holds no more are converted anew unasked: it may have grown again by other records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from stratalog.spark.ledger.ledger import (
    Coverage,
    Ledger,
    LedgerConflict,
    OutputFile,
    SourceObject,
    Span,
    SpanId,
    missing,
)
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.planning.backfill_forecast import piece_usage, table_by_entry
from stratalog.tier.planning.prices import NOTHING_USED, Usage
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive, SegmentSlice, cut_slices

__all__ = [
    "NOTHING_PLANNED",
    "BackfillPlan",
    "PlanLimits",
    "SpanTask",
    "foresee",
    "plan_abandoned",
    "plan_new",
    "plan_rewrites",
    "runs_of",
    "span_bytes",
    "tasks_of",
]

_SPAN_BYTES_MIN: Final = 32 << 20
_SPANS_PER_CORE: Final = 2
_TASK_BYTES_MIN: Final = 8 << 20
"""Less than that is converted by one core before Spark has started a second task."""
_RATIO_FIRST: Final = 2.0
_RATIO_MAX: Final = 16.0
_DAY_MS: Final = 86_400_000
_WHOLE: Final = 1 << 62
"""As the size of a span: all that lies together is one."""
_PUTS_PER_RUN: Final = 3
"""The record, the head when it commits and when it is published."""


@dataclass(frozen=True, slots=True)
class SpanTask:
    """One span to convert. With all others that name it, it replaces the converted span ``replaces``.

    ``kept`` are files of that one, for the rows that only they have: of offsets that retention has removed from the archive.
    ``named_by_run`` says that files of these offsets may have been there before.
    """

    id: SpanId
    slices: tuple[SegmentSlice, ...]
    sources: tuple[SourceObject, ...]
    replaces: SpanId | None = None
    kept: tuple[OutputFile, ...] = ()
    named_by_run: bool = False

    @property
    def source_bytes(self) -> int:
        """An estimate of what will be read."""
        return sum(piece.read_bytes for piece in self.slices)


class PlanLimits(NamedTuple):
    """Source bytes of a span, of a task and of a run, and how many tasks run at a time. A partition's last span waits
    below ``span_bytes_min``, unless one of its objects was uploaded before ``waits_until_ms``.
    """

    span_bytes: int
    task_bytes: int = 256 << 20
    run_bytes: int = 16 << 30
    span_bytes_min: int = 0
    waits_until_ms: int = 0
    core_count: int = 1


class BackfillPlan(NamedTuple):
    """The plan of a backfill. ``usage`` is asked of the archive, ``target_usage`` of the target."""

    spans: int
    tasks: int
    runs: int
    files: int
    offsets: int
    source_bytes: int
    usage: Usage
    target_usage: Usage


NOTHING_PLANNED: Final = BackfillPlan(0, 0, 0, 0, 0, 0, NOTHING_USED, NOTHING_USED)


def span_bytes(total_bytes: int, core_count: int, file_bytes: int, *, read_bytes: int, written_bytes: int) -> int:
    """Source bytes of a span: enough for a file of ``file_bytes``, by what was read and written so far, but no more
    than keeps every core busy.
    """
    ratio = read_bytes / written_bytes if written_bytes else _RATIO_FIRST
    wanted = int(file_bytes * min(max(ratio, 1.0), _RATIO_MAX))
    share = -(-total_bytes // max(1, core_count * _SPANS_PER_CORE))
    return max(min(wanted, share), min(wanted, _SPAN_BYTES_MIN), 1)


def plan_new(
    archive: PartitionArchive, offsets: OffsetRange, coverage: Coverage, limits: PlanLimits
) -> tuple[list[SpanTask], list[str]]:
    """The spans that are not converted yet of one partition, ascending, and the holes of the archive among them."""
    spans: list[SpanTask] = []
    losses: list[str] = []
    for start, end in missing(coverage, archive.partition.partition, offsets.start, offsets.end):
        slices, holes = cut_slices(archive, OffsetRange(start, end))
        losses += holes
        found = [_span(archive, each) for each in _grouped(slices, limits.span_bytes)]
        if found and end == offsets.end and _waits(archive, found[-1], limits):
            found.pop()
        spans += found
    return spans, losses


def _waits(archive: PartitionArchive, span: SpanTask, limits: PlanLimits) -> bool:
    uploaded = [each.uploaded_ms for each in _entries(archive, span.id.start, span.id.end)]
    return span.source_bytes < limits.span_bytes_min and min(uploaded) >= limits.waits_until_ms


def _grouped(slices: Iterable[SegmentSlice], size_bytes: int) -> Iterator[list[SegmentSlice]]:
    """Runs of slices without a hole, of about ``size_bytes`` each."""
    run: list[SegmentSlice] = []
    run_bytes = 0
    for piece in (part for each in slices for part in _divided(each, size_bytes)):
        apart = bool(run) and run[-1].end_offset != piece.start_offset
        if run and (apart or run_bytes + piece.read_bytes > size_bytes):
            yield run
            run, run_bytes = [], 0
        run.append(piece)
        run_bytes += piece.read_bytes
    if run:
        yield run


def _divided(piece: SegmentSlice, size_bytes: int) -> Iterator[SegmentSlice]:
    count = max(1, min(-(-piece.read_bytes // size_bytes), piece.offset_count))
    for index in range(count):
        start = piece.start_offset + piece.offset_count * index // count
        end = piece.start_offset + piece.offset_count * (index + 1) // count
        yield piece._replace(start_offset=start, end_offset=end)


def _span(archive: PartitionArchive, slices: Sequence[SegmentSlice], replaces: SpanId | None = None) -> SpanTask:
    start, end = slices[0].start_offset, slices[-1].end_offset
    sources = tuple(SourceObject(entry.key, entry.crc32c) for entry in _entries(archive, start, end))
    # Only an archive that went back has spans abandoned, whose files had names by their offsets.
    by_run = replaces is not None or archive.shortened_seq > 0
    span = SpanId(archive.partition.partition, start, end)
    return SpanTask(span, tuple(slices), sources, replaces, named_by_run=by_run)


def _entries(archive: PartitionArchive, start: int, end: int) -> list[Entry]:
    first = bisect_right(archive.entries, start, key=attrgetter("end"))
    behind = bisect_left(archive.entries, end, key=attrgetter("base"))
    return list(archive.entries[first:behind])


def plan_rewrites(archive: PartitionArchive, ledger: Ledger) -> list[SpanTask]:
    """The spans whose objects were compacted since they were converted, to be converted anew.

    Rows that retention has removed from the archive stay: the span is divided at the log start.
    """
    spans = []
    for span in ledger.by_partition.get(archive.partition.partition, ()):
        identity = span.id
        start = max(identity.start, archive.log_start_offset)
        if start >= identity.end:
            continue
        known = {source.key for source in span.sources}
        entries = _entries(archive, start, identity.end)
        if not any(entry.compacted and entry.key not in known for entry in entries):
            continue
        tasks, holes = _anew(archive, span, span.id)
        if tasks and not holes:
            spans += tasks
    return spans


def plan_abandoned(archive: PartitionArchive, ledger: Ledger) -> tuple[list[SpanId], list[SpanTask], list[str]]:
    """The spans that may hold records of a state which the archive has left: it was taken back to a cut, repaired, or
    begun again, since the ledger was last compared with it.

    These are all that were made of an object which the archive does not name now, or reach beyond its end; also those
    that were only merged since. Then the spans to convert in their place, and the holes of the archive among them.
    Raises `LedgerConflict` for an archive that is older than the one which the ledger was compared with. A ledger that an
    earlier version wrote was compared with none: it is gone on with, unless the archive went back to before the end of its
    spans. One that never did so may be shorter because its manifest is gone: that is no reason to remove a row, nor to stop
    the others of its topic.
    """
    number = archive.partition.partition
    own = ledger.by_partition.get(number, ())
    known_seq = ledger.head.shortened.get(number)
    if not archive.is_there:
        return [], [], []
    if known_seq is None and (not archive.went_back or all(each.id.end <= archive.end_offset for each in own)):
        return [], [], []
    if known_seq is not None and archive.shortened_seq < known_seq:
        raise LedgerConflict(
            f"{archive.partition}: another backfill to this target has seen the archive after change {known_seq}, by which "
            f"it was taken back, repaired or begun again; here it is that after change {archive.shortened_seq}. Run again; "
            f"if it stays so, the manifest is an older one that was brought back: convert to another target"
        )
    if known_seq == archive.shortened_seq:
        return [], [], []
    gone: list[SpanId] = []
    spans: list[SpanTask] = []
    losses: list[str] = []
    for span in own:
        if _is_current(archive, span):
            continue
        tasks, holes = _anew(archive, span)
        gone.append(span.id)
        spans += tasks
        losses += holes
    return gone, spans, losses


def _is_current(archive: PartitionArchive, span: Span) -> bool:
    """Whether what the archive has of the offsets of ``span`` are the objects that it was converted from."""
    start = max(span.id.start, archive.log_start_offset)
    if start >= span.id.end:
        return True  # retention has removed all of it
    live = {SourceObject(entry.key, entry.crc32c) for entry in _entries(archive, start, span.id.end)}
    return span.id.end <= archive.end_offset and live.issubset(span.sources)


def _anew(archive: PartitionArchive, span: Span, replaces: SpanId | None = None) -> tuple[list[SpanTask], list[str]]:
    """Tasks for the offsets of a converted ``span``, as far as the archive goes now, and its holes.

    The rows below the log start are taken from the files of the span: the archive has them no more.
    """
    partition, start, end = span.id
    begin, until = max(start, archive.log_start_offset), min(end, archive.end_offset)
    slices, holes = cut_slices(archive, OffsetRange(begin, until)) if begin < until else ([], [])
    tasks = [_span(archive, each, replaces) for each in _grouped(slices, _WHOLE)]
    if start < begin:
        kept = tuple(file for file in span.files if file.first < begin)
        below = SpanId(partition, start, min(begin, end))
        tasks.append(SpanTask(below, (), span.sources, replaces, kept, named_by_run=True))
    return tasks, holes


def tasks_of(spans: Sequence[SpanTask], limits: PlanLimits) -> list[tuple[SpanTask, ...]]:
    """Spans in order, small ones together: a task costs Spark tens of milliseconds before its first row.

    No more of them than leaves work for every core: what is well compressed is little to read and much to convert.
    """
    share = -(-sum(span.source_bytes for span in spans) // max(1, limits.core_count * _SPANS_PER_CORE))
    return list(_batched(spans, min(limits.task_bytes, max(share, _TASK_BYTES_MIN))))


def runs_of(spans: Sequence[SpanTask], run_bytes: int) -> list[tuple[SpanTask, ...]]:
    """Spans in order, so many together as one commit makes visible; what was committed a kill does not undo."""
    return list(_batched(spans, run_bytes))


def _batched(spans: Iterable[SpanTask], size_bytes: int) -> Iterator[tuple[SpanTask, ...]]:
    """All that replaces one span stays together."""
    batch: list[SpanTask] = []
    batch_bytes = 0
    for span in spans:
        apart = span.replaces is None or span.replaces != batch[-1].replaces if batch else False
        if apart and batch_bytes + span.source_bytes > size_bytes:
            yield tuple(batch)
            batch, batch_bytes = [], 0
        batch.append(span)
        batch_bytes += span.source_bytes
    if batch:
        yield tuple(batch)


def foresee(spans: Sequence[SpanTask], archives: Iterable[PartitionArchive], limits: PlanLimits) -> BackfillPlan:
    """Cost of converting ``spans``: requests by even chunk tables, files by the days that the objects' times span."""
    entries = {entry.key: entry for archive in archives for entry in archive.entries}
    usage = NOTHING_USED
    files = 0
    for span in spans:
        if not span.slices:
            files += len(span.kept)
            continue
        for piece in span.slices:
            usage += piece_usage(piece, table_by_entry(entries[piece.key]))
        found = [entries[source.key] for source in span.sources]
        days = (
            max(each.max_timestamp_ms for each in found) // _DAY_MS
            - min(each.min_timestamp_ms for each in found) // _DAY_MS
        )
        files += 1 + max(0, min(days, span.id.end - span.id.start - 1))
    runs = len(runs_of(spans, limits.run_bytes))
    return BackfillPlan(
        spans=len(spans),
        tasks=sum(len(tasks_of(run, limits)) for run in runs_of(spans, limits.run_bytes)),
        runs=runs,
        files=files,
        offsets=sum(span.id.end - span.id.start for span in spans),
        source_bytes=sum(span.source_bytes for span in spans),
        usage=usage,
        # Each file is written, copied to its final name and deleted where it was staged.
        target_usage=Usage(writes=2 * files + _PUTS_PER_RUN * runs, deletes=files, lists=2 * runs),
    )
