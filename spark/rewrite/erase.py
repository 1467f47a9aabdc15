"""Erasure: records of a key, or of a predicate, leave a topic's archive; every other record stays at its offset.

A `Rewriter` drives the workers, as for a compaction. Kill it wherever you like and run it again: objects are as
they were or without the records. A document under ``audit/`` tells of it (`stratalog.tier.bucket.erasure_audit`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stratalog.spark.archive_store import open_archive
from stratalog.spark.rewrite.group import SWAPPED, Group, GroupResult, RewriteRequest
from stratalog.spark.rewrite.newest_keys import KEY_SCHEMA, UnreadBatches
from stratalog.spark.rewrite.plan import plan_groups, run_borders
from stratalog.spark.rewrite.rewriter import UNREAD, RewriteProgress, Rewriter, Scan, ScanTask
from stratalog.spark.rewrite.run import RewriteRun
from stratalog.spark.rewrite.summary import RewriteSummary
from stratalog.spark.rows.schema import COLUMNS, arrow_schema
from stratalog.spark.source.archive import topic_manifests
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.options import ReadOptions
from stratalog.tier.bucket.erasure_audit import ErasedRange, ErasureAudit, begin_audit, end_audit, hashed
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.jobs import JobRefused
from stratalog.tier.manifests.leases import is_over, list_leases
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.runs import ERASE_KIND
from stratalog.tier.planning.slices import OffsetRange, SegmentSlice, group_tasks, slice_entry, task_limits
from stratalog.tier.stores.probe import probe
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = ["EraseRequest", "EraseSettings", "ErasureSummary", "doomed", "erase", "rows_of"]

_UUID_BYTES: Final = 16
_MERGED_BYTES: Final = 1
"""Objects are not put together: what holds nothing of what goes is not touched."""


@dataclass(frozen=True, slots=True)
class EraseSettings:
    """The records to erase: those with one of ``keys``, or those for which ``where``, a predicate of Spark SQL, holds.

    ``by`` and ``note`` are for the document that tells of it.
    """

    topic: str
    read: ReadOptions
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    where: str = field(default="", repr=False)
    by: str = ""
    note: str = ""
    task_bytes: int = 256 << 20
    core_count: int = 1
    take_over: bool = False
    dry_run: bool = False
    storage_class: str = ""


@dataclass(frozen=True, slots=True)
class EraseRequest:
    """Settings shared by all tasks that look for the records."""

    archive: str
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    batch_bytes: int = 2 << 20
    archive_options: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class ErasureSummary:
    """The result of a run, and the holders of objects that were replaced."""

    run: RewriteSummary
    audit_key: str = ""
    cuts: tuple[str, ...] = ()
    leases: int = 0

    @property
    def erased(self) -> int:
        """Records that went."""
        return self.run.records - self.run.records_kept

    @property
    def is_whole(self) -> bool:
        """Whether all that was asked for is erased: no object was left as it was, and every batch could be read."""
        return self.run.is_whole and not self.run.unread


def erase(settings: EraseSettings, rewriter: Rewriter, told: RewriteProgress) -> ErasureSummary:
    """Erase what is archived now, partition by partition, each object by a compare-and-swap of its own.

    Raises `RunUnderWay` if another run is listed, `Invalid` unless exactly one of keys and a sound predicate is given,
    and for more topics than one, `UnsafeStore`, and what reading and writing raise. Records erased by then stay erased.
    """
    if bool(settings.keys) is bool(settings.where):
        raise Invalid("say which records to erase: by keys, or by a predicate")
    rewriter.check(_scan(settings))
    store = open_archive(settings.read.archive, settings.read.store_options)
    found = topic_manifests(store, settings.read.subscription)
    if settings.dry_run:
        request = _request(settings, bytes(_UUID_BYTES))
        return ErasureSummary(_erased(settings, store, found, request, rewriter, told)[0])
    probe(store).require(multi_writer=True)
    with ExitStack() as stack:
        run = stack.enter_context(RewriteRun(store, ERASE_KIND, take_over=settings.take_over))
        listed = [run.begin(each.partition) for each in found]
        audit = _audit(settings, found[0], run)
        version = begin_audit(store, audit)
        summary, results = _erased(settings, store, listed, _request(settings, run.uuid), rewriter, told)
        for each in found:
            try:
                run.finish(each.partition)
            except JobRefused as error:
                summary.refused.append(str(error))
        ranges = _ranges(results)
        cuts = _cuts(store, results)
        erased = ErasureSummary(summary, audit.key, cuts)
        end_audit(store, audit, version, ranges, ended_ms=_now_ms(), whole=erased.is_whole, held_by=cuts)
    leases = [one for one in list_leases(store) if not is_over(one, _now_ms())] if ranges else []
    return replace(erased, leases=len(leases))


def _request(settings: EraseSettings, run_uuid: bytes) -> RewriteRequest:
    return RewriteRequest(
        archive=settings.read.archive,
        run_uuid=run_uuid,
        kind=ERASE_KIND,
        now_ms=_now_ms(),
        storage_class=settings.storage_class,
        dry_run=settings.dry_run,
        archive_options=settings.read.store_options,
    )


def _audit(settings: EraseSettings, manifest: Manifest, run: RewriteRun) -> ErasureAudit:
    salt = os.urandom(_UUID_BYTES)
    return ErasureAudit(
        uuid=run.uuid,
        topic=manifest.partition.topic,
        topic_id=manifest.partition.topic_id,
        started_ms=_now_ms(),
        by=settings.by,
        salt=salt,
        keys=tuple(hashed(salt, key) for key in settings.keys),
        where=hashed(salt, settings.where.encode()) if settings.where else "",
        note=settings.note,
    )


def _erased(
    settings: EraseSettings,
    store: ObjectStore,
    manifests: Sequence[Manifest],
    request: RewriteRequest,
    rewriter: Rewriter,
    told: RewriteProgress,
) -> tuple[RewriteSummary, list[GroupResult]]:
    summary = RewriteSummary(settings.topic, ERASE_KIND)
    live = [(manifest, tuple(iter_entries(store, manifest))) for manifest in manifests]
    groups: list[Group] = []
    for manifest, entries in live:
        groups += plan_groups(
            manifest.partition,
            entries,
            bytes_max=_MERGED_BYTES,
            first_number=len(groups),
            no_crossing=run_borders(manifest),
        )
    if not groups:
        return summary, []
    slices = [
        slice_entry(TopicPartition(manifest.partition.topic, manifest.partition.partition), entry, _whole(entry))
        for manifest, entries in live
        for entry in entries
    ]
    limits = task_limits(slices, settings.core_count, task_bytes_max=settings.task_bytes)
    tasks = group_tasks(slices, limits)
    summary.plan(tasks, groups, {entry.key: entry for _, entries in live for entry in entries})
    told.planned(summary.scan_bytes, sum(group.data_bytes for group in groups))
    results = list(rewriter.rewrite(tasks, _scan(settings), groups, request, told, newest_only=False))
    summary.count(results)
    return summary, results


def _scan(settings: EraseSettings) -> Scan:
    look = EraseRequest(
        settings.read.archive, settings.keys, settings.read.batch_bytes, dict(settings.read.store_options)
    )
    return Scan(partial(rows_of if settings.where else doomed, request=look), settings.where)


def _whole(entry: Entry) -> OffsetRange:
    return OffsetRange(entry.base, entry.end)


def doomed(slices: ScanTask, request: EraseRequest) -> Iterator[pa.RecordBatch]:
    """The offsets of the records with one of the keys, aborted ones too, as rows (partition, null, code)."""
    keys = pa.array(request.keys, pa.binary())
    for piece in slices:
        unread = UnreadBatches()
        for batch in _read(piece, request, ("key", "offset"), unread):
            found = batch.filter(pc.is_in(batch.column("key"), value_set=keys)).column("offset").to_numpy()
            whose = pa.array(np.full(len(found), piece.partition, np.int32))
            nothing = pa.nulls(len(found), pa.binary())
            yield pa.RecordBatch.from_arrays([whose, nothing, pa.array(found << 1)], schema=KEY_SCHEMA)
        yield from unread.rows(piece.partition)


def rows_of(slices: ScanTask, request: EraseRequest) -> Iterator[pa.RecordBatch]:
    """All columns of all records, aborted ones too, for a predicate; and `UNREAD`, with a row for each batch that is."""
    schema = arrow_schema(COLUMNS).append(pa.field(UNREAD, pa.bool_()))
    for piece in slices:
        unread = UnreadBatches()
        for batch in _read(piece, request, COLUMNS, unread):
            none = pa.array(np.zeros(batch.num_rows, np.bool_))
            yield pa.RecordBatch.from_arrays([*batch.columns, none], schema=schema)
        if unread.base_offsets:
            rows = [
                {"topic": piece.topic, "partition": piece.partition, "offset": base, UNREAD: True}
                for base in unread.base_offsets
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _read(
    piece: SegmentSlice, request: EraseRequest, columns: tuple[str, ...], unread: UnreadBatches
) -> Iterator[pa.RecordBatch]:
    store = open_archive(request.archive, request.archive_options)
    read = ReadRequest(columns, batch_bytes=request.batch_bytes, read_committed=False)
    yield from read_slices(store, [piece], read, on_unreadable=unread)


def _ranges(results: Iterable[GroupResult]) -> list[ErasedRange]:
    return [
        ErasedRange(
            each.group.partition.partition,
            each.group.base,
            each.group.end,
            each.records - each.records_kept,
            each.old_keys,
            each.key,
        )
        for each in results
        if each.outcome == SWAPPED
    ]


def _cuts(store: ObjectStore, results: Iterable[GroupResult]) -> tuple[str, ...]:
    """The cuts that keep objects which were replaced: what they name was there before."""
    held: set[str] = set()
    by_partition: dict[object, list[GroupResult]] = {}
    for each in results:
        if each.outcome == SWAPPED:
            by_partition.setdefault(each.group.partition, []).append(each)
    for own in by_partition.values():
        for pin in read_manifest(store, own[0].group.partition).manifest.pins:
            if any(each.group.base < pin.remote_end and each.group.end > pin.log_start_offset for each in own):
                held.add(pin.cut_id)
    return tuple(sorted(held))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
