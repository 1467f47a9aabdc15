"""Rows that a backfill has converted, read from its Parquet files instead of the objects they came from.

Only spans are taken whose rows are those that the objects would give: of the same topic by its id, of the same isolation
level, and converted from exactly the objects that the manifest names now, with no batch left out; what was cleaned, merged
or uploaded since is read from the archive.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from stratalog.spark.ledger.ledger import Span
from stratalog.spark.ledger.ledger_store import LedgerStore
from stratalog.spark.ledger.target import open_target
from stratalog.spark.source.options import ReadOptions
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import ZERO_UUID, TopicPartition, uuid_text

__all__ = ["ConvertedParts", "ParquetSlice", "group_files", "split_range", "usable_spans"]

_FILE_COST_BYTES: Final = 256 * 1024
"""Cost for a task of opening one more file, in bytes it could have read meanwhile."""

_logger = logging.getLogger("stratalog.spark")


class ParquetSlice(NamedTuple):
    """The rows of one file, at ``path`` of the backfill's target, with offsets in ``[start_offset, end_offset)``.

    ``whole`` says that all of its rows are.
    """

    topic: str
    partition: int
    path: str
    size_bytes: int
    start_offset: int
    end_offset: int
    whole: bool

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose offsets these are."""
        return TopicPartition(self.topic, self.partition)


class ConvertedParts(NamedTuple):
    """Offsets of one partition: what is read from files, and what is left to the archive."""

    files: list[ParquetSlice]
    left: list[OffsetRange]


def usable_spans(options: ReadOptions, archives: Iterable[PartitionArchive]) -> Mapping[TopicPartition, Sequence[Span]]:
    """The spans of each partition that may be read instead, ascending, as the ledger in ``options.converted`` has them.

    Raises `Invalid` where option ``prefer`` is ``parquet`` and nothing of a topic may be, `Corrupt` for a damaged ledger.
    """
    if options.converted is None:
        return {}
    topics: dict[str, list[PartitionArchive]] = {}
    for archive in archives:
        topics.setdefault(archive.partition.topic, []).append(archive)
    target = open_target(options.converted, options.store_options if options.converted.startswith("s3") else {})
    found: dict[TopicPartition, Sequence[Span]] = {}
    for topic, partitions in topics.items():
        topic_id = uuid_text(partitions[0].topic_id)
        store = LedgerStore(target, topic, topic_id)
        obstacle = _obstacle(store, topic_id, options)
        if obstacle is None:
            ledger = store.ledger
            for archive in partitions:
                own = ledger.by_partition.get(archive.partition.partition, ())
                found[archive.partition] = _current(archive, own)
            continue
        message = f"topic {topic} is not read from {target.url}: {obstacle}"
        if options.converted_required:
            raise Invalid(f"{message}. Set option 'prefer' to 'auto' to read the archive where that is so")
        _logger.info("%s", message)
    return found


def _obstacle(store: LedgerStore, topic_id: str, options: ReadOptions) -> str | None:
    """Why nothing of a topic may be read from the files of a backfill."""
    head = store.head
    if not head.seq:
        return "there is no backfill of it there"
    if topic_id == uuid_text(ZERO_UUID) or head.topic_id != topic_id:
        return f"it holds a topic of this name with the id {head.topic_id}, the archive's has {topic_id}"
    if head.publishing:
        return "a backfill was interrupted, or is at work; the next one finishes that"
    isolation = "read_committed" if options.read_committed else "read_uncommitted"
    if dict(head.layout).get("isolation") != isolation:
        return f"it was converted under {dict(head.layout).get('isolation')}, the query asks for {isolation}"
    return None


def _current(archive: PartitionArchive, spans: Iterable[Span]) -> list[Span]:
    live = {entry.key: entry.crc32c for entry in archive.entries}
    return sorted(
        (
            span
            for span in spans
            if not span.left_out and all(live.get(source.key) == source.crc32c for source in span.sources)
        ),
        key=_start,
    )


def _start(span: Span) -> int:
    return span.id.start


def split_range(partition: TopicPartition, offsets: OffsetRange, spans: Sequence[Span]) -> ConvertedParts:
    """Divide the ``offsets`` of a partition whose ``spans`` (ascending) were converted. Pure."""
    parts = ConvertedParts([], [])
    at = offsets.start
    for span in spans:
        start, end = max(at, span.id.start), min(offsets.end, span.id.end)
        if start >= end:
            continue
        if start > at:
            parts.left.append(OffsetRange(at, start))
        parts.files.extend(
            ParquetSlice(*partition, file.path, file.size_bytes, start, end, start <= file.first and file.last < end)
            for file in sorted(span.files, key=lambda each: each.first)
            if file.first < end and file.last >= start
        )
        at = end
    if at < offsets.end:
        parts.left.append(OffsetRange(at, offsets.end))
    return parts


def group_files(files: Sequence[ParquetSlice], core_count: int, task_bytes_max: int) -> list[tuple[ParquetSlice, ...]]:
    """Tasks of about equal size, two for each core if files allow it; a file is never divided. Pure."""
    total = sum(each.size_bytes + _FILE_COST_BYTES for each in files)
    share = min(task_bytes_max, -(-total // max(1, 2 * core_count)))
    tasks: list[tuple[ParquetSlice, ...]] = []
    task: list[ParquetSlice] = []
    used = 0
    for each in files:
        if task and used + each.size_bytes > share:
            tasks.append(tuple(task))
            task, used = [], 0
        task.append(each)
        used += each.size_bytes + _FILE_COST_BYTES
    return [*tasks, tuple(task)] if task else tasks
