"""Builds a ``.seg`` object from local log files and verifies every byte of it on the way (format: `tier.footer`).

Memory is bounded: a range of up to 64 MiB is read once into one buffer, which is also what is uploaded; a larger one
is verified through a window and uploaded from its files by ``put_large``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from stratalog.tier.chunk_table import CHUNK_BYTES, ChunkTable
from stratalog.tier.entry import Entry, LeaderEpoch
from stratalog.tier.footer import BLOBS, Blob, Footer, encode_footer, encode_trailer, read_footer
from stratalog.tier.keys import PartitionId
from stratalog.tier.segment_blobs import AbortedTransaction, aborted_to_bytes, epochs_to_bytes
from stratalog.tier.segment_scan import INDEX_INTERVAL_BYTES, SegmentScan
from stratalog.tier.store import Buffer, FileRange
from stratalog.wire.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, read_header
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid

__all__ = [
    "BUFFER_BYTES_MAX",
    "BuiltSegment",
    "CorruptSource",
    "FileRange",
    "SegmentRequest",
    "build_segment",
    "read_footer",
]

BUFFER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Up to here an object is one PUT from one buffer."""
_WINDOW_BYTES: Final = 8 * 1024 * 1024
_INT32_MAX: Final = 2**31 - 1


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


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """What to build: the offsets ``[base, end)``, whose batches are exactly ``source``, in order.

    ``leader_epochs`` is the partition's whole history, oldest first (empty: taken from the batches);
    ``producer_snapshot`` is Kafka's snapshot file cut at ``end``; ``aborted`` are all aborted transactions that
    overlap the range. ``drop_cache`` gives the files' pages back to the kernel as they are read.
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


@dataclass(frozen=True, slots=True)
class BuiltSegment:
    """A verified object, ready to upload: ``source`` in order is its bytes, ``entry.crc32c`` covers them all."""

    entry: Entry
    source: tuple[Buffer | FileRange, ...]
    footer: Footer
    chunks: ChunkTable


def build_segment(request: SegmentRequest, *, buffer_bytes_max: int = BUFFER_BYTES_MAX) -> BuiltSegment:
    """Read, verify and describe the range.

    Raises `CorruptSource` for a damaged batch, a gap or a wrong count, `Invalid` for a range that Kafka's index
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
        elif length <= buffer_bytes_max:
            data.append(_scan_file_whole(request, scan, piece))
        else:
            _scan_file_windows(request, scan, piece)
            data.append(piece)
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
    at = 0
    while at < len(view):
        try:
            at += scan.add(view, at)
        except Corrupt as error:
            due = request.base if scan.batch_count == 0 else scan.next_offset
            raise CorruptSource(request.partition, due, path, position + at, str(error)) from error


def _scan_file_whole(request: SegmentRequest, scan: SegmentScan, piece: FileRange) -> bytearray:
    buffer = _read(request, piece)
    _scan_buffer(request, scan, memoryview(buffer), piece.path, piece.position)
    return buffer


def _scan_file_windows(request: SegmentRequest, scan: SegmentScan, piece: FileRange) -> None:
    """Verify a file range through a window that slides over whole batches and grows only for a larger batch."""
    position, end = piece.position, piece.position + piece.length
    window = _WINDOW_BYTES
    while position < end:
        buffer = _read(request, FileRange(piece.path, position, min(window, end - position)))
        whole = len(buffer) if position + len(buffer) == end else _whole_batches(buffer)
        if not whole:
            window = max(window * 2, read_header(buffer).size_bytes)
            continue
        _scan_buffer(request, scan, memoryview(buffer)[:whole], piece.path, position)
        position += whole
        window = _WINDOW_BYTES


def _whole_batches(buffer: bytearray) -> int:
    """The bytes of the whole batches at the front; a damaged length counts as whole, so that the check finds it."""
    at = 0
    while at + HEADER_BYTES <= len(buffer):
        header = read_header(buffer, at)
        size_bytes = header.size_bytes
        if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES or size_bytes > _INT32_MAX:
            return len(buffer)
        if at + size_bytes > len(buffer):
            break
        at += size_bytes
    return at


def _read(request: SegmentRequest, piece: FileRange) -> bytearray:
    """The bytes of a file range. Raises `CorruptSource` if the file ends before the range does."""
    buffer = bytearray(piece.length)
    into = memoryview(buffer)
    descriptor = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        done = 0
        while done < piece.length:
            count = os.preadv(descriptor, [into[done:]], piece.position + done)
            if not count:
                reason = "the file ends inside the range"
                raise CorruptSource(request.partition, request.base, piece.path, piece.position + done, reason)
            done += count
        if request.drop_cache:
            os.posix_fadvise(descriptor, piece.position, piece.length, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return buffer


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
    return BuiltSegment(entry, (*data, tail), footer, scan.chunks)


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
        compacted=request.compacted,
        sealed_ms=request.sealed_ms,
        uploaded_ms=request.uploaded_ms,
        broker_id=request.broker_id,
    )
