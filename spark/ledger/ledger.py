"""The ledger of a backfill: converted offsets of a topic, and the files that hold them. Pure.

A run converts *spans*: offsets ``[start, end)`` of one partition, which become any number of files. A commit is one
compare-and-swap of the head, which says what offsets are covered; the run's record, written before, names the files.
Until then its files are invisible, and one of two runs from one head loses. Offsets are covered once: a run
may only add what is not covered, or rewrite spans that are there, whose files it then supersedes. Where the archive went
back and grew again by other records, spans are *abandoned*: their rows go, and their offsets are to be converted anew.

A committed run is *published* next: superseded files go, its own appear under their final names. A run that finds a
committed run that was not published finishes that first. No name is used twice, so that it may be done twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from stratalog.wire.errors import Invalid, StratalogError

__all__ = [
    "CHECKPOINT_RUNS",
    "Coverage",
    "Head",
    "Interval",
    "Ledger",
    "LedgerConflict",
    "OutputFile",
    "Run",
    "SourceObject",
    "Span",
    "SpanId",
    "committed",
    "covered",
    "missing",
    "published",
    "superseded",
    "visible",
]

CHECKPOINT_RUNS: Final = 64
"""After so many runs their records are joined into one, so that a reader of the ledger needs few requests."""

Interval = tuple[int, int]
Coverage = Mapping[int, tuple[Interval, ...]]
"""Partition -> the offsets ``[start, end)`` that were converted, ascending, disjoint, not touching."""


class LedgerConflict(StratalogError):
    """Another backfill has committed to the same target in the meantime. No file of this run is visible; run it again."""


class SourceObject(NamedTuple):
    """An object of the archive that a span was converted from."""

    key: str
    crc32c: int


class OutputFile(NamedTuple):
    """One Parquet file; ``path`` is relative to the target. Offsets of its first and last row."""

    path: str
    rows: int
    size_bytes: int
    crc32c: int
    first: int
    last: int


class SpanId(NamedTuple):
    """Offsets of one partition: ``[start, end)``."""

    partition: int
    start: int
    end: int


class Span(Struct, frozen=True):
    """Converted offsets, what they were read from and the files that hold their rows (none, if there were no rows).

    ``left_out`` are the offsets ``[start, end)`` of batches that are as their producer sent them and cannot be read,
    those of neighbours together.
    """

    id: SpanId
    sources: tuple[SourceObject, ...]
    files: tuple[OutputFile, ...]
    source_bytes: int = 0
    left_out: tuple[Interval, ...] = ()

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(each.rows for each in self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes in all files."""
        return sum(each.size_bytes for each in self.files)


class Run(Struct, frozen=True):
    """One commit. ``name`` begins with ``seq``, the number of the head that it makes; ``rewritten`` spans are
    replaced by those of ``spans`` with the same offsets, and ``removed`` are their files. Those of them that are
    ``abandoned`` need not be replaced, or not by as many offsets.
    """

    name: str
    seq: int
    created_ms: int
    spans: tuple[Span, ...]
    rewritten: tuple[SpanId, ...] = ()
    removed: tuple[str, ...] = ()
    abandoned: tuple[SpanId, ...] = ()


class Head(Struct, frozen=True):
    """The commit point. ``layout`` is what must be the same in every run: partitioning, isolation.

    ``runs`` are the names of those since the ``checkpoint``, ``publishing`` says that the last one is not published.
    ``shortened`` has, by partition, the `PartitionArchive.shortened_seq` up to which the spans were compared with the
    archive, 0 included: a partition that is not there was compared by no version that knows of it.
    """

    topic: str
    topic_id: str
    seq: int = 0
    layout: tuple[tuple[str, str], ...] = ()
    coverage: Coverage = field(default_factory=dict)
    checkpoint: str | None = None
    runs: tuple[str, ...] = ()
    publishing: bool = False
    rows: int = 0
    source_bytes: int = 0
    file_bytes: int = 0
    shortened: Mapping[int, int] = field(default_factory=dict)


