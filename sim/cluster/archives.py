"""The promises of the archives of replicated partitions: looked at after every write to the bucket, and at the end."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Final

from sim.cluster.surroundings import Surroundings
from sim.model import PartitionModel, Violation
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.stores.store import NotFound
from stratalog.wire.batch import iter_headers, iter_records

__all__ = ["Archives", "batches_of"]

_MANIFEST: Final = re.compile(r"topics/.*/manifest\.json$")


class Archives:
    """Watches the bucket of one run. ``mark`` gives the highest mark that any replica of a partition has had."""

    def __init__(self, cluster: Surroundings, mark: Callable[[PartitionModel], int]) -> None:
        self._cluster = cluster
        self._mark = mark
        self._ends: dict[str, int] = {}
        self._claims: dict[str, tuple[int, int]] = {}
        self._checked: set[bytes] = set()
        """Entries that were compared with what producers sent."""
        self.claims = 0
        """How often a leader has claimed an archive."""

    def changed(self, key: str) -> None:
        """An object was written or deleted. Raises `Violation`."""
        if not _MANIFEST.search(key):
            return
        for topic in self._cluster.model.topics.values():
            for partition in topic.partitions:
                if _id(partition).manifest_key == key:
                    self._check(partition, key)

    def manifest(self, partition: PartitionModel) -> Manifest:
        """The manifest as it is in the bucket."""
        return read_manifest(self._cluster.bucket.memory, _id(partition)).manifest

    def _check(self, partition: PartitionModel, key: str) -> None:
        manifest = self.manifest(partition)
        if not manifest.seq and key not in self._ends:
            return  # the write that would have made it did not take effect
        if not manifest.seq or manifest.deleted_ms >= 0:
            raise Violation(f"{partition}: the archive is marked as deleted or gone, and no actor asked for that")
        if manifest.remote_end < self._ends.get(key, 0):
            raise Violation(
                f"{partition}: the archive ended at {self._ends[key]}, now it ends at {manifest.remote_end}"
            )
        self._ends[key] = manifest.remote_end
        before, rank = self._claims.get(key, (-1, -1)), manifest.claimant.rank
        if rank < before:
            raise Violation(f"{partition}: the archive's claim goes back from {before} to {rank}")
        self.claims += rank > before
        self._claims[key] = rank
        end: int | None = None
        for entry in manifest.entries:
            if end is not None and entry.base != end:
                raise Violation(f"{partition}: the manifest goes from {end} to {entry.base}")
            end = entry.end
            self._check_entry(partition, entry, rank)

    def _check_entry(self, partition: PartitionModel, entry: Entry, rank: tuple[int, int]) -> None:
        """It was uploaded by the leader that has the claim, holds committed records alone, and those that were sent."""
        data = self._data(partition, entry)
        if entry.uuid in self._checked:
            return
        self._checked.add(entry.uuid)
        if entry.epoch != rank[1]:
            raise Violation(
                f"{partition}: the leader of epoch {entry.epoch} has put [{entry.base}, {entry.end}) into the archive; "
                f"the leader of epoch {rank[1]} has the claim"
            )
        if entry.end > self._mark(partition):
            raise Violation(
                f"{partition}: [{entry.base}, {entry.end}) is archived, the mark has been {self._mark(partition)} at most"
            )
        for position, header in iter_headers(data):
            if header.partition_leader_epoch > entry.epoch:
                raise Violation(
                    f"{partition}: the leader of epoch {entry.epoch} has archived the batch at {header.base_offset}, of epoch "
                    f"{header.partition_leader_epoch}"
                )
            if not header.is_control:
                for record in iter_records(data, position):
                    partition.at(record.offset, record.value or b"", "archived", header.partition_leader_epoch)

    def _data(self, partition: PartitionModel, entry: Entry) -> bytes:
        key = _id(partition).segment_key(entry.base, entry.end, entry.epoch, entry.uuid)
        try:
            data: bytes = self._cluster.bucket.memory.get(key)[0]
        except NotFound:
            raise Violation(f"{partition}: the manifest names {key}, which is not there") from None
        if len(data) != entry.size_bytes:
            raise Violation(f"{key} has {len(data)} bytes, the manifest says {entry.size_bytes}")
        return data[: entry.data_bytes]

    # -- disks ---------------------------------------------------------------------------------------------------------

    def check_evicted(self, partition: PartitionModel, local_start: int, who: str) -> None:
        """Records that left a disk are in the bucket. Raises `Violation`."""
        end = self.manifest(partition).remote_end
        if end < local_start:
            raise Violation(f"{who} has {partition} from {local_start} on; the archive ends at {end}")

    def behind(self, partition: PartitionModel, log: Any) -> str | None:
        """Return what the archive lacks or has otherwise than the leader's log; None if nothing. Raises `Violation`."""
        manifest = self.manifest(partition)
        if manifest.remote_end < log.active_base_offset:
            return (
                f"{partition}: the archive ends at {manifest.remote_end}, frozen segments at {log.active_base_offset}"
            )
        local = batches_of(log)
        for entry in manifest.entries:
            data = self._data(partition, entry)
            for position, header in iter_headers(data):
                there = local.get(header.base_offset)
                if there is not None and there != data[position : position + header.size_bytes]:
                    raise Violation(f"{partition}: the batch at {header.base_offset} is another one in the archive")
        return None


def batches_of(log: Any) -> dict[int, bytes]:
    """All batches that are on the disk, by base offset."""
    start, end = log.local_log_start_offset, log.log_end_offset
    read = log.read(start, max_bytes=1 << 30, max_offset=end)
    data = b"".join(os.pread(part.file.fileno(), part.length, part.position) for part in read.parts)
    return {header.base_offset: data[at : at + header.size_bytes] for at, header in iter_headers(data)}


def _id(partition: PartitionModel) -> PartitionId:
    return PartitionId(partition.topic.name, partition.topic.topic_id, partition.number)
