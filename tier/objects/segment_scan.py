"""One pass over the batches of a range: verifies each, and collects what the object and its entry say of them.

Pure: batches come in, accumulators fill. Rule 3 of ``docs/safety.md``: nothing reaches the archive that this pass
did not read and check. Records are counted, too; where they are not what their header says although the batch's CRC is
right, their producer has sent them like that.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c
from msgspec import Struct, field

from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.objects.chunk_table import CHUNK_BYTES, Chunk, ChunkTable
from stratalog.tier.objects.record_runs import RecordCounter
from stratalog.tier.objects.segment_blobs import OFFSET_ENTRY, TIME_ENTRY
from stratalog.tier.stores.crc32c_combine import combine_crc32c
from stratalog.wire.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, check_fields
from stratalog.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from stratalog.wire.errors import Corrupt

__all__ = ["INDEX_INTERVAL_BYTES", "SegmentScan"]

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's ``index.interval.bytes``: bytes of data between two index entries."""

Buffer = bytes | bytearray | memoryview


class SegmentScan(Struct):
    """Accumulates the range ``[base, end)``; feed it every batch in order, then call :meth:`finish`.

    ``compacted`` allows holes between and inside batches. A batch without records is a hole in any log: a start leaves it in the
    place of offsets that the disk has lost.
    """

    base: int
    end: int
    compacted: bool = False
    chunk_bytes: int = CHUNK_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES

    data_bytes: int = 0
    data_crc32c: int = 0
    """Sum over all chunks that are closed, so over everything after :meth:`finish`."""
    batch_count: int = 0
    control_batch_count: int = 0
    has_empty_batch: bool = False
    record_count: int = 0
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int = -1
    max_timestamp_offset: int = -1
    unread_count: int = 0
    """Batches whose records are not what their header says, or cannot be opened."""
    unread_first: str = ""
    """The first of them, and why."""
    codecs: set[Codec] = field(default_factory=set)
    epochs: list[LeaderEpoch] = field(default_factory=list)
    chunks: ChunkTable = field(default_factory=ChunkTable)
    offset_index: bytearray = field(default_factory=bytearray)
    time_index: bytearray = field(default_factory=bytearray)
    next_offset: int = -1
    """The offset due next; -1 before the first batch."""
    _counter: RecordCounter = field(default_factory=RecordCounter)
    _epoch: int | None = None
    _attributes: int | None = None
    """Header of the batch before; the next three hold its fields."""
    _codec: Codec = Codec.NONE
    _control: bool = False
    _own_time: bool = False
    _unindexed_bytes: int = 0
    _indexed_timestamp_ms: int = -1
    _chunk_first_offset: int = -1
    _chunk_position: int = 0
    _chunk_bytes: int = 0
    _chunk_crc32c: int = 0
    _chunk_timestamp_ms: int = -1

    def add(self, buffer: Buffer, at: int) -> int:
        """Take the batch that begins at byte ``at`` of ``buffer``; returns its size in bytes. Raises `Corrupt`."""
        view = memoryview(buffer)
        end, _ = self._take(view, at, at)
        self._chunk_crc32c = crc32c(view[at:end], self._chunk_crc32c)
        return end - at

    def add_all(self, view: memoryview) -> None:
        """Take every batch of ``view``. Raises `Corrupt`; what was taken before counts in ``data_bytes``."""
        at = begin = 0
        try:
            while at < len(view):
                at, begin = self._take(view, at, begin)
        finally:
            self._chunk_crc32c = crc32c(view[begin:at], self._chunk_crc32c)

    def finish(self) -> None:
        """Close the last chunk and the time index. Raises `Corrupt` unless the batches end where the range does."""
        self._close_chunk()
        if not self.batch_count:
            raise Corrupt(f"there is no batch between the offsets {self.base} and {self.end}")
        if self.next_offset != self.end and not (self.compacted and self.next_offset < self.end):
            raise Corrupt(f"the last batch ends at offset {self.next_offset}, the range at {self.end}")
        self._index_time()

    def _take(self, view: memoryview, at: int, begin: int) -> tuple[int, int]:
        """Take the batch at ``at``; returns where it ends, and from where on bytes are missing in the chunk's CRC.

        Up to now that was ``begin``: bytes are counted many batches at a time.
        """
        fields = check_fields(view, at)
        base_offset, length, epoch, _, _, attributes, last_delta, first_ms, largest_ms, _, _, _, record_count = fields
        size_bytes = length + LOG_OVERHEAD_BYTES
        self._check_offsets(base_offset, last_delta)
        if attributes != self._attributes:
            self._note_attributes(BatchHeader._make(fields))
        self._check_count(view[at + HEADER_BYTES : at + size_bytes], record_count, last_delta)
        lowest = self._look_into(view[at + HEADER_BYTES : at + size_bytes], base_offset, record_count)
        if epoch != self._epoch:
            self._check_epoch(epoch, base_offset)
        if record_count:
            first_ms = largest_ms if self._own_time else first_ms + lowest
            if self.min_timestamp_ms is None or first_ms < self.min_timestamp_ms:
                self.min_timestamp_ms = first_ms
        if largest_ms > self.max_timestamp_ms or self.max_timestamp_offset < 0:
            self.max_timestamp_ms, self.max_timestamp_offset = largest_ms, base_offset + last_delta
        begin = self._place(view, at, begin, fields)
        self.batch_count += 1
        self.control_batch_count += self._control
        self.record_count += record_count
        self.data_bytes += size_bytes
        self.next_offset = base_offset + last_delta + 1
        return at + size_bytes, begin

    def _check_offsets(self, base_offset: int, last_delta: int) -> None:
        expected = self.next_offset if self.batch_count else self.base
        if base_offset != expected and not (self.compacted and base_offset > expected):
            raise Corrupt(f"the batch has base offset {base_offset}, {expected} is due")
        if last_delta < 0 or base_offset + last_delta >= self.end:
            raise Corrupt(f"the batch ends at offset {base_offset + last_delta + 1}, the range at {self.end}")

    def _note_attributes(self, header: BatchHeader) -> None:
        self._codec = header.codec
        self._control = header.is_control
        self._own_time = header.is_log_append_time
        self._attributes = header.attributes
        self.codecs.add(self._codec)

    def _check_count(self, payload: memoryview, record_count: int, last_delta: int) -> None:
        """Compare what the header says with itself: appends and the cleaner see to that."""
        holes = last_delta + 1 - record_count
        self.has_empty_batch |= not record_count
        if holes < 0 or (holes and record_count and not self.compacted) or (not record_count and len(payload)):
            raise Corrupt(
                f"the batch has {len(payload)} bytes of records, its header says {record_count} over {last_delta + 1} offsets"
            )

    def _look_into(self, payload: memoryview, base_offset: int, record_count: int) -> int:
        """Count the records; returns the smallest timestamp delta.

        A batch that cannot be opened, or holds other records than its header says, is archived as it is, because its CRC says
        that its producer sent it: the header is believed, and the first record's time taken for the smallest. Readers say what
        it is; one such batch must not keep a log from its archive.
        """
        try:
            if self._codec is not Codec.NONE:
                payload = memoryview(decompress(self._codec, payload, DECOMPRESSED_BYTES_MAX))
            count, lowest = self._counter.measure(payload)
            if count != record_count:
                raise Corrupt(f"it holds {count} records, its header says {record_count}")
        except Corrupt as error:
            self.unread_count += 1
            self.unread_first = self.unread_first or f"the one at offset {base_offset}: {error}"
            return 0
        return lowest

    def _check_epoch(self, epoch: int, base_offset: int) -> None:
        if not self.epochs:
            self.epochs.append(LeaderEpoch(epoch, self.base))
        elif epoch < self.epochs[-1].epoch:
            raise Corrupt(f"the leader epoch falls from {self.epochs[-1].epoch} to {epoch}")
        else:
            self.epochs.append(LeaderEpoch(epoch, base_offset))
        self._epoch = epoch

    def _place(self, view: memoryview, at: int, begin: int, fields: tuple[int, ...]) -> int:
        """Note where the batch at ``at`` lies: for the index, and in which chunk. Returns ``begin`` for the next one."""
        size_bytes, largest_ms = fields[1] + LOG_OVERHEAD_BYTES, fields[8]
        if self._unindexed_bytes > self.index_interval_bytes:
            self._index(fields[0] + fields[6])
        self._unindexed_bytes += size_bytes
        if self._chunk_bytes + size_bytes > self.chunk_bytes:
            self._chunk_crc32c = crc32c(view[begin:at], self._chunk_crc32c)
            self._close_chunk()
            begin = at
        if not self._chunk_bytes:
            self._chunk_first_offset = fields[0]
            self._chunk_position = self.data_bytes
            self._chunk_timestamp_ms = largest_ms
        elif largest_ms > self._chunk_timestamp_ms:
            self._chunk_timestamp_ms = largest_ms
        self._chunk_bytes += size_bytes
        return begin

    def _index(self, last_offset: int) -> None:
        self.offset_index += OFFSET_ENTRY.pack(last_offset - self.base, self.data_bytes)
        self._index_time()
        self._unindexed_bytes = 0

    def _index_time(self) -> None:
        if self.max_timestamp_ms > self._indexed_timestamp_ms:
            self.time_index += TIME_ENTRY.pack(self.max_timestamp_ms, self.max_timestamp_offset - self.base)
            self._indexed_timestamp_ms = self.max_timestamp_ms

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
