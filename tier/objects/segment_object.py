"""Builds a ``.seg`` object from local log files and verifies every byte of it on the way (format: `tier.objects.footer`).

Memory is bounded. With a buffer that holds the range, files are read into it once, and it is what is sent. Without, they
are verified through a window of 256 KiB and read again when they are sent (`tier.stores.source_reader`); a sender
compares the CRC-32C found here. Either way a piece is checked while it is still in the processor's cache.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from struct import Struct
from typing import Final

import msgspec
from crc32c import crc32c

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.objects.chunk_table import CHUNK_BYTES, ChunkTable
from stratalog.tier.objects.footer import BLOBS, Blob, Footer, encode_footer, encode_trailer, read_footer
from stratalog.tier.objects.segment_blobs import AbortedTransaction, aborted_to_bytes, epochs_to_bytes
from stratalog.tier.objects.segment_scan import INDEX_INTERVAL_BYTES, SegmentScan
from stratalog.tier.stores.store import Buffer, FileRange
from stratalog.wire.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid

__all__ = [
    "BuiltSegment",
    "CorruptSource",
    "FileRange",
    "SegmentRequest",
    "build_segment",
    "read_footer",
]

_WINDOW_BYTES: Final = 256 * 1024
"""Bytes read and checked at once. Source and copy both have to stay in the processor's cache of some MiB meanwhile."""
_INT32_MAX: Final = 2**31 - 1
_BATCH_LENGTH: Final = Struct(">i")


class _Windows(threading.local):
    """One window for each thread, used again and again: fresh memory costs more than what is done with it."""

    def __init__(self) -> None:
        self.buffer = bytearray(_WINDOW_BYTES)


_windows = _Windows()


class CorruptSource(Corrupt):
    """A local batch fails its check: it is never archived.

    ``topic``, ``partition``, ``offset`` (the next one due), ``path`` and ``position`` (in that file) say where.
    """

    def __init__(self, partition: PartitionId, offset: int, path: str, position: int, reason: str) -> None:
        super().__init__(partition, offset, path, position, reason)
        self.partition = partition
        self.offset = offset
        self.path = path
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.partition}: the batch of offset {self.offset} at position {self.position} of {self.path} is "
            f"corrupt and is not archived: {self.reason}. Restore the segment from another replica."
        )


class SegmentRequest(msgspec.Struct, frozen=True):
    """The object to build: the offsets ``[base, end)``, whose batches are exactly ``source``, in order.

    ``leader_epochs`` is the partition's whole history, oldest first (empty: taken from the batches);
    ``producer_snapshot`` is Kafka's snapshot file cut at ``end``; ``aborted`` are all aborted transactions that
    overlap the range. ``drop_cache`` gives the files' pages back to the kernel once they are sent.
    """

    partition: PartitionId
    uuid: Uuid
    base: int
    end: int
    epoch: int
    source: Sequence[Buffer | FileRange]
    leader_epochs: tuple[LeaderEpoch, ...] = ()
    producer_snapshot: bytes = b""
    aborted: tuple[AbortedTransaction, ...] = ()
    compacted: bool = False
    cluster_id: str = ""
    writer: str = ""
    broker_id: int = -1
    sealed_ms: int = -1
    uploaded_ms: int = -1
    chunk_bytes: int = CHUNK_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    drop_cache: bool = False

    @property
    def key(self) -> str:
        """The object's key: this attempt's alone."""
        return self.partition.segment_key(self.base, self.end, self.epoch, self.uuid)


class BuiltSegment(msgspec.Struct, frozen=True):
    """A verified object, ready to upload: ``source`` in order is its bytes, ``entry.crc32c`` covers them all.

    ``unread`` tells of batches that are as their producer sent them and cannot be read; empty if there are none.
    """

    entry: Entry
    source: tuple[Buffer | FileRange, ...]
    footer: Footer
    chunks: ChunkTable
    unread: str = ""


