"""Carries out a run's tasks: Spark (`stratalog.spark.rewrite.spark_job`), or this process for a small archive.

First every task's slices are scanned for codes (`stratalog.spark.rewrite.filter`), then each group of objects is
rewritten by the codes that lie in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from stratalog.spark.rewrite.filter import Codes, offsets_of
from stratalog.spark.rewrite.group import Group, GroupResult, RewriteRequest, rewrite_here
from stratalog.spark.rewrite.newest_keys import newest
from stratalog.tier.planning.slices import SegmentSlice
from stratalog.wire.errors import Invalid

__all__ = ["UNREAD", "HereRewriter", "Placement", "RewriteProgress", "Rewriter", "Scan", "ScanTask"]

ScanTask: TypeAlias = tuple[SegmentSlice, ...]
UNREAD: Final = "_unread"
"""The column that a scan has beside those of the source, boolean."""


class Scan(NamedTuple):
    """How the records that count are found; it travels to workers.

    ``read`` gives rows (partition, key, code) of some slices. With ``where``, a predicate of Spark SQL, it gives all
    columns of the source instead and `UNREAD`, and those rows count for which the predicate holds. Where that is true the row
    is a batch that could not be read, by its partition and its first offset.
    """

    read: Callable[[ScanTask], Iterator[pa.RecordBatch]]
    where: str = ""


class RewriteProgress(Protocol):
    """Receives the progress of a run."""

    def planned(self, scan_bytes: int, group_bytes: int) -> None:
        """So much is going to be scanned, and then perhaps rewritten."""

    def moved(self, size_bytes: int) -> None:
        """So much more of either is done."""


class Rewriter(Protocol):
    """Carries out the tasks of a run."""

    def check(self, scan: Scan) -> None:
        """Raise `Invalid` for a predicate that cannot be judged: called before anything is listed or written."""

    def rewrite(
        self,
        tasks: Sequence[ScanTask],
        scan: Scan,
        groups: Sequence[Group],
        request: RewriteRequest,
        told: RewriteProgress,
        *,
        newest_only: bool,
    ) -> Iterable[GroupResult]:
        """One result a group. With ``newest_only`` of each key only the largest code counts. Raises what tasks raise."""


class HereRewriter:
    """One task after the other, in this process; all keys, or all codes, have to fit into memory."""

    def check(self, scan: Scan) -> None:
        """See `Rewriter`. There are no predicates here."""
        if scan.where:
            raise Invalid("a predicate is Spark's to judge: leave --without-spark away")

    def rewrite(
        self,
        tasks: Sequence[ScanTask],
        scan: Scan,
        groups: Sequence[Group],
        request: RewriteRequest,
        told: RewriteProgress,
        *,
        newest_only: bool,
    ) -> Iterator[GroupResult]:
        """See `Rewriter`."""
        found: dict[int, list[pa.Table]] = {}
        for task in tasks:
            for batch in scan.read(task):
                for partition in batch.column("partition").unique().to_pylist():
                    own = batch.filter(pa.compute.equal(batch.column("partition"), partition))
                    found.setdefault(partition, []).append(pa.Table.from_batches([own]))
            told.moved(sum(piece.read_bytes for piece in task))
        codes = {partition: _codes(tables, newest_only=newest_only) for partition, tables in found.items()}
        none = np.empty(0, np.int64)
        for group in groups:
            own_codes = codes.get(group.partition.partition, none)
            low, high = np.searchsorted(own_codes, (group.base << 1, group.end << 1))
            unread = [code for code in own_codes[own_codes < 0] if group.base <= ~code >> 1 < group.end]
            yield rewrite_here(group, np.concatenate([np.array(unread, np.int64), own_codes[low:high]]), request)
            told.moved(group.data_bytes)


def _codes(tables: Sequence[pa.Table], *, newest_only: bool) -> Codes:
    whole = pa.concat_tables(tables).select(["key", "code"])
    return np.sort((newest(whole) if newest_only else whole).column("code").to_numpy())


class Placement:
    """Which group an offset belongs to. ``groups`` are in the order of partitions and offsets, and cover what is asked."""

    def __init__(self, groups: Sequence[Group]) -> None:
        by_partition: dict[int, list[Group]] = {}
        for group in groups:
            by_partition.setdefault(group.partition.partition, []).append(group)
        self._places = {
            partition: (np.array([each.base for each in own]), np.array([each.number for each in own]))
            for partition, own in by_partition.items()
        }

    def place(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows (partition, code) as rows (group, code)."""
        partitions = batch.column("partition").to_numpy()
        codes = batch.column("code").to_numpy()
        numbers = np.empty(len(batch), np.int64)
        for partition in np.unique(partitions).tolist():
            bases, ids = self._places[partition]
            ours = partitions == partition
            numbers[ours] = ids[np.searchsorted(bases, offsets_of(codes[ours]), side="right") - 1]
        return pa.RecordBatch.from_pydict({"group": numbers, "code": codes})
