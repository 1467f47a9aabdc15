"""Counting rows without decoding them: from the manifest where it is enough, else from the headers of batches.

Of an object that is read whole, its manifest entry says how many records it holds; control batches, which hold one
marker each, are no rows. Of a plain object that is read in part the offsets are the count. What is left are objects
with aborted transactions, and compacted ones that are read in part or hold markers: their batches' headers are read,
and the records of a batch only where a border cuts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stratalog.spark.fetch import ReadRequest, read_slices
from stratalog.tier.entry import Entry
from stratalog.tier.slices import OffsetRange, PartitionArchive, SegmentSlice, slice_entry
from stratalog.tier.store import ObjectStore

__all__ = ["Counted", "count_manifest", "count_slices"]


class Counted(NamedTuple):
    """Rows that the manifests tell, and the slices that have to be looked at for the others."""

    rows: int
    slices: list[SegmentSlice]


def count_manifest(ranges: Iterable[tuple[PartitionArchive, OffsetRange]], *, read_committed: bool) -> Counted:
    """What the manifests say about the rows in these offsets."""
    rows = 0
    slices: list[SegmentSlice] = []
    for archive, offsets in ranges:
        for entry in archive.entries:
            start, end = max(offsets.start, entry.base), min(offsets.end, entry.end)
            if start >= end:
                continue
            known = _rows(entry, end - start, read_committed=read_committed)
            if known is None:
                slices.append(slice_entry(archive.partition, entry, offsets))
            else:
                rows += known
    return Counted(rows, slices)


def _rows(entry: Entry, offset_count: int, *, read_committed: bool) -> int | None:
    """The rows in so many offsets of an object; None where its entry does not tell."""
    if entry.aborted_count and read_committed:
        return None
    if entry.compacted and entry.control_batch_count:
        return None  # the cleaner keeps emptied control batches: how many hold a marker nobody knows
    if offset_count == entry.end - entry.base:
        return entry.record_count - entry.control_batch_count
    return None if entry.compacted or entry.control_batch_count else offset_count


def count_slices(store: ObjectStore, slices: Sequence[SegmentSlice], *, read_committed: bool) -> int:
    """The rows of ``slices``, by the headers of their batches. Raises what `read_slices` raises."""
    request = ReadRequest(("partition",), read_committed=read_committed)
    return sum(batch.num_rows for batch in read_slices(store, slices, request))