def build_segment(request: SegmentRequest, buffer: memoryview | None = None) -> BuiltSegment:
    """Read, verify and describe the range; its files are sent from ``buffer``, if one is given that is large enough.

    Raises `CorruptSource` for a damaged batch or a gap, `Invalid` for a range that Kafka's index
    format cannot address (2 GiB, 2**31 offsets), and `OSError` if a file cannot be read.
    """
    length = sum(_length(piece) for piece in request.source)
    if not 0 < length <= _INT32_MAX or not 0 < request.end - request.base <= _INT32_MAX:
        raise Invalid(
            f"{request.partition}: the range [{request.base}, {request.end}) of {length} bytes cannot be one object: "
            "at least a batch, at most 2 GiB and 2**31 offsets"
        )
    scan = SegmentScan(
        request.base,
        request.end,
        compacted=request.compacted,
        chunk_bytes=request.chunk_bytes,
        index_interval_bytes=request.index_interval_bytes,
    )
    data: list[Buffer | FileRange] = []
    for piece in request.source:
        if not isinstance(piece, FileRange):
            _scan_buffer(request, scan, memoryview(piece), "memory", 0)
            data.append(piece)
        elif buffer is None or len(buffer) < piece.length:
            _scan_file(request, scan, piece, memoryview(_windows.buffer))
            data.append(piece)
        else:
            _scan_file(request, scan, piece, buffer[: piece.length])
            data.append(buffer[: piece.length])
            buffer = buffer[piece.length :]
    try:
        scan.finish()
    except Corrupt as error:
        raise CorruptSource(request.partition, request.end, _name(request.source[-1]), 0, str(error)) from error
    return _assemble(request, scan, data)


def _length(piece: Buffer | FileRange) -> int:
    return piece.length if isinstance(piece, FileRange) else memoryview(piece).nbytes


def _name(piece: Buffer | FileRange) -> str:
    return piece.path if isinstance(piece, FileRange) else "memory"


def _scan_buffer(request: SegmentRequest, scan: SegmentScan, view: memoryview, path: str, position: int) -> None:
    """Feed every batch of ``view``, which begins at byte ``position`` of ``path``."""
    before = scan.data_bytes
    try:
        scan.add_all(view)
    except Corrupt as error:
        due = request.base if scan.batch_count == 0 else scan.next_offset
        at = position + scan.data_bytes - before
        raise CorruptSource(request.partition, due, path, at, str(error)) from error


def _scan_file(request: SegmentRequest, scan: SegmentScan, piece: FileRange, window: memoryview) -> None:
    """Verify a file range through ``window``, which slides over whole batches and grows only for a larger batch.

    One as long as the range never slides, and holds it all in the end.
    """
    position, end = piece.position, piece.position + piece.length
    begin = filled = 0  # of what is in the window and not verified yet
    descriptor = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while position + filled < end:
            if filled == len(window):
                source, window = window, window if begin else memoryview(bytearray(2 * len(window)))
                window[: filled - begin] = source[begin:filled]
                position, begin, filled = position + begin, 0, filled - begin
            room = window[filled : min(len(window), filled + _WINDOW_BYTES, end - position)]
            count = os.preadv(descriptor, [room], position + filled)
            if not count:
                reason = "the file ends inside the range"
                raise CorruptSource(request.partition, request.base, piece.path, position + filled, reason)
            filled += count
            left = end - position - begin
            whole = left if position + filled == end else _whole_batches(window[begin:filled], left)
            _scan_buffer(request, scan, window[begin : begin + whole], piece.path, position + begin)
            begin += whole
    finally:
        os.close(descriptor)


def _whole_batches(buffer: memoryview, range_bytes: int) -> int:
    """The bytes of the whole batches at the front; a damaged length counts as whole, so that the check finds it.

    ``range_bytes`` are left of the range: no batch can be longer.
    """
    at = 0
    while at + HEADER_BYTES <= len(buffer):
        (batch_length,) = _BATCH_LENGTH.unpack_from(buffer, at + 8)
        size_bytes = batch_length + LOG_OVERHEAD_BYTES
        if size_bytes < HEADER_BYTES or size_bytes > range_bytes - at:
            return len(buffer)
        if at + size_bytes > len(buffer):
            break
        at += size_bytes
    return at


