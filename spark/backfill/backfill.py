"""The backfill of one topic: look, plan, convert, commit, publish, until nothing is left to do.

A `Runner` drives the workers; with Spark it is `stratalog.spark.backfill.spark_job`. Kill it wherever you like:
each row is seen once or not yet, and the next backfill goes on from the last commit.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from msgspec.structs import replace

from stratalog.spark.archive_store import open_archive
from stratalog.spark.backfill.convert import ConvertRequest
from stratalog.spark.backfill.plan import (
    NOTHING_PLANNED,
    BackfillPlan,
    PlanLimits,
    SpanTask,
    foresee,
    plan_abandoned,
    plan_new,
    plan_rewrites,
    runs_of,
    span_bytes,
    tasks_of,
)
from stratalog.spark.ledger.folders import period_us
from stratalog.spark.ledger.lake_table import Table
from stratalog.spark.ledger.layout import LAYOUT_VERSION, run_name, staging_prefix
from stratalog.spark.ledger.ledger import LedgerConflict, Run, Span, SpanId, superseded
from stratalog.spark.ledger.ledger_store import LedgerStore, discard_staged
from stratalog.spark.ledger.parquet_files import FileLimits
from stratalog.spark.ledger.target import Target, open_target
from stratalog.spark.source.archive import find_timestamp, load_partitions
from stratalog.spark.source.options import ReadOptions
from stratalog.spark.source.planner import DataLoss, resolve_range
from stratalog.spark.source.read_lease import LeaseTicket, leased
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import uuid_text

__all__ = ["BackfillSettings", "Progress", "Runner", "Summary", "backfill", "foresee_backfill"]

_RUN_UUID_BYTES: Final = 16
_WHOLE: Final = 1 << 62
"""As the size of a span: all that lies together is one."""

_logger = logging.getLogger("stratalog.spark")


@dataclass(frozen=True, slots=True)
class BackfillSettings:
    """Source, target and form of a conversion. ``read`` are the options of the source, for one topic."""

    topic: str
    read: ReadOptions
    target: str
    target_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    partitioning: str = "date"
    file_bytes: int = 256 << 20
    task_bytes: int = 256 << 20
    run_bytes: int = 16 << 30
    file_bytes_min: int = 0
    file_wait_ms: int = 0
    core_count: int = 1
    rewrite: bool = False
    table: Table | None = field(default=None, repr=False)
    """The table that the files are added to; ``target`` is then where its files lie."""

    @property
    def layout(self) -> tuple[tuple[str, str], ...]:
        """The part that all runs to one target must share, as the ledger keeps it."""
        return (
            ("layout", str(LAYOUT_VERSION)),
            ("partitioning", self.partitioning),
            ("isolation", "read_committed" if self.read.read_committed else "read_uncommitted"),
        )

    @property
    def file_limits(self) -> FileLimits:
        """Limits of one file."""
        alone = self.table is not None and self.table.one_period_a_file
        return FileLimits(self.file_bytes, period_us=period_us(self.partitioning) if alone else 0)


class Progress(Protocol):
    """Receives the progress of a backfill."""

    def planned(self, plan: BackfillPlan) -> None:
        """The plan, before the work begins."""

    def converted(self, source_bytes: int, rows: int) -> None:
        """So much more has been read and written, committed or not."""


class Runner(Protocol):
    """Carries out tasks: each of them once, as far as the caller sees, however many attempts it takes."""

    def convert(
        self, tasks: Sequence[tuple[SpanTask, ...]], request: ConvertRequest, progress: Progress
    ) -> Iterable[Span]:
        """The converted spans, in any order. Raises the error of a task that cannot be done."""


@dataclass(slots=True)
class Summary:
    """The result of a backfill; ``stale`` spans were compacted in the archive since, and left as they are.

    ``left_out`` are the offsets of batches that are as their producer sent them and cannot be read: no row is made of them.
    ``abandoned`` spans were converted from a state that the archive has left: their rows were replaced by those it has now.
    """

    runs: int = 0
    spans: int = 0
    files: int = 0
    rows: int = 0
    removed: int = 0
    source_bytes: int = 0
    file_bytes: int = 0
    stale: int = 0
    abandoned: int = 0
    left_out: list[SpanId] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Planned:
    """``replacing`` go in the place of the spans ``abandoned``, in the first run, before the ``spans``."""

    spans: list[SpanTask]
    archives: list[PartitionArchive]
    limits: PlanLimits
    stale: int
    abandoned: list[SpanId]
    replacing: list[SpanTask]

    @property
    def shortened(self) -> dict[int, int]:
        """`PartitionArchive.shortened_seq` of each partition that was compared with the ledger; one without an archive was not."""
        return {each.partition.partition: each.shortened_seq for each in self.archives if each.is_there}

    def plan(self) -> BackfillPlan:
        """The same as numbers."""
        return foresee([*self.replacing, *self.spans], self.archives, self.limits)


class _NoProgress:
    def planned(self, plan: BackfillPlan) -> None:
        del plan

    def converted(self, source_bytes: int, rows: int) -> None:
        del source_bytes, rows


def foresee_backfill(settings: BackfillSettings) -> BackfillPlan:
    """Plan of `backfill` now: empty for a topic without archived records. It writes nothing."""
    settings.read.subscription.check_one_topic()
    store = open_archive(settings.read.archive, settings.read.store_options)
    archives = load_partitions(store, settings.read.subscription)
    if not archives:
        return NOTHING_PLANNED
    ledger = _open_ledger(settings, archives)
    return _plan(settings, store, archives, ledger).plan()


def backfill(settings: BackfillSettings, runner: Runner, progress: Progress | None = None) -> Summary:
    """Convert what the archive holds and the target does not, run by run, each committed before the next begins.

    Raises `LedgerConflict` if another backfill to the same target commits first, `DataLoss` for offsets that are
    gone, `Invalid` for a target that was filled otherwise and for more topics than one, and what reading and writing
    raise. Runs committed by then stay.
    """
    settings.read.subscription.check_one_topic()
    told = progress or _NoProgress()
    store = open_archive(settings.read.archive, settings.read.store_options)
    summary = Summary()
    with leased(store, settings.read.lease_ms, "backfill") as lease:
        archives = load_partitions(store, settings.read.subscription)
        if not archives:
            told.planned(NOTHING_PLANNED)
            return summary
        ledger = _open_ledger(settings, archives)
        target = open_target(settings.target, settings.target_options)
        ledger.publish()
        planned = _plan(settings, store, archives, ledger)
        summary.stale = planned.stale
        told.planned(planned.plan())
        runs: list[tuple[Sequence[SpanTask], Sequence[SpanId]]] = []
        if planned.abandoned:
            runs.append((planned.replacing, planned.abandoned))
        runs += [(spans, ()) for spans in runs_of(planned.spans, planned.limits.run_bytes)]
        for spans, abandoned in runs:
            run = _converted(settings, runner, ledger, target, lease, spans, abandoned, planned.limits, told)
            ledger.commit(run, settings.layout, planned.shortened)
            ledger.publish()
            _count(summary, run)
        if target.is_there():
            discard_staged(target, settings.topic, ledger.head)
    return summary


def _converted(
    settings: BackfillSettings,
    runner: Runner,
    ledger: LedgerStore,
    target: Target,
    lease: LeaseTicket | None,
    spans: Sequence[SpanTask],
    abandoned: Sequence[SpanId],
    limits: PlanLimits,
    told: Progress,
) -> Run:
    """The run that ``spans`` become: its files are staged, nothing is committed. ``abandoned`` go whatever is read."""
    seq = ledger.head.seq + 1
    name = run_name(seq, os.urandom(_RUN_UUID_BYTES).hex())
    request = ConvertRequest(
        topic=settings.topic,
        archive=settings.read.archive,
        target=target.url,
        staging=staging_prefix(settings.topic, name),
        seq=seq,
        partitioning=settings.partitioning,
        limits=settings.file_limits,
        batch_bytes=settings.read.batch_bytes,
        read_committed=settings.read.read_committed,
        fail_on_data_loss=settings.read.fail_on_data_loss,
        lease=lease,
        archive_options=settings.read.store_options,
        target_options=settings.target_options,
    )
    try:
        done = list(runner.convert(tasks_of(spans, limits), request, told)) if spans else []
    except Exception:
        _tell_conflict(settings, ledger, seq)
        raise
    asked = {span.id for span in spans}
    brought = {span.id for span in done}
    if (settings.read.fail_on_data_loss and brought != asked) or len(brought) != len(done):
        raise Invalid(
            f"topic {settings.topic}: the workers returned other spans than the plan has; the run is not committed"
        )
    # Where a part of a span could not be read it stays as it is; parts that were read go with the staging folder.
    torn = {span.replaces for span in spans if span.id not in brought}
    replaced = {span.replaces for span in spans if span.replaces is not None} - torn
    left = {span.id for span in spans if span.replaces is not None and span.replaces in torn}
    rewritten = sorted(replaced) or abandoned
    return Run(
        name=name,
        seq=seq,
        created_ms=time.time_ns() // 1_000_000,
        spans=tuple(sorted((span for span in done if span.id not in left), key=lambda span: span.id)),
        rewritten=tuple(rewritten),
        removed=superseded(ledger.ledger, rewritten) if rewritten else (),
        abandoned=tuple(abandoned),
    )


def _tell_conflict(settings: BackfillSettings, ledger: LedgerStore, seq: int) -> None:
    """Workers of a run that can no longer win fail in many ways; the reason is that another backfill was faster."""
    ledger.read()
    if ledger.head.seq >= seq:
        raise LedgerConflict(
            f"topic {settings.topic}: another backfill to {settings.target} has committed in the meantime. No file of "
            f"this run is visible; run again, it goes on from there"
        )


def _open_ledger(settings: BackfillSettings, archives: Sequence[PartitionArchive]) -> LedgerStore:
    """The target's ledger. Raises `Invalid` if it is that of another topic of this name, or of another layout, and if
    the table has runs that it does not know.
    """
    if settings.rewrite and settings.table is not None:
        raise Invalid("files of a table are not replaced: convert to another table, without --rewrite")
    target = open_target(settings.target, settings.target_options)
    topic_id = uuid_text(archives[0].topic_id)
    ledger = LedgerStore(target, settings.topic, topic_id, settings.table)
    if ledger.head.topic_id != topic_id:
        raise Invalid(
            f"{target.url} holds a topic {settings.topic} with the id {ledger.head.topic_id}; the archive's has "
            f"{topic_id}: it was deleted and created again. Give the new one another target"
        )
    if ledger.head.seq and ledger.head.layout != settings.layout:
        raise Invalid(
            f"{target.url} was filled with {_words(ledger.head.layout)}; this backfill asks for "
            f"{_words(settings.layout)}. Use the same, or another target"
        )
    if settings.table is not None and settings.table.last_run(ledger.head) > ledger.head.seq:
        ledger.read()  # unless another backfill has just committed
        last = settings.table.last_run(ledger.head)
        if last > ledger.head.seq:
            raise Invalid(
                f"the table of {target.url} has run {last} of topic {settings.topic}, and the ledger below _stratalog/ "
                f"there {f'stands at {ledger.head.seq}' if ledger.head.seq else 'is gone'}: a backfill would add rows twice, "
                f"or not at all. Bring the ledger back from a copy of the target, or convert to another table"
            )
    return ledger


def _words(layout: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in layout)


def _plan(
    settings: BackfillSettings, store: ObjectStore, archives: list[PartitionArchive], ledger: LedgerStore
) -> _Planned:
    head = ledger.head
    ranges = [resolve_range(one, settings.read, partial(find_timestamp, store)) for one in archives]
    waits_until_ms = time.time_ns() // 1_000_000 - settings.file_wait_ms
    limits = PlanLimits(
        _WHOLE,
        settings.task_bytes,
        settings.run_bytes,
        settings.file_bytes_min,
        waits_until_ms,
        settings.core_count,
    )
    total_bytes = sum(span.source_bytes for span in _new_spans(archives, ranges, ledger, limits)[0])
    size_bytes = span_bytes(
        total_bytes,
        settings.core_count,
        settings.file_bytes,
        read_bytes=head.source_bytes,
        written_bytes=head.file_bytes,
    )
    limits = limits._replace(span_bytes=size_bytes)
    spans, losses = _new_spans(archives, ranges, ledger, limits)
    abandoned, replacing, gone = _abandoned(settings, archives, ledger)
    losses += gone
    if losses and settings.read.fail_on_data_loss:
        raise DataLoss(f"{losses[0]}. To convert what there is, set option 'failOnDataLoss' to 'false'")
    for loss in losses:
        _logger.warning("%s; skipped, because failOnDataLoss is false", loss)
    kept = replace(
        ledger.ledger, spans={each: span for each, span in ledger.ledger.spans.items() if each not in abandoned}
    )
    stale = [span for one in archives for span in plan_rewrites(one, kept)]
    return _Planned(
        [*spans, *(stale if settings.rewrite else ())],
        archives,
        limits,
        0 if settings.rewrite else len({span.replaces for span in stale}),
        sorted(abandoned),
        replacing,
    )


def _abandoned(
    settings: BackfillSettings, archives: Sequence[PartitionArchive], ledger: LedgerStore
) -> tuple[set[SpanId], list[SpanTask], list[str]]:
    """The answers of `plan_abandoned` for all partitions. Raises `Invalid` for a table: its files are not replaced."""
    gone: set[SpanId] = set()
    spans: list[SpanTask] = []
    losses: list[str] = []
    known = ledger.ledger
    for archive in archives:
        ids, tasks, holes = plan_abandoned(archive, known)
        gone.update(ids)
        spans += tasks
        losses += holes
    if gone and settings.table is not None:
        first = min(gone)
        raise Invalid(
            f"{settings.topic}-{first.partition}: offsets {first.start} to {first.end - 1} were converted, and the archive "
            f"has other objects there since it was taken back to a cut, repaired or begun again; it may hold other "
            f"records. Files of a table are not replaced: convert to another table"
        )
    return gone, spans, losses


def _new_spans(
    archives: Sequence[PartitionArchive], ranges: Sequence[OffsetRange], ledger: LedgerStore, limits: PlanLimits
) -> tuple[list[SpanTask], list[str]]:
    spans: list[SpanTask] = []
    losses: list[str] = []
    for archive, offsets in zip(archives, ranges, strict=True):
        found, holes = plan_new(archive, offsets, ledger.head.coverage, limits)
        spans += found
        losses += [*offsets.losses, *holes]
    return spans, losses


def _count(summary: Summary, run: Run) -> None:
    summary.runs += 1
    summary.spans += len(run.spans)
    summary.files += sum(len(span.files) for span in run.spans)
    summary.rows += sum(span.rows for span in run.spans)
    summary.removed += len(run.removed)
    summary.abandoned += len(run.abandoned)
    summary.left_out += [SpanId(each.id.partition, *one) for each in run.spans for one in each.left_out]
    summary.source_bytes += sum(span.source_bytes for span in run.spans)
    summary.file_bytes += sum(span.size_bytes for span in run.spans)
