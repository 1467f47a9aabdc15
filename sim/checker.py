"""The invariants: some after every event, some when the broker comes back, the rest when everything is quiet.

To add one, write a method that raises `Violation` and call it from `after_event`, `broker_ready` or `final`.
"""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from sim.actors.groups import Member
from sim.actors.link import LinkLost
from sim.actors.progress import Progress
from sim.actors.readers import Reader
from sim.actors.surroundings import Surroundings
from sim.group_model import GroupModel
from sim.model import PartitionModel, TopicModel, Violation
from sim.under.process import Process
from stratalog.tier.documents.keys import PartitionId, topic_prefix
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.stores.store import NotFound
from stratalog.wire.topic import TopicPartition

__all__ = ["Checker"]

_RECEIVE_BYTES_MAX: Final = 64 << 20
_DAY_MS: Final = 24 * 3600 * 1000
_REMOVAL_SECONDS: Final = 120
_MANIFEST: Final = re.compile(r"topics/.*/manifest\.json$")


class _Offsets(NamedTuple):
    """Where a partition's log stands."""

    start: int
    local_start: int
    high_watermark: int
    end: int


class Checked(Surroundings, Protocol):
    """A run, for its judge: what actors see, the broker itself and what clients know."""

    node: Any
    """The broker's `Node`; None while there is none."""
    groups: list[GroupModel]
    progress: list[Progress]


