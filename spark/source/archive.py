"""The driver's look at a bucket: which partitions it holds, their manifests, and where a time begins.

It writes nothing. Partitions are found by listing, since the bucket alone must be enough; folders with many objects
are jumped over. Every manifest is read once, many at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from stratalog.spark.environment.garbage_pause import garbage_pause
from stratalog.spark.rows.columns import TIME_MS_MAX
from stratalog.spark.rows.decode import Window, decode_batches
from stratalog.spark.rows.salvage import DamagedPart
from stratalog.spark.source.fetch import ChunkData, chunk_bytes, open_segment
from stratalog.spark.source.gone_back import went_back
from stratalog.spark.source.options import Subscription
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.unarchived import partition_count, similar_topic, unarchived
from stratalog.spark.source.views import archives_at_cut
from stratalog.tier.bucket.partition_folders import WHOLE_NAME_MAX, partition_folders, topic_folders
from stratalog.tier.bucket.view_names import ViewName, parse_view_name
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive, SegmentSlice, slice_entry
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.batch import BatchHeader, iter_headers
from stratalog.wire.errors import Corrupt, Unknown
from stratalog.wire.topic import TopicPartition, uuid_text

__all__ = [
    "check_found",
    "check_topics_exist",
    "find_manifests",
    "find_timestamp",
    "is_assigned",
    "load_partitions",
    "load_unarchived",
    "topic_manifests",
]

_THREADS: Final = 16
_ANY: Final = TopicPartition("", 0)
"""Where rows need no topic."""

_logger = logging.getLogger("stratalog.spark")


@garbage_pause()
def load_partitions(
    store: ObjectStore,
    subscription: Subscription,
    elsewhere: Collection[TopicPartition] = (),
    named: Collection[TopicPartition] = (),
) -> list[PartitionArchive]:
    """The archives of the partitions that ``subscription`` asks for, sorted by topic and partition.

    Those in ``elsewhere``, known to a broker, need not be archived. Assigned partitions, and those that offsets
    have ``named``, are there without offsets where the topic has them and nothing of them is archived.
    A name like ``orders@before-upgrade`` or ``orders@2026-11-01T00:00Z`` asks for a view, see `stratalog.spark.source.views`.
    Raises `Unknown` for a topic, a view, or an assigned partition, that the archive does not have.
    """
    names = subscription.topics or tuple(subscription.assignment or ())
    manifests = find_manifests(store, subscription)
    there = {each.partition.topic for each in manifests}
    views = {name: view for name in names if name not in there and (view := parse_view_name(name)) is not None}
    archives = [archive for name, view in views.items() for archive in _view(store, name, view)]
    held = [TopicPartition(each.partition.topic, each.partition.partition) for each in manifests]
    found = {*held, *elsewhere, *(archive.partition for archive in archives)}
    check_found(store, subscription, found)
    archives += _archives(store, [each for each in manifests if is_assigned(subscription, each.partition)])
    archives += load_unarchived(store, subscription, {*named, *assigned_partitions(subscription)} - found, manifests)
    return sorted((each for each in archives if is_assigned(subscription, each.partition)), key=_partition)


def load_unarchived(
    store: ObjectStore, subscription: Subscription, named: Iterable[TopicPartition], manifests: Iterable[Manifest]
) -> list[PartitionArchive]:
    """Those of ``named`` that ``subscription`` asks for and that have no archive yet, beside ``manifests``."""
    topic_ids = {each.partition.topic: each.partition.topic_id for each in manifests}
    wanted = [each for each in named if subscription.wants_topic(each.topic) and is_assigned(subscription, each)]
    return unarchived(store, wanted, topic_ids)


def assigned_partitions(subscription: Subscription) -> set[TopicPartition]:
    """The partitions that ``subscription`` spells out."""
    assignment = subscription.assignment or {}
    return {TopicPartition(topic, number) for topic, numbers in assignment.items() for number in numbers}


def find_manifests(store: ObjectStore, subscription: Subscription) -> list[Manifest]:
    """The manifests of the topics that ``subscription`` asks for, as far as there are any, found by listing."""
    names = subscription.topics or tuple(subscription.assignment or ())
    found = _manifests(store, _folders(store, subscription, names))
    return _newest_topics(each for each in found if subscription.wants_topic(each.partition.topic))


def topic_manifests(store: ObjectStore, subscription: Subscription) -> list[Manifest]:
    """The manifests of the one topic, and of it the partitions, that ``subscription`` asks for, sorted by partition.

    Raises `Invalid` for more topics than one, and for what the archive does not have.
    """
    subscription.check_one_topic()
    found = find_manifests(store, subscription)
    held = [TopicPartition(each.partition.topic, each.partition.partition) for each in found]
    check_found(store, subscription, held)
    wanted = (each for each in found if is_assigned(subscription, each.partition))
    return sorted(wanted, key=lambda each: each.partition.partition)


def _partition(archive: PartitionArchive) -> TopicPartition:
    return archive.partition


def _manifests(store: ObjectStore, folders: Iterable[PartitionId]) -> list[Manifest]:
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-manifests") as pool:
        return [manifest for manifest in pool.map(lambda each: _manifest(store, each), folders) if manifest]


def _archives(store: ObjectStore, manifests: Sequence[Manifest]) -> list[PartitionArchive]:
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-pages") as pool:
        return list(pool.map(lambda each: _archive(store, each), manifests))


def _view(store: ObjectStore, name: str, view: ViewName) -> list[PartitionArchive]:
    """The partitions of a topic as it was at a cut or at a time; none if there is no such topic."""
    if view.cut is not None:
        return archives_at_cut(store, name, view.topic, view.cut)
    found = _manifests(store, topic_folders(store, [view.topic]))
    manifests = _newest_topics(each for each in found if each.partition.topic == view.topic)
    archives = []
    for archive in _archives(store, manifests):
        end = find_timestamp(store, archive, view.timestamp_ms or 0)
        shown = TopicPartition(name, archive.partition.partition)
        archives.append(replace(archive, partition=shown, end_offset=archive.end_offset if end is None else end))
    return archives


def _archive(store: ObjectStore, manifest: Manifest) -> PartitionArchive:
    """The archive of one manifest, with the entries of its pages."""
    return PartitionArchive(
        TopicPartition(manifest.partition.topic, manifest.partition.partition),
        manifest.log_start_offset,
        # A log start moved beyond all that was ever uploaded leaves an archive that begins where it ends.
        max(manifest.remote_end, manifest.log_start_offset),
        tuple(iter_entries(store, manifest)),
        manifest.partition.topic_id,
        manifest.shortened_seq,
        went_back(manifest),
    )


def is_assigned(subscription: Subscription, partition: PartitionId | TopicPartition) -> bool:
    """Whether ``subscription``, which asks for the topic, asks for this partition of it."""
    if subscription.assignment is None:
        return True
    return partition.partition in subscription.assignment[partition.topic]


def _folders(store: ObjectStore, subscription: Subscription, names: Sequence[str]) -> Iterator[PartitionId]:
    """Partition folders that belong to the subscription, as far as their names tell, which are cut in keys."""
    if names:
        yield from topic_folders(store, names)
        return
    for folder in partition_folders(store):
        if len(folder.topic) == WHOLE_NAME_MAX or subscription.wants_topic(folder.topic):
            yield folder


def _manifest(store: ObjectStore, folder: PartitionId) -> Manifest | None:
    """The partition's manifest; None before its first commit, and of a topic that was deleted."""
    try:
        manifest, _ = get_checked(store, folder.manifest_key, partial(from_bytes, key=folder.manifest_key))
    except NotFound:
        return None
    return manifest if manifest.deleted_ms < 0 else None


