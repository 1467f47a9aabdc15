"""Compaction of a topic's archive: of each key the newest record stays, over all objects that are old enough.

A `Rewriter` drives the workers. Kill it wherever you like: each object is as it was or compacted, no record is
lost or doubled, and the next compaction goes on from there. The rules for what goes are those of Kafka's cleaner.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from stratalog.spark.archive_store import open_archive
from stratalog.spark.rewrite.group import Group, GroupResult, RewriteRequest
from stratalog.spark.rewrite.newest_keys import KeyRequest, newest_keys
from stratalog.spark.rewrite.plan import clean_end, plan_groups, run_borders
from stratalog.spark.rewrite.rewriter import RewriteProgress, Rewriter, Scan
from stratalog.spark.rewrite.run import RewriteRun
from stratalog.spark.rewrite.summary import RewriteSummary
from stratalog.spark.source.archive import topic_manifests
from stratalog.spark.source.options import ReadOptions
from stratalog.tier.bucket.walk import TopicDocument, TopicFolder, read_topic_document
from stratalog.tier.documents.keys import topic_prefix
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.jobs import JobRefused
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.runs import COMPACT_KIND
from stratalog.tier.planning.slices import OffsetRange, SegmentSlice, group_tasks, slice_entry, task_limits
from stratalog.tier.stores.probe import probe
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["CompactSettings", "compact"]

_DELETE_RETENTION_MS: Final = 24 * 3600 * 1000
"""Kafka's default of ``delete.retention.ms``."""


@dataclass(frozen=True, slots=True)
class CompactSettings:
    """The topic to compact, and the settings. ``read`` are options of the source, for one topic.

    ``min_lag_ms`` and ``delete_retention_ms`` are the topic's own where they are None. ``any_policy`` compacts a topic
    whose ``cleanup.policy`` does not say so; ``again`` looks also where nothing new was archived since the last time.
    """

    topic: str
    read: ReadOptions
    object_bytes: int = 256 << 20
    task_bytes: int = 256 << 20
    core_count: int = 1
    min_lag_ms: int | None = None
    delete_retention_ms: int | None = None
    any_policy: bool = False
    again: bool = False
    take_over: bool = False
    dry_run: bool = False
    storage_class: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """One partition of the plan: the objects below ``end``."""

    manifest: Manifest
    entries: tuple[Entry, ...]
    end: int
    groups: tuple[Group, ...] = field(default=())


def compact(settings: CompactSettings, rewriter: Rewriter, told: RewriteProgress) -> RewriteSummary:
    """Compact what was archived, partition by partition, each object by a compare-and-swap of its own.

    Raises `RunUnderWay` if another run is listed, `Invalid` for a topic that is not to be compacted and for more than
    one, `UnsafeStore`, and what reading and writing raise. Objects swapped in by then stay.
    """
    store = open_archive(settings.read.archive, settings.read.store_options)
    found = topic_manifests(store, settings.read.subscription)
    configs = _configs(store, settings, found[0])
    now_ms = time.time_ns() // 1_000_000
    lag_ms = _setting(settings.min_lag_ms, configs, "min.compaction.lag.ms", 0)
    summary = RewriteSummary(settings.topic, COMPACT_KIND)
    with ExitStack() as stack:
        run: RewriteRun | None = None
        if not settings.dry_run:
            probe(store).require(multi_writer=True)
            run = stack.enter_context(RewriteRun(store, COMPACT_KIND, take_over=settings.take_over))
        parts: list[_Part] = []
        for manifest in found:
            listed = run.begin(manifest.partition) if run else manifest
            entries = tuple(iter_entries(store, listed))
            end = clean_end(entries, now_ms=now_ms, lag_ms=lag_ms)
            old = tuple(entry for entry in entries if entry.end <= end)
            if old and (settings.again or end > listed.archive_clean_offset):
                parts.append(_Part(listed, old, end))
        parts = _grouped(parts, settings.object_bytes)
        request = RewriteRequest(
            archive=settings.read.archive,
            run_uuid=run.uuid if run else bytes(16),
            kind=COMPACT_KIND,
            now_ms=now_ms,
            delete_retention_ms=_setting(
                settings.delete_retention_ms, configs, "delete.retention.ms", _DELETE_RETENTION_MS
            ),
            storage_class=settings.storage_class,
            dry_run=settings.dry_run,
            archive_options=settings.read.store_options,
        )
        results = _rewritten(settings, parts, request, rewriter, told, summary)
        summary.count(results)
        for part in parts if run else ():
            assert run is not None
            _finish(run, part, results, summary)
    return summary