class Checker:
    """Watches one world."""

    def __init__(self, world: Checked) -> None:
        self._world = world
        self._seen: dict[Any, _Offsets] = {}
        """State of each led partition after the event before; forgotten with its process."""
        self._deleted: dict[PartitionModel, int] = {}
        """Up to where records had to go when they went; since then the clock may have been set back."""
        self._producer_ids: dict[int, str] = {}
        self._remote_ends: dict[str, int] = {}

    # -- after every event ---------------------------------------------------------------------------------------------

    def after_event(self, process: Process) -> None:
        """A callback of this process has run."""
        node = self._world.node
        if node is None or process is not self._world.broker:
            return
        for unified in node.partitions:
            log = unified.log
            now = _Offsets(
                log.log_start_offset, log.local_log_start_offset, unified.partition.high_watermark, log.log_end_offset
            )
            before = self._seen.get(unified)
            if now != before:
                self._seen[unified] = now
                self._check_offsets(unified, before, now)

    def _check_offsets(self, unified: Any, before: _Offsets | None, now: _Offsets) -> None:
        name = unified.topic_partition
        ordered = now.start <= now.high_watermark <= now.end and now.start <= now.local_start <= now.end
        if not ordered:
            raise Violation(f"{name}: log start, local log start, high watermark, log end are {tuple(now)}")
        if before is not None:
            if now.start < before.start or now.local_start < before.local_start:
                raise Violation(f"{name}: a log start went back: {tuple(before)} to {tuple(now)}")
            if now.high_watermark < before.high_watermark:
                raise Violation(f"{name}: the high watermark went back: {tuple(before)} to {tuple(now)}")
        topic = self._world.model.topics.get(unified.topic_id)
        if topic is None or topic.deleting:
            return
        if before is None or now.start > before.start:
            self._check_deleted(topic.partitions[name.partition], now.start)
        if now.local_start > now.start and (before is None or now.local_start > before.local_start):
            self._check_evicted(unified, now)

    def _check_deleted(self, partition: PartitionModel, start: int) -> None:
        """Records below a log start had to go: they were deleted, or are older than retention."""
        checked = max(partition.deleted_to, self._deleted.get(partition, 0))
        retention_ms = partition.topic.retention_ms
        now_ms = self._world.clock.wall_ms()
        for offset in range(checked, start):
            value = partition.known.get(offset)
            if value is None:
                continue
            if retention_ms < 0 or partition.sent[value].timestamp_ms > now_ms - retention_ms:
                raise Violation(f"{partition}: the log starts at {start}, but offset {offset} was to be kept")
        self._deleted[partition] = max(checked, start)

    def _check_evicted(self, unified: Any, now: _Offsets) -> None:
        """Records that left the local disk are in the bucket."""
        partition = PartitionId(unified.topic_partition.topic, unified.topic_id, unified.topic_partition.partition)
        end = read_manifest(self._world.bucket.memory, partition).manifest.remote_end
        if end < now.local_start:
            raise Violation(f"{partition}: evicted below {now.local_start}, but the archive ends at {end}")

    def bucket_changed(self, key: str) -> None:
        """An object was written or deleted: what manifests name is there."""
        if _MANIFEST.search(key):
            self._check_manifest(key)

    def _check_manifest(self, key: str) -> None:
        memory = self._world.bucket.memory
        for topic in self._world.model.topics.values():
            for partition in topic.partitions:
                found = PartitionId(topic.name, topic.topic_id, partition.number)
                if found.manifest_key == key:
                    manifest = read_manifest(memory, found).manifest
                    if not manifest.seq and key not in self._remote_ends:
                        continue  # the write that would have made it did not take effect
                    if not manifest.seq or manifest.deleted_ms >= 0:
                        self._check_may_go(topic, found, manifest)
                        self._remote_ends[key] = 0  # a removal that is done again begins with an empty archive
                        continue
                    self._check_entries(found, manifest)
                    last = self._remote_ends.get(key, 0)
                    if manifest.remote_end < last and not topic.archive_may_go:
                        raise Violation(f"{found}: the remote end went back from {last} to {manifest.remote_end}")
                    self._remote_ends[key] = manifest.remote_end

    @staticmethod
    def _check_may_go(topic: TopicModel, partition: PartitionId, manifest: Any) -> None:
        if not topic.deleting and not topic.archive_may_go:
            raise Violation(f"{partition}: the archive is marked as deleted or gone, and no actor asked for that")
        if manifest.entries:
            raise Violation(f"{partition}: the archive is marked as deleted, but serves {manifest.entries[0]}")

    def _check_entries(self, partition: PartitionId, manifest: Any) -> None:
        end: int | None = None
        for entry in manifest.entries:
            if end is not None and entry.base != end:
                raise Violation(f"{partition}: the manifest goes from {end} to {entry.base}")
            end = entry.end
            segment_key = partition.segment_key(entry.base, entry.end, entry.epoch, entry.uuid)
            try:
                found = self._world.bucket.memory.head(segment_key)
            except NotFound:
                raise Violation(f"{partition}: the manifest names {segment_key}, which is not there") from None
            if found.size_bytes != entry.size_bytes:
                raise Violation(f"{segment_key} has {found.size_bytes} bytes, the manifest says {entry.size_bytes}")

    # -- when the broker comes back ------------------------------------------------------------------------------------

    def broker_gone(self) -> None:
        """The broker's process has ended."""
        self._seen.clear()

    def broker_ready(self, node: Any) -> None:
        """Recovery is over: what was acknowledged is there."""
        for topic in self._world.model.living():
            for partition in topic.partitions:
                unified = node.partitions.get(TopicPartition(topic.name, partition.number))
                if unified is None or unified.topic_id != topic.topic_id:
                    if self._world.disk.free_bytes is not None:
                        continue  # there may be no room to open it; it is tried again
                    raise Violation(f"{partition} is not there after a restart")
                end = unified.partition.high_watermark
                if end < partition.end and unified.partition.held_back is None:
                    raise Violation(f"{partition} ends at {end} after a restart, {partition.end} was acknowledged")
                partition.restarted(unified.log_start_offset)

    def new_producer_id(self, producer_id: int, name: str) -> None:
        """A producer id was given out: it was never given out before."""
        other = self._producer_ids.setdefault(producer_id, name)
        if other != name:
            raise Violation(f"producer id {producer_id} of {other} was given to {name}, too")

    # -- when everything is quiet --------------------------------------------------------------------------------------

    async def final(self, everything: Reader, committed: Reader) -> None:
        """Read everything, and compare; then the same as committed."""
        everything.committed, committed.committed = False, True
        for topic in self._world.model.living():
            for partition in topic.partitions:
                start, records, end = await everything.read_all(partition, partition.end)
                partition.check_complete(start, records, end)
                start, records, _ = await committed.read_all(partition, end)
                partition.check_committed(start, records)
                if topic.tiered:
                    self._check_archive(topic, partition)
        for group in self._world.groups:
            await self._check_offsets_of(group)
        for progress in self._world.progress:
            await progress.check()
        self._check_resources()
        await self._check_removed()

    async def _check_offsets_of(self, group: GroupModel) -> None:
        """Committed offsets are what members were told last."""
        asking = Member(self._world, "asking", random.Random(0), group)
        for partition in group.partitions:
            while not partition.topic.deleting:
                with suppress(LinkLost):
                    if await asking.fetch_committed(partition) is not None:
                        break
                await asyncio.sleep(0.2)

    def _check_archive(self, topic: TopicModel, partition: PartitionModel) -> None:
        found = PartitionId(topic.name, topic.topic_id, partition.number)
        self._check_entries(found, read_manifest(self._world.bucket.memory, found).manifest)

    async def _check_removed(self) -> None:
        """A day later nothing is left in the trash, what is live is there, and deleted topics are gone."""
        self._world.clock.jump(_DAY_MS)
        until = self._world.loop.time() + _REMOVAL_SECONDS
        tiered = [(topic, one) for topic in self._world.model.living() if topic.tiered for one in topic.partitions]
        while tiered:
            topic, partition = tiered[-1]
            found = PartitionId(topic.name, topic.topic_id, partition.number)
            manifest = read_manifest(self._world.bucket.memory, found).manifest
            if not manifest.trash:
                self._check_entries(found, manifest)
                tiered.pop()
                continue
            if self._world.loop.time() > until:
                raise Violation(f"{found}: {len(manifest.trash)} objects are still in the trash, {manifest.trash[0]}")
            await asyncio.sleep(1)
        for topic in [one for one in self._world.model.topics.values() if self._is_gone(one) and one.tiered]:
            while left := [
                info.key for info in self._world.bucket.memory.list(topic_prefix(topic.name, topic.topic_id))
            ]:
                if self._world.loop.time() > until:
                    raise Violation(f"{topic.name} was deleted, {len(left)} objects are left of it, {left[0]}")
                await asyncio.sleep(1)

    def _is_gone(self, topic: TopicModel) -> bool:
        """Whether the deletion was carried out: its request may have been lost."""
        node = self._world.node
        return topic.deleting and node is not None and topic.topic_id not in node.control.image.topics.by_id

    def _check_resources(self) -> None:
        """No resource is held without need."""
        node = self._world.node
        if node is None:
            return
        if node.server.buffers.used_bytes > _RECEIVE_BYTES_MAX:
            raise Violation(f"{node.server.buffers.used_bytes} bytes of receive buffers are held at the end")
        idle = [directory.path for directory in node.directories.online if not directory.writer.idle]
        if idle:
            raise Violation(f"writes or syncs never ended in {idle}")
