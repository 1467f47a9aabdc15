"""One pass over the batches of a range: verifies each, and collects what the object and its entry say of them.

Pure: batches come in, accumulators fill. Rule 3 of ``docs/safety.md``: nothing reaches the archive that this pass
did not read, check and count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from stratalog.tier.chunk_table import CHUNK_BYTES, Chunk, ChunkTable
from stratalog.tier.crc32c_combine import combine_crc32c
from stratalog.tier.entry import LeaderEpoch
from stratalog.tier.segment_blobs import OFFSET_ENTRY, TIME_ENTRY
from stratalog.wire.batch import HEADER_BYTES, BatchHeader, check_batch
from stratalog.wire.compression import Codec, decompress
from stratalog.wire.errors import Corrupt

__all__ = ["INDEX_INTERVAL_BYTES", "SegmentScan", "measure_records"]

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's ``index.interval.bytes``: bytes of data between two index entries."""
_DECOMPRESSED_BYTES_MAX: Final = 1 << 28

_LENGTH_MIN: Final = 12
"""Zigzag of 6: attributes, two deltas, lengths of key and value, number of headers, a byte each."""
_RUN_MAX: Final = 128
"""Records looked at together; more would be copied in vain where lengths change."""
_RUN_WORTH: Final = 8
_RUN_TRIES: Final = 2
"""After so many runs in a row that were not worth the look, the rest of a batch is walked record by record."""
_NOT_NEGATIVE: Final = bytes(range(0, 256, 2))
"""First bytes of the zigzag varints of 0 and above."""

Buffer = bytes | bytearray | memoryview


def measure_records(payload: bytes) -> tuple[int, int]:
    """``(count, smallest timestamp delta)`` of the uncompressed records of a batch; headers and values are skipped.

    The delta is at most 0. Raises `Corrupt` unless records fill the payload exactly.
    """
    count = lowest = at = 0
    end = len(payload)
    tries = _RUN_TRIES
    try:
        while at < end:
            if tries:
                run, length = _measure_run(payload, at)
                count += run
                at += run * length
                tries = _RUN_TRIES if run >= _RUN_WORTH else tries - 1
                if run:
                    continue
            byte = payload[at]
            at += 1
            if byte >= 0x80:
                byte, at = _long_varint(payload, at, byte)
            if byte & 1 or byte < _LENGTH_MIN:
                raise Corrupt(f"record {count} has a length of {(byte >> 1) ^ -(byte & 1)} bytes")
            delta = payload[at + 1]
            if delta & 1:
                if delta >= 0x80:
                    delta, _ = _long_varint(payload, at + 2, delta)
                lowest = min(lowest, -(delta + 1) >> 1)
            at += byte >> 1
            count += 1
    except IndexError:
        at = end + 1
    if at != end:
        raise Corrupt(f"record {count} reaches beyond the {end} bytes of its batch")
    return count, lowest


