"""A data directory from a cut: its topics as they were, in logs of a new cluster that owes nothing to the old one.

Unlike `Restorer`, which leaves everything in the bucket, this fetches every record: the topics have new ids, so that
whatever the new broker archives has nothing to do with what the old one has. Transactions that were under way where the
cut ends get the marker that they got in the end, so that no reader waits for them.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stratalog.broker.archive.archived_ends import end_restored
from stratalog.broker.restore.restorer import Producers, Restorer
from stratalog.hot.recovery.damage import empty_batch
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.tier.bucket.catalogue import ArchivedTopic
from stratalog.tier.care.restore_plan import ArchivedProducers, BucketState, PartitionState
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.parts import Totals
from stratalog.tier.messages.group_copy import GroupCopy
from stratalog.tier.work.cut_commands import cut_manifest
from stratalog.tier.work.cut_data import aborted_across, batches_below, first_offset, held_bytes
from stratalog.tier.work.cut_groups import read_cut_groups
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import Invalid, Unknown
from stratalog.wire.topic import TopicPartition, Uuid, uuid_text

if TYPE_CHECKING:
    from stratalog.hot.config import LogConfig
    from stratalog.hot.directory import LogDirectory
    from stratalog.hot.log.log import Log
    from stratalog.tier.bucket.cuts import Cut, CutPartition, CutTopic
    from stratalog.tier.stores.store import ObjectStore

__all__ = ["CutRestorer", "cut_restorer"]

_ANY_EPOCH: Final = (1 << 31) - 1
_OURS: Final = ("remote.", "local.retention.", "stratalog.")
"""Settings of tiering are left out: the restored topics are local until an operator tiers them."""
_KEPT: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Restored records may not go at once because they are old."""

log = logging.getLogger(__name__)


class CutRestorer(Restorer):
    """`Restorer` of logs that hold all of their records. ``members`` are by the new ids of their topics."""

    def __init__(
        self,
        state: BucketState,
        data: str,
        *,
        store: ObjectStore,
        ends: Mapping[PartitionId, int],
        node_id: int,
        now_ms: int,
        on_bytes: Callable[[int], object],
    ) -> None:
        super().__init__(
            state, data, node_id=node_id, incarnation=0, now_ms=now_ms, producers_of=lambda _: ArchivedProducers()
        )
        self._store = store
        self._ends = ends
        self._on_bytes = on_bytes

    def _restart_log(self, directory: LogDirectory, state: PartitionState, config: LogConfig) -> tuple[Log, Producers]:
        """One log with its records."""
        manifest, end = state.manifest, self._ends[state.partition]
        name = TopicPartition(state.partition.topic, state.partition.partition)
        log_ = directory.open_log(name, state.partition.topic_id, config, now_ms=self._now_ms)
        if not manifest.seq:
            return log_, Producers()
        start = manifest.log_start_offset
        log_.truncate_fully_and_start_at(
            min(first_offset(self._store, manifest, end), end), [], None, log_start_offset=start
        )
        next_id = 0
        for data in batches_below(self._store, manifest, end):
            next_id = max(next_id, *(header.producer_id + 1 for _, header in iter_headers(data)), 0)
            log_.append_as_follower(memoryview(data), leader_epoch=_ANY_EPOCH, now_ms=self._now_ms)
            log_.write_queued()
            self._on_bytes(len(data))
        if (hole := log_.log_end_offset) < end:
            # Compaction left it before the cut's end, where groups may stand: new records must not come below them.
            epoch = max(log_.leader_epochs.latest_epoch, 0)
            log_.append_as_follower(
                memoryview(empty_batch(hole, end, epoch)), leader_epoch=_ANY_EPOCH, now_ms=self._now_ms
            )
            log_.write_queued()
        # The markers that were written behind the end of the cut.
        end_restored(log_, end, aborted_across(self._store, manifest, end), now_ms=self._now_ms)
        return log_, Producers(next_id=next_id)

    def _readable_end(self, state: PartitionState) -> int:
        """The end of the cut."""
        return self._ends[state.partition]

    def _remote_logs(self) -> dict[TopicPartition, RemoteLogState]:
        """Empty: no bucket holds an archive of this cluster."""
        return {}


def cut_restorer(
    store: ObjectStore,
    cut: Cut,
    data: str,
    *,
    topics: Iterable[str] = (),
    node_id: int,
    now_ms: int,
    on_bytes: Callable[[int], object],
) -> CutRestorer:
    """A restore of these topics of a cut, of all if none is named.

    Raises `Invalid` if the cut is not complete, does not have a topic, or if the disk has too little room; `Corrupt`.
    """
    wanted = set(topics)
    missing = wanted - {topic.name for topic in cut.topics}
    if missing:
        raise Unknown(f"the cut {cut.name} does not hold topic {min(missing)}")
    ids = {topic.topic_id: _new_id() for topic in cut.topics if not wanted or topic.name in wanted}
    states, ends, size_bytes = [], {}, 0
    for member in cut.partitions:
        if member.partition.topic_id in ids:
            state = _state(store, cut, member, ids[member.partition.topic_id])
            size_bytes += state.manifest.totals.size_bytes
            states.append(state)
            ends[state.partition] = member.end_offset
    _check_room(data, size_bytes)
    bucket_state = BucketState(
        cluster_id=uuid_text(_new_id()),
        incarnation=-1,
        topics=tuple(_topic(topic, ids[topic.topic_id]) for topic in cut.topics if topic.topic_id in ids),
        partitions=tuple(states),
        groups=tuple(copy for copy in _under_new_ids(read_cut_groups(store, cut), ids) if copy.offsets),
    )
    return CutRestorer(bucket_state, data, store=store, ends=ends, node_id=node_id, now_ms=now_ms, on_bytes=on_bytes)


def _state(store: ObjectStore, cut: Cut, member: CutPartition, topic_id: Uuid) -> PartitionState:
    """A partition under the new id of its topic; its totals are what will be fetched."""
    manifest = cut_manifest(store, cut, member)
    epochs = tuple(epoch for epoch in manifest.leader_epochs if epoch.start_offset < member.end_offset)
    size_bytes = held_bytes(store, manifest, member.end_offset) if manifest.seq else 0
    return PartitionState(
        member.partition._replace(topic_id=topic_id),
        replace(manifest, leader_epochs=epochs, totals=Totals(size_bytes=size_bytes)),
    )


def _under_new_ids(copies: Iterable[GroupCopy], ids: Mapping[Uuid, Uuid]) -> Iterator[GroupCopy]:
    """Groups with their offsets in the topics that are restored, which have other ids now."""
    for copy in copies:
        offsets = (one._replace(topic_id=ids[one.topic_id]) for one in copy.offsets if one.topic_id in ids)
        yield GroupCopy(copy.group, tuple(offsets))


def _topic(topic: CutTopic, topic_id: Uuid) -> ArchivedTopic:
    configs = {name: value for name, value in topic.configs.items() if not name.startswith(_OURS)}
    return ArchivedTopic(topic.name, topic_id, topic.partition_count, configs | _KEPT)


def _check_room(data: str, size_bytes: int) -> None:
    parent = Path(data).absolute().parent
    while not parent.exists():
        parent = parent.parent
    free_bytes = shutil.disk_usage(parent).free
    if free_bytes < size_bytes:
        raise Invalid(f"the cut holds {size_bytes} bytes, {parent} has room for {free_bytes}: choose another disk")


def _new_id() -> Uuid:
    """One that does not print with a leading dash."""
    while (uuid := os.urandom(16))[0] >> 2 == 62:
        pass
    return uuid