def _newest_topics(manifests: Iterable[Manifest]) -> list[Manifest]:
    """The topic claimed last, if topics were deleted and created again under one name."""
    topics: dict[str, dict[bytes, list[Manifest]]] = {}
    for each in manifests:
        topics.setdefault(each.partition.topic, {}).setdefault(each.partition.topic_id, []).append(each)
    newest = []
    for name, incarnations in topics.items():
        ids = sorted(incarnations, key=lambda topic_id: max(each.claimed_ms for each in incarnations[topic_id]))
        newest += incarnations[ids[-1]]
        if len(ids) > 1:
            _logger.warning(
                "the archive holds %d topics named '%s'; the newest, %s, is read, not %s",
                len(ids), name, uuid_text(ids[-1]), ", ".join(uuid_text(topic_id) for topic_id in ids[:-1]),
            )  # fmt: skip
    return newest


def check_topics_exist(store: ObjectStore, topics: Sequence[str]) -> None:
    """Raise `Unknown` for a topic without a key in the bucket; costs a LIST or two for each, and no manifest."""
    there = [
        topic
        for topic in topics
        if parse_view_name(topic) is not None or next(topic_folders(store, [topic]), None) is not None
    ]
    check_found(store, Subscription(topics=tuple(topics)), [TopicPartition(topic, 0) for topic in there])


