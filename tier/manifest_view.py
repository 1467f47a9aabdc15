"""What the broker keeps of a manifest: packed arrays, a few dozen bytes per object, and no JSON.

Workers make it; it travels to the broker, whole or only the part behind what the broker has (`tier.remote_log`
merges it).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from stratalog.tier.entry import Entry, LeaderEpoch
from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest import Claimant, Manifest, Totals
from stratalog.tier.store import Version
from stratalog.wire.topic import Uuid

__all__ = ["ManifestView", "PackedEntries", "RemoteSegment"]

_UUID_BYTES = 16


class RemoteSegment(NamedTuple):
    """One archived range, unpacked."""

    uuid: Uuid
    key: str
    base: int
    end: int
    epoch: int
    size_bytes: int
    data_bytes: int
    chunks_position: int
    chunks_bytes: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    aborted_count: int


@dataclass(slots=True)
class PackedEntries:
    """Columns of entries in offset order. ``keys`` holds only those that do not follow from the other columns."""

    bases: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    epochs: array[int] = field(default_factory=lambda: array("i"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    data_sizes: array[int] = field(default_factory=lambda: array("q"))
    chunk_positions: array[int] = field(default_factory=lambda: array("q"))
    chunk_sizes: array[int] = field(default_factory=lambda: array("i"))
    min_timestamps: array[int] = field(default_factory=lambda: array("q"))
    max_timestamps: array[int] = field(default_factory=lambda: array("q"))
    aborted_counts: array[int] = field(default_factory=lambda: array("i"))
    uuids: bytearray = field(default_factory=bytearray)
    keys: dict[Uuid, str] = field(default_factory=dict)

    @classmethod
    def pack(cls, partition: PartitionId, entries: Iterable[Entry]) -> PackedEntries:
        """The columns of ``entries``."""
        packed = cls()
        for entry in entries:
            packed.bases.append(entry.base)
            packed.ends.append(entry.end)
            packed.epochs.append(entry.epoch)
            packed.sizes.append(entry.size_bytes)
            packed.data_sizes.append(entry.data_bytes)
            packed.chunk_positions.append(entry.chunks_position)
            packed.chunk_sizes.append(entry.chunks_bytes)
            packed.min_timestamps.append(entry.min_timestamp_ms)
            packed.max_timestamps.append(entry.max_timestamp_ms)
            packed.aborted_counts.append(entry.aborted_count)
            packed.uuids += entry.uuid
            if entry.key != partition.segment_key(entry.base, entry.end, entry.epoch, entry.uuid):
                packed.keys[entry.uuid] = entry.key
        return packed

    def __len__(self) -> int:
        return len(self.bases)

    def uuid(self, index: int) -> Uuid:
        """The uuid of one entry."""
        return bytes(self.uuids[index * _UUID_BYTES : (index + 1) * _UUID_BYTES])

    def unpack(self, partition: PartitionId, index: int) -> RemoteSegment:
        """One entry."""
        uuid = self.uuid(index)
        base, end, epoch = self.bases[index], self.ends[index], self.epochs[index]
        return RemoteSegment(
            uuid=uuid,
            key=self.keys.get(uuid) or partition.segment_key(base, end, epoch, uuid),
            base=base,
            end=end,
            epoch=epoch,
            size_bytes=self.sizes[index],
            data_bytes=self.data_sizes[index],
            chunks_position=self.chunk_positions[index],
            chunks_bytes=self.chunk_sizes[index],
            min_timestamp_ms=self.min_timestamps[index],
            max_timestamp_ms=self.max_timestamps[index],
            aborted_count=self.aborted_counts[index],
        )

    def drop_front(self, count: int) -> None:
        """Forget the first ``count`` entries."""
        for index in range(count):
            self.keys.pop(self.uuid(index), None)
        for column in self._columns():
            del column[:count]
        del self.uuids[: count * _UUID_BYTES]

    def truncate(self, count: int) -> None:
        """Forget all but the first ``count`` entries."""
        for index in range(count, len(self)):
            self.keys.pop(self.uuid(index), None)
        for column in self._columns():
            del column[count:]
        del self.uuids[count * _UUID_BYTES :]

    def extend(self, other: PackedEntries) -> None:
        """Add the entries of ``other``, which follow."""
        for column, more in zip(self._columns(), other._columns(), strict=True):
            column.extend(more)
        self.uuids += other.uuids
        self.keys.update(other.keys)

    def _columns(self) -> tuple[array[int], ...]:
        return (
            self.bases,
            self.ends,
            self.epochs,
            self.sizes,
            self.data_sizes,
            self.chunk_positions,
            self.chunk_sizes,
            self.min_timestamps,
            self.max_timestamps,
            self.aborted_counts,
        )


@dataclass(frozen=True, slots=True)
class ManifestView:
    """A manifest as the broker sees it.

    ``entries`` are those from offset ``entries_from`` on; what the broker holds before that offset is unchanged,
    except that entries below ``remote_start`` are gone.
    """

    partition: PartitionId
    version: Version
    seq: int
    claimant: Claimant
    log_start_offset: int
    remote_start: int
    remote_end: int
    leader_epochs: tuple[LeaderEpoch, ...]
    totals: Totals
    archive_clean_offset: int
    entries_from: int
    entries: PackedEntries

    @classmethod
    def of(cls, manifest: Manifest, version: Version, known_end: int = 0) -> ManifestView:
        """The view of ``manifest`` for a broker that knows all entries below ``known_end``.

        Entries are only ever appended behind the remote end in this version of the format, so that what is known
        stays true; a ``known_end`` that is no border of an entry gives the whole manifest.
        """
        borders = {entry.base for entry in manifest.entries} | {manifest.remote_end}
        start = known_end if known_end in borders else 0
        later = (entry for entry in manifest.entries if entry.base >= start)
        return cls(
            partition=manifest.partition,
            version=version,
            seq=manifest.seq,
            claimant=manifest.claimant,
            log_start_offset=manifest.log_start_offset,
            remote_start=manifest.remote_start,
            remote_end=manifest.remote_end,
            leader_epochs=manifest.leader_epochs,
            totals=manifest.totals,
            archive_clean_offset=manifest.archive_clean_offset,
            entries_from=start,
            entries=PackedEntries.pack(manifest.partition, later),
        )