def _assemble(request: SegmentRequest, scan: SegmentScan, data: list[Buffer | FileRange]) -> BuiltSegment:
    epochs = _completed(_clip(request.leader_epochs, request.base, request.end), scan.epochs)
    history = tuple(e for e in request.leader_epochs if e.start_offset < request.end) or epochs
    parts = {
        "offset_index": bytes(scan.offset_index),
        "time_index": bytes(scan.time_index),
        "leader_epochs": epochs_to_bytes(history),
        "producer_snapshot": request.producer_snapshot,
        "aborted": aborted_to_bytes(request.aborted),
        "chunks": scan.chunks.to_bytes(),
    }
    blobs = {}
    position = scan.data_bytes
    for name in BLOBS:
        blobs[name] = Blob(position, len(parts[name]), crc32c(parts[name]))
        position += len(parts[name])
    body = b"".join(parts[name] for name in BLOBS)
    draft = _entry(request, scan, epochs, blobs["chunks"], size_bytes=position, object_crc32c=0)
    footer = Footer(request.partition, request.cluster_id, request.writer, draft, blobs, scan.chunks)
    encoded = encode_footer(footer)
    tail = body + encoded + encode_trailer(position, encoded, scan.data_bytes)
    entry = _entry(
        request,
        scan,
        epochs,
        blobs["chunks"],
        size_bytes=scan.data_bytes + len(tail),
        object_crc32c=crc32c(tail, scan.data_crc32c),
    )
    unread = f"{scan.unread_count} of {scan.batch_count}, first {scan.unread_first}" if scan.unread_count else ""
    return BuiltSegment(entry, (*data, tail), footer, scan.chunks, unread)


def _clip(epochs: Sequence[LeaderEpoch], base: int, end: int) -> tuple[LeaderEpoch, ...]:
    """The part of a history that covers ``[base, end)``, its first start raised to ``base``."""
    clipped = [LeaderEpoch(e.epoch, max(base, e.start_offset)) for e in epochs if e.start_offset < end]
    return tuple(
        e for i, e in enumerate(clipped) if i + 1 == len(clipped) or clipped[i + 1].start_offset > e.start_offset
    )


def _completed(epochs: tuple[LeaderEpoch, ...], found: Sequence[LeaderEpoch]) -> tuple[LeaderEpoch, ...]:
    """``epochs`` and, where they begin later than the range, those ``found`` in its batches before.

    A log forgets the epochs below its log start, which may lie inside the range.
    """
    if not epochs:
        return tuple(found)
    first = epochs[0]
    begun = min([e.start_offset for e in found if e.epoch == first.epoch], default=first.start_offset)
    first = LeaderEpoch(first.epoch, min(begun, first.start_offset))
    return (*(e for e in found if e.epoch < first.epoch), first, *epochs[1:])


def _entry(
    request: SegmentRequest,
    scan: SegmentScan,
    epochs: tuple[LeaderEpoch, ...],
    chunks: Blob,
    *,
    size_bytes: int,
    object_crc32c: int,
) -> Entry:
    return Entry(
        uuid=request.uuid,
        base=request.base,
        end=request.end,
        epoch=request.epoch,
        key=request.key,
        size_bytes=size_bytes,
        data_bytes=scan.data_bytes,
        crc32c=object_crc32c,
        data_crc32c=scan.data_crc32c,
        chunks_position=chunks.position,
        chunks_bytes=chunks.length,
        min_timestamp_ms=-1 if scan.min_timestamp_ms is None else scan.min_timestamp_ms,
        max_timestamp_ms=scan.max_timestamp_ms,
        max_timestamp_offset=scan.max_timestamp_offset,
        batch_count=scan.batch_count,
        record_count=scan.record_count,
        control_batch_count=scan.control_batch_count,
        aborted_count=len(request.aborted),
        codecs=tuple(codec.name.lower() for codec in sorted(scan.codecs)),
        epochs=epochs,
        compacted=request.compacted or scan.has_empty_batch,
        sealed_ms=request.sealed_ms,
        uploaded_ms=request.uploaded_ms,
        broker_id=request.broker_id,
    )