def _configs(store: ObjectStore, settings: CompactSettings, manifest: Manifest) -> TopicDocument:
    """The topic's settings, as far as the bucket has them. Raises `Invalid` for a topic that is not to be compacted."""
    whose = manifest.partition
    prefix = topic_prefix(whose.topic, whose.topic_id)
    document = read_topic_document(store, TopicFolder(whose.topic, whose.topic_id, prefix))
    policy = document.configs.get("cleanup.policy", "delete")
    if "compact" not in policy.split(",") and not settings.any_policy:
        said = f"has cleanup.policy={policy}" if document.found else f"is not described by {prefix}topic.json"
        raise Invalid(
            f"topic {whose.topic} {said}: of each key all records but the newest would be gone, and records without keys. "
            "Set cleanup.policy=compact, or say --any-policy"
        )
    return document


def _setting(given: int | None, document: TopicDocument, name: str, default: int) -> int:
    if given is not None:
        return given
    value = document.configs.get(name, str(default))
    try:
        return int(value)
    except ValueError as error:
        raise Invalid(f"topic {document.name}: {name}={value} in its topic.json is no number") from error


def _grouped(parts: Iterable[_Part], bytes_max: int) -> list[_Part]:
    grouped: list[_Part] = []
    number = 0
    for part in parts:
        groups = plan_groups(
            part.manifest.partition,
            part.entries,
            bytes_max=bytes_max,
            first_number=number,
            no_crossing=run_borders(part.manifest),
            forgettable_below=part.manifest.archive_clean_offset,
        )
        number += len(groups)
        grouped.append(_Part(part.manifest, part.entries, part.end, tuple(groups)))
    return grouped


def _rewritten(
    settings: CompactSettings,
    parts: Sequence[_Part],
    request: RewriteRequest,
    rewriter: Rewriter,
    told: RewriteProgress,
    summary: RewriteSummary,
) -> list[GroupResult]:
    slices = [piece for part in parts for piece in _slices(part)]
    groups = [group for part in parts for group in part.groups]
    if not groups:
        return []
    limits = task_limits(slices, settings.core_count, task_bytes_max=settings.task_bytes)
    tasks = group_tasks(slices, limits)
    summary.plan(tasks, groups, {entry.key: entry for part in parts for entry in part.entries})
    told.planned(summary.scan_bytes, sum(group.data_bytes for group in groups))
    keys = KeyRequest(
        archive=settings.read.archive,
        now_ms=request.now_ms,
        forgettable_below={part.manifest.partition.partition: part.manifest.archive_clean_offset for part in parts},
        batch_bytes=settings.read.batch_bytes,
        archive_options=settings.read.store_options,
    )
    return list(
        rewriter.rewrite(tasks, Scan(partial(newest_keys, request=keys)), groups, request, told, newest_only=True)
    )


def _slices(part: _Part) -> list[SegmentSlice]:
    whose = TopicPartition(part.manifest.partition.topic, part.manifest.partition.partition)
    return [slice_entry(whose, entry, OffsetRange(entry.base, entry.end)) for entry in part.entries]


def _finish(run: RewriteRun, part: _Part, results: Iterable[GroupResult], summary: RewriteSummary) -> None:
    """End the run in one partition; if every group is done, the archive is clean up to where the part ends.

    A batch that could not be read ends it before: no tombstone behind it is forgotten that may hold back a record in it.
    """
    own = [each for each in results if each.group.partition == part.manifest.partition]
    try:
        if all(each.is_done for each in own):
            clean: set[Uuid] = {uuid for each in own for uuid in each.uuids}
            end = min([part.end, *(base for each in own for base in each.unread)])
            run.finish(part.manifest.partition, end, clean)
            summary.clean_offsets[part.manifest.partition.partition] = end
        else:
            run.finish(part.manifest.partition)
    except JobRefused as error:
        summary.refused.append(str(error))
