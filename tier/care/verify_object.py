"""Reads one archived object from the first byte to the last and says what is wrong with it.

Memory is that of one chunk and of the object's own small parts, whatever the object's size.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Final

from crc32c import crc32c

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.objects.chunk_table import Chunk
from stratalog.tier.objects.footer import BLOBS, Footer
from stratalog.tier.objects.index_check import IndexCheck
from stratalog.tier.objects.segment_blobs import aborted_from_bytes, epochs_from_bytes
from stratalog.tier.objects.segment_reader import CorruptObject, read_blob, read_chunk, read_object_footer
from stratalog.tier.objects.segment_scan import SegmentScan
from stratalog.tier.stores.checked_read import read_checked
from stratalog.tier.stores.store import InvalidRange, NotFound, ObjectStore
from stratalog.wire.batch import check_batch
from stratalog.wire.errors import Corrupt

__all__ = ["entry_differences", "verify_object_bytes"]

_PIECE_BYTES: Final = 4 * 1024 * 1024
_NOT_IN_FOOTER: Final = frozenset({"size_bytes", "crc32c", "key", "unknown", "sealed_ms", "uploaded_ms", "broker_id"})
"""Fields that the footer lacks, or holds without consequence."""
_COMPARED: Final = tuple(name for name in Entry.__struct_fields__ if name not in _NOT_IN_FOOTER)


def entry_differences(entry: Entry, footer: Entry) -> str:
    """In which fields the manifest's entry is not what the object's footer says; empty if in none."""
    return ", ".join(
        f"{name} {getattr(entry, name)} (footer: {getattr(footer, name)})"
        for name in _COMPARED
        if getattr(entry, name) != getattr(footer, name)
    )


def verify_object_bytes(store: ObjectStore, partition: PartitionId, entry: Entry) -> list[Anomaly]:
    """Every CRC of object, chunks, parts and batches, and whether all of them say what ``entry`` says.

    A finding counts if a second reading confirms it: bytes are damaged on their way, too. Raises what the store
    raises, but `NotFound` and a wrong length, which are findings.
    """
    found = _look(store, partition, entry)
    if not found:
        return []
    again = {anomaly.identity for anomaly in _look(store, partition, entry)}
    return [anomaly for anomaly in found if anomaly.identity in again]


def _look(store: ObjectStore, partition: PartitionId, entry: Entry) -> list[Anomaly]:
    try:
        return list(_Check(store, partition, entry).run())
    except NotFound as error:
        return [
            Anomaly(
                AnomalyKind.MISSING_OBJECT, partition.topic, partition.partition, entry.key, entry.base, error.reason
            )
        ]
    except InvalidRange as error:
        return [
            Anomaly(AnomalyKind.WRONG_LENGTH, partition.topic, partition.partition, entry.key, entry.base, error.reason)
        ]


class _Check:
    """The check of one object."""

    def __init__(self, store: ObjectStore, partition: PartitionId, entry: Entry) -> None:
        self._store = store
        self._partition = partition
        self._entry = entry
        self._crc = 0

    def _found(self, kind: AnomalyKind, detail: str, offset: int | None = None) -> Anomaly:
        where = self._entry.base if offset is None else offset
        return Anomaly(kind, self._partition.topic, self._partition.partition, self._entry.key, where, detail)

    def run(self) -> Iterator[Anomaly]:
        """All findings."""
        entry = self._entry
        try:
            footer = read_object_footer(self._store, entry.key)
        except CorruptObject as error:
            yield self._found(AnomalyKind.UNREADABLE_INDEX, error.reason)
            return
        if footer.partition != self._partition:
            yield self._found(
                AnomalyKind.FOREIGN_KEY, f"the object's footer says that it belongs to {footer.partition}"
            )
        differences = entry_differences(entry, footer.entry)
        if differences:
            yield self._found(AnomalyKind.ENTRY_DIFFERS, differences)
        if footer.entry.size_bytes != entry.size_bytes:
            detail = f"{footer.entry.size_bytes} bytes, {entry.size_bytes} were uploaded"
            yield self._found(AnomalyKind.WRONG_LENGTH, detail)
        parts: dict[str, bytes] = {}
        yield from self._read_parts(footer, parts)
        faults = False
        for anomaly in self._read_data(footer, parts):
            faults = True
            yield anomaly
        if not faults and footer.entry.size_bytes == entry.size_bytes:
            yield from self._check_whole(footer)

    def _read_parts(self, footer: Footer, parts: dict[str, bytes]) -> Iterator[Anomaly]:
        """Every small part behind the data, and whether it can be understood."""
        understand: dict[str, Callable[[bytes], object]] = {
            "leader_epochs": epochs_from_bytes,
            "aborted": aborted_from_bytes,
        }
        for name in BLOBS:
            if name not in footer.blobs:
                continue
            try:
                parts[name] = read_blob(self._store, self._entry.key, footer, name)
                understand.get(name, len)(parts[name])
            except CorruptObject as error:
                yield self._found(AnomalyKind.UNREADABLE_INDEX, error.reason)
            except Corrupt as error:
                yield self._found(AnomalyKind.UNREADABLE_INDEX, f"the part {name!r}: {error}")

    def _read_data(self, footer: Footer, parts: dict[str, bytes]) -> Iterator[Anomaly]:
        """Chunk by chunk; behind damage only the chunks' CRCs are checked."""
        entry = footer.entry
        scan = SegmentScan(entry.base, entry.end, compacted=entry.compacted, chunk_bytes=sys.maxsize)
        index = IndexCheck(entry.base, entry.end, parts.get("offset_index", b""), parts.get("time_index", b""))
        whole = True
        for chunk in footer.chunks or ():
            try:
                data = read_chunk(self._store, self._entry.key, chunk)
            except CorruptObject as error:
                whole = False
                yield self._found(AnomalyKind.WRONG_CRC, f"position {error.position}: {error.reason}", error.offset)
                continue
            self._crc = crc32c(data, self._crc)
            if whole:
                for anomaly in self._scan_chunk(scan, index, chunk, data):
                    whole = False
                    yield anomaly
        if whole:
            yield from self._compare(scan, index)

    def _scan_chunk(self, scan: SegmentScan, index: IndexCheck, chunk: Chunk, data: bytes) -> Iterator[Anomaly]:
        at = 0
        if scan.batch_count and chunk.first_offset < scan.next_offset:
            detail = f"the chunk table says that position {chunk.position} begins with offset {chunk.first_offset}"
            yield self._found(AnomalyKind.UNREADABLE_INDEX, detail, chunk.first_offset)
        while at < len(data):
            try:
                size_bytes = scan.add(data, at)
            except Corrupt as error:
                due = max(scan.next_offset, self._entry.base)
                detail = f"position {chunk.position + at}: {error}"
                yield self._found(_kind_of_batch(scan, data, at), detail, due)
                return
            index.add(chunk.position + at, scan.next_offset - 1)
            at += size_bytes

    def _compare(self, scan: SegmentScan, index: IndexCheck) -> Iterator[Anomaly]:
        """Sums over all batches, to compare with the entry."""
        entry = self._entry
        try:
            scan.finish()
        except Corrupt as error:
            yield self._found(AnomalyKind.BROKEN_BATCHES, str(error))
            return
        pairs = {
            "batches": (scan.batch_count, entry.batch_count),
            "records": (scan.record_count, entry.record_count),
            "control batches": (scan.control_batch_count, entry.control_batch_count),
            "largest timestamp": (scan.max_timestamp_ms, entry.max_timestamp_ms),
            "epochs": (tuple(scan.epochs), _epochs_told(entry, scan)),
            "CRC-32C of the data": (scan.data_crc32c, entry.data_crc32c),
        }
        differences = ", ".join(
            f"{name} {ours} (entry: {theirs})" for name, (ours, theirs) in pairs.items() if ours != theirs
        )
        if differences:
            yield self._found(AnomalyKind.ENTRY_DIFFERS, f"the data has {differences}")
        for fault in index.finish(scan.max_timestamp_ms):
            yield self._found(AnomalyKind.UNREADABLE_INDEX, fault)

    def _check_whole(self, footer: Footer) -> Iterator[Anomaly]:
        """The CRC-32C of the whole object: the data has been read, the rest follows."""
        try:
            read_checked(lambda: self._check_rest(footer.entry.data_bytes))
        except Corrupt as error:
            yield self._found(AnomalyKind.WRONG_CRC, str(error))

    def _check_rest(self, position: int) -> None:
        entry, crc = self._entry, self._crc
        while position < entry.size_bytes:
            piece = self._store.get_range(entry.key, position, min(_PIECE_BYTES, entry.size_bytes - position))
            crc = crc32c(piece, crc)
            position += len(piece)
        if crc != entry.crc32c:
            raise Corrupt(f"the object has CRC-32C {crc:08x}, {entry.crc32c:08x} was uploaded")


def _epochs_told(entry: Entry, scan: SegmentScan) -> tuple[LeaderEpoch, ...]:
    """Compare the entry with the epochs that ``scan`` found: the same if compaction alone explains the difference.

    It may have removed the batches with which an epoch began, and all of an epoch, never move one into another epoch. The first
    epoch that is left counts from its first batch on, for the scan lets it begin where the object does.
    """
    told, found = entry.epochs, tuple(scan.epochs)
    if not entry.compacted:
        return told
    starts = [scan.chunks[0].first_offset, *(one.start_offset for one in found[1:])]
    in_force = [max((e.epoch for e in told if e.start_offset <= start), default=-1) for start in starts]
    return found if in_force == [one.epoch for one in found] else told


def _kind_of_batch(scan: SegmentScan, data: bytes, at: int) -> AnomalyKind:
    """The kind of damage that keeps the batch from being taken."""
    try:
        header = check_batch(data, at)
    except Corrupt:
        return AnomalyKind.WRONG_CRC
    if scan.epochs and header.partition_leader_epoch < scan.epochs[-1].epoch:
        return AnomalyKind.EPOCH_ORDER
    return AnomalyKind.BROKEN_BATCHES