def check_found(store: ObjectStore, subscription: Subscription, found: Collection[TopicPartition]) -> None:
    """Raise `Unknown` unless every topic and assigned partition that ``subscription`` names is among ``found``.

    Where nothing of them is archived it is enough that the bucket knows the topic.
    """
    topics = {topic for topic, _ in found}
    for topic in subscription.topics or tuple(subscription.assignment or ()):
        if topic not in topics and not partition_count(store, topic):
            near = similar_topic(store, topic, topics)
            raise Unknown(
                f"topic '{topic}' is not in the archive {store.url}: "
                + (f"did you mean '{near}'? Else check" if near else "check")
                + " the name and the URL; a topic appears once its first segment has been uploaded"
            )
    counts: dict[str, int] = {}
    for topic, partition in sorted(assigned_partitions(subscription) - set(found)):
        if topic not in counts:
            counts[topic] = partition_count(store, topic)
        if partition >= counts[topic]:
            have = sorted(number for name, number in found if name == topic)
            raise Unknown(
                f"partition {topic}-{partition} is not in the archive {store.url}, which has {have}, and the topic has "
                f"{counts[topic]} partitions"
            )


def find_timestamp(
    store: ObjectStore,
    archive: PartitionArchive,
    timestamp_ms: int,
    *,
    skip_damage: bool = False,
    skip_loss: bool = False,
) -> int | None:
    """The first offset of ``archive`` whose record is not older than ``timestamp_ms``; None if there is none.

    As Kafka's ListOffsets does, it looks at every record, committed or not. Costs a tail and one or two chunks.
    A batch that is as its producer sent it and cannot be read counts whole, by its header: it is for the reader to tell of it.
    Damaged records are no records with ``skip_damage``; without it they raise `Corrupt`. An object that is not there
    raises `DataLoss`, unless ``skip_loss`` is set.
    """
    everything = OffsetRange(archive.log_start_offset, archive.end_offset)
    for entry in archive.entries:
        if entry.max_timestamp_ms < timestamp_ms or entry.end <= archive.log_start_offset:
            continue
        if entry.base >= archive.end_offset:
            break
        try:
            offset = _find_in(store, slice_entry(archive.partition, entry, everything), timestamp_ms, skip_damage)
        except (Corrupt, DataLoss) as error:
            if not (skip_damage if isinstance(error, Corrupt) else skip_loss):
                raise
            _logger.warning("an object is left out of the search for a timestamp: %s", error)
            continue
        if offset is not None:
            return offset
    return None


def _find_in(store: ObjectStore, piece: SegmentSlice, timestamp_ms: int, skip_damage: bool) -> int | None:
    opened = open_segment(store, piece)
    index = opened.chunks.find_timestamp(timestamp_ms, opened.chunks.find_offset(piece.start_offset))
    while index is not None:
        found = chunk_bytes(store, opened, [opened.chunks[index]], _forget if skip_damage else None)
        offset = _first_not_older(found, timestamp_ms, piece.start_offset)
        if offset is not None:
            return offset if offset < piece.end_offset else None
        index = opened.chunks.find_timestamp(timestamp_ms, index + 1)
    return None


def _forget(part: DamagedPart, position: int) -> None:
    """A read of the damaged records reports them; where a time begins only depends on readable ones."""
    del part, position


def _first_not_older(found: ChunkData, timestamp_ms: int, start_offset: int) -> int | None:
    for position, header in iter_headers(*found):
        if header.max_timestamp < timestamp_ms or header.next_offset <= start_offset or not header.record_count:
            continue
        offset = _first_in(found.data, position, header, timestamp_ms, start_offset)
        if offset is not None:
            return offset
    return None


def _first_in(data: bytes, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int) -> int | None:
    """The same in one batch that has records, at the offsets at which a reader finds them."""
    begin = max(header.base_offset, start_offset)
    if header.is_control:
        return begin  # one marker, as old as the header says
    span = position, position + header.size_bytes
    window = Window(begin, header.next_offset, aborted=None)
    try:
        rows = list(decode_batches(data, _ANY, ("offset", "timestamp"), window, span=span, checked=True))
    except Corrupt:
        return begin
    for batch in rows:
        times_ms = batch.column("timestamp").cast(pa.int64()).to_numpy() // 1000
        late = np.flatnonzero(times_ms >= min(timestamp_ms, TIME_MS_MAX))
        if len(late):
            return int(batch.column("offset")[int(late[0])].as_py())
    return None