class Ledger(Struct, frozen=True, dict=True):
    """The head and the live spans by their offsets, as records of runs told them."""

    head: Head
    spans: Mapping[SpanId, Span]

    @cached_property
    def by_partition(self) -> Mapping[int, Sequence[Span]]:
        """The live spans of each partition that has any, in the order of ``spans``: thousands of partitions have a million."""
        found: dict[int, list[Span]] = {}
        for identity, span in self.spans.items():
            found.setdefault(identity.partition, []).append(span)
        return found


def covered(intervals: Iterable[Interval], more: Iterable[Interval]) -> tuple[Interval, ...]:
    """``intervals`` and ``more`` as one ascending sequence; what touches becomes one. They must not overlap."""
    joined: list[Interval] = []
    for start, end in sorted((*intervals, *more)):
        if joined and start < joined[-1][1]:
            raise LedgerConflict(
                f"offsets {start} to {min(end, joined[-1][1]) - 1} would be converted twice; run the backfill again"
            )
        if joined and start == joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)


def missing(coverage: Coverage, partition: int, start: int, end: int) -> list[Interval]:
    """The parts of the offsets ``[start, end)`` that were not converted yet, ascending."""
    found = []
    at = start
    for done_start, done_end in coverage.get(partition, ()):
        if done_end <= at:
            continue
        if done_start >= end:
            break
        if done_start > at:
            found.append((at, done_start))
        at = done_end
    if at < end:
        found.append((at, end))
    return found


def committed(head: Head, run: Run) -> Head:
    """The head after ``run``.

    Raises `LedgerConflict` if the run was made for another head, or converts what is covered, and `Invalid` if it
    rewrites what it does not bring again.
    """
    if run.seq != head.seq + 1 or head.publishing:
        raise LedgerConflict(
            f"topic {head.topic}: this run was made to follow number {run.seq - 1} of the ledger, which stands at "
            f"{head.seq}: another backfill to this target is at work or was; run again, it goes on from there"
        )
    brought, gone = _coverage(span.id for span in run.spans), _coverage(run.rewritten)
    short = [each for each in {*run.rewritten} - {*run.abandoned} if missing(brought, *each)]
    if short:
        raise Invalid(f"topic {head.topic}: a run rewrites {min(short)} and does not bring it again")
    coverage = dict(head.coverage)
    for partition in {*brought, *gone}:
        kept = [part for start, end in coverage.get(partition, ()) for part in missing(gone, partition, start, end)]
        coverage[partition] = covered(kept, brought.get(partition, ()))
    return replace(
        head,
        seq=run.seq,
        coverage=coverage,
        runs=(*head.runs, run.name),
        publishing=True,
        source_bytes=head.source_bytes + sum(span.source_bytes for span in run.spans),
        file_bytes=head.file_bytes + sum(span.size_bytes for span in run.spans),
        rows=head.rows + sum(span.rows for span in run.spans if missing(gone, *span.id)),
    )


def _coverage(spans: Iterable[SpanId]) -> Coverage:
    """The offsets of ``spans``, which must not overlap."""
    found: dict[int, list[Interval]] = {}
    for partition, start, end in spans:
        found.setdefault(partition, []).append((start, end))
    return {partition: covered((), intervals) for partition, intervals in found.items()}


def published(head: Head, checkpoint: str | None = None) -> Head:
    """The head once the files of its last run are in place; ``checkpoint`` names the joined records of all its runs."""
    if checkpoint is None:
        return replace(head, publishing=False)
    return replace(head, publishing=False, checkpoint=checkpoint, runs=())


def visible(runs: Sequence[Run]) -> dict[SpanId, Span]:
    """The live spans after ``runs``, which begin with a checkpoint or with the first run."""
    spans: dict[SpanId, Span] = {}
    for run in runs:
        for span in run.rewritten:
            spans.pop(span, None)
        spans.update((span.id, span) for span in run.spans)
    return dict(sorted(spans.items()))


def superseded(ledger: Ledger, rewritten: Iterable[SpanId]) -> tuple[str, ...]:
    """The files that rewriting these spans supersedes."""
    return tuple(file.path for span in rewritten for file in ledger.spans[span].files)