def _measure_run(payload: bytes, at: int) -> tuple[int, int]:
    """``(count, bytes of each)`` of records from ``at`` on that have one length and no time before the batch's first.

    Events of one kind are often equally long. Where the first one's length stands again at its end, so does the
    second one's, and so on: a strided slice shows the lengths of many at once. The count may be 0.
    """
    length = payload[at]
    prefix_bytes = 1
    if length >= 0x80:
        second = payload[at + 1]
        length = length & 0x7F | second << 7
        prefix_bytes = 2
        if second >= 0x80:
            return 0, 0
    if length & 1 or length < _LENGTH_MIN:
        return 0, 0
    size_bytes = prefix_bytes + (length >> 1)
    count = min(_RUN_MAX, (len(payload) - at) // size_bytes)
    for position in range(at, at + prefix_bytes):
        count = _equal_at_front(payload[position : at + count * size_bytes : size_bytes])
    deltas = payload[at + prefix_bytes + 1 : at + count * size_bytes : size_bytes]
    if deltas.translate(None, _NOT_NEGATIVE):
        count -= len(deltas.lstrip(_NOT_NEGATIVE))
    return count, size_bytes


def _equal_at_front(values: bytes) -> int:
    """How many are like the first; that all are is what is asked first, because it is quickly told and often so."""
    first = values[:1]
    return len(values) if values == first * len(values) else len(values) - len(values.lstrip(first))


def _long_varint(payload: bytes, at: int, first: int) -> tuple[int, int]:
    value = first & 0x7F
    shift = 7
    while True:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Corrupt(f"a varint at byte {at} has more than ten bytes")


@dataclass(slots=True)
class SegmentScan:
    """Accumulates the range ``[base, end)``; feed it every batch in order, then call :meth:`finish`.

    ``compacted`` allows holes between and inside batches.
    """

    base: int
    end: int
    compacted: bool = False
    chunk_bytes: int = CHUNK_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES

    data_bytes: int = 0
    data_crc32c: int = 0
    """Of all chunks that are closed, so of everything after :meth:`finish`."""
    batch_count: int = 0
    control_batch_count: int = 0
    record_count: int = 0
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int = -1
    max_timestamp_offset: int = -1
    codecs: set[Codec] = field(default_factory=set)
    epochs: list[LeaderEpoch] = field(default_factory=list)
    chunks: ChunkTable = field(default_factory=ChunkTable)
    offset_index: bytearray = field(default_factory=bytearray)
    time_index: bytearray = field(default_factory=bytearray)
    next_offset: int = -1
    """The offset due next; -1 before the first batch."""
    _unindexed_bytes: int = 0
    _indexed_timestamp_ms: int = -1
    _chunk_first_offset: int = -1
    _chunk_position: int = 0
    _chunk_bytes: int = 0
    _chunk_crc32c: int = 0
    _chunk_timestamp_ms: int = -1

    def add(self, buffer: Buffer, at: int) -> int:
        """Take the batch that begins at byte ``at`` of ``buffer``; returns its size in bytes. Raises `Corrupt`."""
        header = check_batch(buffer, at)
        self._check_offsets(header)
        whole = memoryview(buffer)[at : at + header.size_bytes]
        lowest = self._check_records(header, whole)
        self._check_epoch(header)
        self._take_timestamps(header, lowest)
        self._take_index(header)
        self._take_chunk(header, whole)
        self.batch_count += 1
        self.control_batch_count += header.is_control
        self.record_count += header.record_count
        self.data_bytes += header.size_bytes
        self.next_offset = header.next_offset
        return header.size_bytes

    def finish(self) -> None:
        """Close the last chunk and the time index. Raises `Corrupt` unless the batches end where the range does."""
        self._close_chunk()
        if not self.batch_count:
            raise Corrupt(f"there is no batch between the offsets {self.base} and {self.end}")
        if self.next_offset != self.end and not (self.compacted and self.next_offset < self.end):
            raise Corrupt(f"the last batch ends at offset {self.next_offset}, the range at {self.end}")
        self._index_time()

    def _check_offsets(self, header: BatchHeader) -> None:
        expected = self.base if self.next_offset < 0 else self.next_offset
        if header.base_offset != expected and not (self.compacted and header.base_offset > expected):
            raise Corrupt(f"the batch has base offset {header.base_offset}, {expected} is due")
        if header.last_offset_delta < 0 or header.next_offset > self.end:
            raise Corrupt(f"the batch ends at offset {header.next_offset}, the range at {self.end}")

    def _check_records(self, header: BatchHeader, whole: memoryview) -> int:
        """Count the records, note their codec; returns the smallest timestamp delta."""
        payload = whole[HEADER_BYTES:]
        codec = header.codec
        self.codecs.add(codec)
        plain = bytes(payload) if codec is Codec.NONE else decompress(codec, payload, _DECOMPRESSED_BYTES_MAX)
        count, lowest = measure_records(plain)
        holes = header.last_offset_delta + 1 - header.record_count
        if count != header.record_count or holes < 0 or (holes and not self.compacted):
            raise Corrupt(
                f"the batch holds {count} records, its header says {header.record_count} over "
                f"{header.last_offset_delta + 1} offsets"
            )
        return lowest

    def _check_epoch(self, header: BatchHeader) -> None:
        epoch = header.partition_leader_epoch
        if not self.epochs:
            self.epochs.append(LeaderEpoch(epoch, self.base))
        elif epoch < self.epochs[-1].epoch:
            raise Corrupt(f"the leader epoch falls from {self.epochs[-1].epoch} to {epoch}")
        elif epoch > self.epochs[-1].epoch:
            self.epochs.append(LeaderEpoch(epoch, header.base_offset))

    def _take_timestamps(self, header: BatchHeader, lowest: int) -> None:
        first = header.max_timestamp if header.is_log_append_time else header.base_timestamp + lowest
        if header.record_count and (self.min_timestamp_ms is None or first < self.min_timestamp_ms):
            self.min_timestamp_ms = first
        if header.max_timestamp > self.max_timestamp_ms or self.max_timestamp_offset < 0:
            self.max_timestamp_ms = header.max_timestamp
            self.max_timestamp_offset = header.last_offset

    def _take_index(self, header: BatchHeader) -> None:
        if self._unindexed_bytes > self.index_interval_bytes:
            self.offset_index += OFFSET_ENTRY.pack(header.last_offset - self.base, self.data_bytes)
            self._index_time()
            self._unindexed_bytes = 0
        self._unindexed_bytes += header.size_bytes

    def _index_time(self) -> None:
        if self.max_timestamp_ms > self._indexed_timestamp_ms:
            self.time_index += TIME_ENTRY.pack(self.max_timestamp_ms, self.max_timestamp_offset - self.base)
            self._indexed_timestamp_ms = self.max_timestamp_ms

    def _take_chunk(self, header: BatchHeader, whole: memoryview) -> None:
        size_bytes = header.size_bytes
        if self._chunk_bytes + size_bytes > self.chunk_bytes:
            self._close_chunk()
        if not self._chunk_bytes:
            self._chunk_first_offset = header.base_offset
            self._chunk_position = self.data_bytes
            self._chunk_timestamp_ms = header.max_timestamp
        self._chunk_crc32c = crc32c(whole, self._chunk_crc32c)
        self._chunk_bytes += size_bytes
        self._chunk_timestamp_ms = max(self._chunk_timestamp_ms, header.max_timestamp)

    def _close_chunk(self) -> None:
        if self._chunk_bytes:
            self.chunks.append(
                Chunk(
                    self._chunk_first_offset,
                    self._chunk_position,
                    self._chunk_bytes,
                    self._chunk_crc32c,
                    self._chunk_timestamp_ms,
                )
            )
            self.data_crc32c = combine_crc32c(self.data_crc32c, self._chunk_crc32c, self._chunk_bytes)
        self._chunk_bytes = self._chunk_crc32c = 0
