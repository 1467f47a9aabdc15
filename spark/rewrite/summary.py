"""The result of a rewriting run, done or planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stratalog.spark.rewrite.group import FAILED, PLANNED, REFUSED, SWAPPED, Group, GroupResult
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.planning.backfill_forecast import piece_usage, table_by_entry
from stratalog.tier.planning.slices import SegmentSlice

__all__ = ["RewriteSummary"]


@dataclass(slots=True)
class RewriteSummary:
    """One topic. ``objects`` and ``records`` are those that were looked at; ``gets`` is what reading them all once costs.

    Records include transaction markers. ``rewritten_objects`` were replaced by ``new_objects``; in a dry run they are what
    would be, ``records_kept`` without markers then, and no bytes are known. ``old_bytes`` are freed when the trash is emptied.
    ``unread`` names the batches that are as their producer sent them, cannot be read, and stay as they stand; in the dry run
    of a compaction their records count among those that go.
    """

    topic: str
    kind: str
    objects: int = 0
    records: int = 0
    scan_bytes: int = 0
    gets: int = 0
    tasks: int = 0
    rewritten_objects: int = 0
    new_objects: int = 0
    records_kept: int = 0
    tombstones_dropped: int = 0
    old_bytes: int = 0
    new_bytes: int = 0
    clean_offsets: dict[int, int] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def plan(
        self, tasks: Sequence[Sequence[SegmentSlice]], groups: Sequence[Group], entries: Mapping[str, Entry]
    ) -> None:
        """Note what is going to be read."""
        self.tasks = len(tasks)
        self.objects = sum(len(group.uuids) for group in groups)
        pieces = [piece for task in tasks for piece in task]
        self.scan_bytes = sum(piece.read_bytes for piece in pieces)
        self.gets = sum(piece_usage(piece, table_by_entry(entries[piece.key])).reads for piece in pieces)

    def count(self, results: Iterable[GroupResult]) -> None:
        """Note what has become of the groups."""
        for each in results:
            self.records += each.records or each.group.record_count
            self.records_kept += (
                each.records_kept if each.is_done or each.outcome == PLANNED else each.group.record_count
            )
            self.tombstones_dropped += each.tombstones_dropped
            whose = each.group.partition
            self.unread += [f"{whose.topic}-{whose.partition}, the batch at offset {base}" for base in each.unread]
            if each.outcome in (SWAPPED, PLANNED):
                self.rewritten_objects += len(each.group.uuids)
                self.new_objects += 1
                self.old_bytes += each.old_bytes
                self.new_bytes += each.written_bytes
            elif each.outcome == REFUSED:
                self.refused.append(each.reason)
            elif each.outcome == FAILED:
                self.failed.append(each.reason)

    @property
    def is_whole(self) -> bool:
        """Whether everything that was planned is done."""
        return not self.refused and not self.failed
