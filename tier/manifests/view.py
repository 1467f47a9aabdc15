"""The broker's copy of a manifest: packed arrays, a few dozen bytes per object, and no JSON.

Workers make it; it travels to the broker, whole or only the part behind what the broker has (`tier.reading.remote_log`
merges it).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.lost_archive import shortened_seq
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.pages import page_fields
from stratalog.tier.manifests.parts import Claimant, PageRef, Totals
from stratalog.tier.stores.store import Version
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid, uuid_parse

__all__ = ["NO_ENTRIES", "ManifestView", "PackedEntries", "RemoteSegment", "packed_page"]

NO_ENTRIES: Final = -1
"""As the end of what is known: entries are not wanted, only what the manifest says besides."""

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


class PackedEntries(Struct):
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


def packed_page(partition: PartitionId, page: PageRef, data: bytes) -> PackedEntries:
    """The columns of a page's live entries, straight from its fields: a large archive has very many.

    Raises `Corrupt` for a page that is not what the manifest says.
    """
    fields = page_fields(data, page, partition)[page.dead_count :]
    packed = PackedEntries()
    try:
        _fill(packed, partition, fields)
    except (ValueError, TypeError, LookupError, OverflowError, Invalid) as error:
        raise Corrupt(f"{partition}: the page {page.key} is damaged: {error!r}") from error
    starts, ends = [page.live_first, *packed.ends[:-1]], packed.ends[-1] if packed.ends else page.first
    if list(packed.bases) != starts or ends != page.end:
        raise Corrupt(f"{partition}: the page {page.key} is damaged: its entries do not follow each other")
    return packed


def _fill(packed: PackedEntries, partition: PartitionId, fields: Sequence[Mapping[str, Any]]) -> None:
    for column, name in (
        (packed.bases, "base"),
        (packed.ends, "end"),
        (packed.epochs, "epoch"),
        (packed.sizes, "size"),
        (packed.data_sizes, "data_len"),
        (packed.chunk_positions, "chunks_pos"),
        (packed.chunk_sizes, "chunks_len"),
        (packed.min_timestamps, "min_ts"),
        (packed.max_timestamps, "max_ts"),
    ):
        column.extend([each[name] for each in fields])
    packed.aborted_counts.extend([each.get("aborted", 0) for each in fields])
    for each in fields:
        name = each["uuid"]
        packed.uuids += uuid_parse(name)
        loc = f"seg/{each['base']:020}-{each['end']:020}-{each['epoch']:010}-{name}.seg"
        if each["loc"] != loc:
            loc = each["loc"]
            packed.keys[uuid_parse(name)] = loc[1:] if loc.startswith("/") else partition.prefix + loc


class ManifestView(Struct, frozen=True):
    """A manifest as the broker sees it.

    ``entries`` are those from offset ``entries_from`` on; what the broker holds before that offset is unchanged,
    except that entries below ``remote_start`` are gone, and that everything is different for a broker whose manifest
    is older than ``rewritten_seq``. ``oldest_timestamp_ms`` is the largest timestamp of the first live entry, -1 if
    there is none; ``newest_key`` is the object of the last one, empty if there is none. ``shortened_seq`` is the
    number of the latest change after which the archive may end earlier than before.
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
    rewritten_seq: int
    shortened_seq: int
    oldest_timestamp_ms: int
    deleted: bool
    trash_count: int
    trash_bytes: int
    job_count: int
    newest_key: str
    entries_from: int
    entries: PackedEntries

    def may_end_earlier(self, known_seq: int) -> bool:
        """Whether a remote end below that of the manifest ``known_seq`` has a reason (`tier.manifests.lost_archive`)."""
        return self.deleted or self.shortened_seq > known_seq

    @classmethod
    def of(cls, manifest: Manifest, version: Version, known_end: int = 0) -> ManifestView:
        """The view of ``manifest`` for a broker that knows all entries below ``known_end``.

        What is known stays true, except after a rewrite, which ``rewritten_seq`` tells. 0 asks for all inline entries,
        to which a reader of the pages adds theirs; `NO_ENTRIES`, and with pages also an offset that is no
        border of an inline entry, for none.
        """
        borders = {entry.base for entry in manifest.entries} | {manifest.remote_end}
        if known_end in borders or not known_end or not manifest.remote_start < manifest.remote_end:
            start = known_end if known_end in borders else 0
        else:
            start = manifest.remote_end if known_end == NO_ENTRIES or manifest.pages else 0
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
            rewritten_seq=manifest.rewritten_seq,
            shortened_seq=shortened_seq(manifest),
            oldest_timestamp_ms=manifest.oldest_timestamp_ms,
            deleted=manifest.deleted_ms >= 0,
            trash_count=len(manifest.trash),
            trash_bytes=sum(item.size_bytes for item in manifest.trash),
            job_count=len(manifest.jobs),
            newest_key=manifest.entries[-1].key if manifest.entries else "",
            entries_from=start,
            entries=PackedEntries.pack(manifest.partition, later),
        )
