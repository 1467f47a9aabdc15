"""One task of a rewriting run, in a worker: the objects of one range become one, listed first and then swapped in.

Remaining records are written to a temporary file, so memory holds a few chunks however large the range is. The object is a
function of its inputs and of the request: a task that is carried out twice writes the same bytes under the same key.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Final, NamedTuple

from stratalog.hot.cleaner.horizons import HorizonRules
from stratalog.hot.cleaner.records import bare_batch
from stratalog.spark.archive_store import open_archive
from stratalog.spark.rewrite.filter import (
    Codes,
    DoomedFilter,
    RewriteFilter,
    SurvivorFilter,
    aborted_by_producer,
    split_unread,
)
from stratalog.spark.rewrite.part import RewritePart, live_range, part_uuid
from stratalog.spark.source.fetch import chunk_bytes, open_segment
from stratalog.spark.source.planner import DataLoss
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry, joined_epochs
from stratalog.tier.manifests.jobs import JobRefused
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest, writer_version
from stratalog.tier.manifests.runs import ERASE_KIND
from stratalog.tier.objects.segment_blobs import AbortedTransaction, aborted_from_bytes, epochs_from_bytes
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.objects.segment_reader import read_blob, read_object_footer
from stratalog.tier.planning.slices import OffsetRange, chunk_runs, slice_entry
from stratalog.tier.stores.store import FileRange, NotFound, ObjectStore
from stratalog.wire.batch import BatchHeader, iter_headers
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition, Uuid, uuid_text

__all__ = [
    "FAILED",
    "PLANNED",
    "REFUSED",
    "SWAPPED",
    "UNCHANGED",
    "Group",
    "GroupResult",
    "RewriteRequest",
    "rewrite_group",
    "rewrite_here",
]

SWAPPED: Final = "swapped"
UNCHANGED: Final = "unchanged"
REFUSED: Final = "refused"
FAILED: Final = "failed"
PLANNED: Final = "planned"


class Group(NamedTuple):
    """The offsets ``[base, end)`` of one partition, whose objects become one.

    ``data_bytes`` and ``record_count`` are those of its objects when it was planned. ``plain`` says that the count is
    one of data records alone. In a compaction, ``forgettable_below`` is where the last one ended.
    """

    number: int
    partition: PartitionId
    base: int
    end: int
    data_bytes: int
    record_count: int
    plain: bool
    uuids: tuple[Uuid, ...]
    forgettable_below: int = 0


@dataclass(frozen=True, slots=True)
class RewriteRequest:
    """Settings shared by all tasks of one run."""

    archive: str
    run_uuid: Uuid
    kind: str
    now_ms: int
    delete_retention_ms: int = 0
    storage_class: str = ""
    dry_run: bool = False
    archive_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def erases(self) -> bool:
        """Whether `Codes` are what goes, not what stays."""
        return self.kind == ERASE_KIND


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result for a group. ``uuids`` are its objects now, ``old_keys`` those that were replaced.

    ``outcome`` is swapped, unchanged, refused (the archive has changed meanwhile), failed, both with a ``reason``, or
    planned: of a dry run, which writes nothing. ``unread`` is where batches begin that could not be read, and stay as they stand.
    """

    group: Group
    outcome: str
    uuids: tuple[Uuid, ...] = ()
    reason: str = ""
    key: str = ""
    old_keys: tuple[str, ...] = ()
    read_bytes: int = 0
    written_bytes: int = 0
    old_bytes: int = 0
    records: int = 0
    records_kept: int = 0
    tombstones_dropped: int = 0
    unread: tuple[int, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the range is now as the run wants it."""
        return self.outcome in (SWAPPED, UNCHANGED)


def rewrite_here(group: Group, codes: Codes, request: RewriteRequest) -> GroupResult:
    """`rewrite_group` on the archive that the request names."""
    return rewrite_group(open_archive(request.archive, request.archive_options), group, codes, request)


def rewrite_group(store: ObjectStore, group: Group, codes: Codes, request: RewriteRequest) -> GroupResult:
    """Rewrite a group, if anything of it changes.

    ``codes`` are the offsets that stay, or those that go. A range that is not as it was planned is left as it is. Raises
    what the store raises; then the same task may be tried again.
    """
    codes, unread = split_unread(codes)
    return replace(_result(store, group, codes, unread, request), unread=unread)


def _result(
    store: ObjectStore, group: Group, codes: Codes, unread: tuple[int, ...], request: RewriteRequest
) -> GroupResult:
    if is_needless(group, codes, request):
        return GroupResult(group, UNCHANGED, group.uuids, records=group.record_count, records_kept=group.record_count)
    if request.dry_run:
        return GroupResult(group, PLANNED, records=group.record_count, records_kept=_kept_count(group, codes, request))
    part = RewritePart(
        store, group.partition, request.run_uuid, part_uuid(request.run_uuid, group.partition, group.base), request.kind
    )
    try:
        manifest = read_manifest(store, group.partition).manifest
        inputs = live_range(store, manifest, group.base, group.end)
        if inputs[0].uuid == part.uuid:
            return _done_before(group, manifest, inputs[0])
        with tempfile.NamedTemporaryFile(prefix="stratalog-rewrite-") as spool:
            aborted = _aborted(store, inputs)
            chosen = _filter(group, codes, unread, aborted, request)
            named = aborted if request.erases else _aborted_left(aborted, group, manifest.remote_end)
            all_stay = len(named) == len(aborted)
            return _rewritten(store, part, group, inputs, chosen, named, request, spool, all_named_stay=all_stay)
    except JobRefused as error:
        part.end()
        manifest = read_manifest(store, group.partition).manifest
        there = next(iter_entries(store, manifest, group.base), None)
        if there is not None and there.uuid == part.uuid:
            return _done_before(group, manifest, there)  # an attempt that was given up, and overtook this one
        return GroupResult(group, REFUSED, reason=str(error))
    except (Corrupt, NotFound, DataLoss) as error:
        part.end()
        return GroupResult(group, FAILED, reason=str(error))


def is_needless(group: Group, codes: Codes, request: RewriteRequest) -> bool:
    """Whether it is known without a look at the objects that nothing of the group changes."""
    if request.erases:
        return not len(codes)
    return group.plain and len(codes) == group.record_count and not (codes & 1).any()


def _kept_count(group: Group, codes: Codes, request: RewriteRequest) -> int:
    """How many records would stay; markers, which only the objects tell, are left out of account."""
    return group.record_count - len(codes) if request.erases else len(codes)


def _done_before(group: Group, manifest: Manifest, output: Entry) -> GroupResult:
    """Another attempt at this task got to the end; what it has replaced is in the trash."""
    names = tuple(f"-{uuid_text(uuid)}.seg" for uuid in group.uuids)
    return GroupResult(
        group,
        SWAPPED,
        (output.uuid,),
        key=output.key,
        old_keys=tuple(item.key for item in manifest.trash if item.key.endswith(names)),
        written_bytes=output.size_bytes,
        records=group.record_count,
        records_kept=output.record_count,
    )


def _rewritten(
    store: ObjectStore,
    part: RewritePart,
    group: Group,
    inputs: Sequence[Entry],
    chosen: RewriteFilter,
    named: Sequence[AbortedTransaction],
    request: RewriteRequest,
    spool: IO[bytes],
    *,
    all_named_stay: bool,
) -> GroupResult:
    size_bytes = _spool(store, group.partition, inputs, chosen, spool)
    counts = chosen.counts
    read_bytes = sum(entry.data_bytes for entry in inputs)
    if counts.kept_whole == counts.batches and all_named_stay:
        return GroupResult(
            group,
            UNCHANGED,
            tuple(entry.uuid for entry in inputs),
            read_bytes=read_bytes,
            records=counts.records,
            records_kept=counts.records_kept,
        )
    source = FileRange(spool.name, 0, size_bytes)
    built = _segment(store, part, inputs, source, named, request)
    output = part.replace(inputs, built, storage_class=request.storage_class)
    return GroupResult(
        group,
        SWAPPED,
        (output.uuid,),
        key=output.key,
        old_keys=tuple(entry.key for entry in inputs),
        read_bytes=read_bytes,
        written_bytes=output.size_bytes,
        old_bytes=sum(entry.size_bytes for entry in inputs),
        records=counts.records,
        records_kept=counts.records_kept,
        tombstones_dropped=counts.tombstones_dropped,
    )


def _filter(
    group: Group,
    codes: Codes,
    unread: tuple[int, ...],
    aborted: Sequence[AbortedTransaction],
    request: RewriteRequest,
) -> RewriteFilter:
    if request.erases:
        return DoomedFilter(codes)
    rules = HorizonRules(request.now_ms, request.delete_retention_ms, group.forgettable_below)
    return SurvivorFilter(codes, aborted_by_producer(aborted), rules, unread)


def _aborted(store: ObjectStore, inputs: Sequence[Entry]) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that overlap the range, each once."""
    found: dict[AbortedTransaction, None] = {}
    for entry in inputs:
        if entry.aborted_count:
            footer = read_object_footer(store, entry.key)
            found |= dict.fromkeys(aborted_from_bytes(read_blob(store, entry.key, footer, "aborted")))
    return tuple(found)


def _aborted_left(
    aborted: Sequence[AbortedTransaction], group: Group, remote_end: int
) -> tuple[AbortedTransaction, ...]:
    """Those whose markers the range keeps as needed; none of their records is left.

    A transaction without its marker must not be named: a reader would take what its producer wrote later for aborted. So an object
    that stands as it is is written again where it names one whose marker is elsewhere, which a later compaction takes away.

    The last object of an archive goes on naming those that end behind it: a log that restarts there learns only from it that they
    were aborted. That marker stays until this object was compacted once more, as another than the last.
    """
    return tuple(
        one
        for one in aborted
        if (group.base <= one.last_offset < group.end and one.last_offset >= group.forgettable_below)
        or one.last_offset >= group.end == remote_end
    )


def _spool(
    store: ObjectStore, partition: PartitionId, inputs: Sequence[Entry], chosen: RewriteFilter, spool: IO[bytes]
) -> int:
    """Write what stays; returns how many bytes. The last batch stays, if only its header, and says how far the range goes."""
    size_bytes = 0
    last: tuple[BatchHeader, memoryview] | None = None
    left: memoryview | bytearray | None = None
    for header, batch in _batches(store, partition, inputs):
        last, left = (header, batch), chosen.left(header, batch)
        if left is not None:
            size_bytes += spool.write(left)
    if last is not None and left is None:
        header, batch = last
        left = bare_batch(header, batch)
        if left is batch:
            chosen.counts.kept_whole += 1
            chosen.counts.records_kept += header.record_count
        size_bytes += spool.write(left)
    chosen.finish()
    spool.flush()
    return size_bytes


def _batches(
    store: ObjectStore, partition: PartitionId, inputs: Sequence[Entry]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    whose = TopicPartition(partition.topic, partition.partition)
    for entry in inputs:
        opened = open_segment(store, slice_entry(whose, entry, OffsetRange(entry.base, entry.end)))
        for run in chunk_runs(opened.chunks, opened.piece):
            found = chunk_bytes(store, opened, run)
            view = memoryview(found.data)
            for position, header in iter_headers(found.data, found.start, found.end):
                yield header, view[position : position + header.size_bytes]


def _segment(
    store: ObjectStore,
    part: RewritePart,
    inputs: Sequence[Entry],
    source: FileRange,
    aborted: Sequence[AbortedTransaction],
    request: RewriteRequest,
) -> SegmentRequest:
    """The object to build, with what the last input knows of producers, and the leader epochs of all."""
    last = inputs[-1]
    footer = read_object_footer(store, last.key)
    return SegmentRequest(
        partition=part.partition,
        uuid=part.uuid,
        base=inputs[0].base,
        end=last.end,
        epoch=max(entry.epoch for entry in inputs),
        source=(source,),
        leader_epochs=joined_epochs(epochs_from_bytes(read_blob(store, last.key, footer, "leader_epochs")), inputs),
        producer_snapshot=read_blob(store, last.key, footer, "producer_snapshot"),
        aborted=tuple(aborted),
        compacted=True,
        cluster_id=footer.cluster_id,
        writer=writer_version(),
        sealed_ms=max(entry.sealed_ms for entry in inputs),
        uploaded_ms=request.now_ms,
    )
