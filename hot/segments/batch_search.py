"""One batch in which a record is looked for by its time: taken out of the log here, opened anywhere.

A batch of 400 KB may hold half a million records, or decompress to a quarter of a gigabyte. So finding the batch, by
indexes and headers, is one step, and opening it another, which may be done in a worker process.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.wire.batch import iter_records, read_header
from stratalog.wire.compression import Codec

__all__ = ["BatchSearch", "TimestampOffset"]

_SMALL_BYTES_MAX: Final = 64 << 10
_SMALL_RECORDS_MAX: Final = 1000


class TimestampOffset(NamedTuple):
    """A record: when, where, and by which leader."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class BatchSearch(Struct, frozen=True):
    """The first record at or after ``timestamp_ms`` in ``[start_offset, end_offset)`` is looked for in ``batch``."""

    batch: bytes
    timestamp_ms: int
    start_offset: int
    end_offset: int
    otherwise: TimestampOffset | None = None
    """The answer where there is no such record."""

    @property
    def next_offset(self) -> int:
        """The first offset behind the batch: where the search goes on."""
        return read_header(self.batch).next_offset

    @property
    def small(self) -> bool:
        """Whether opening the batch takes a few milliseconds at most. Compressed bytes may grow to any size."""
        header = read_header(self.batch)
        return (
            header.codec is Codec.NONE
            and header.size_bytes <= _SMALL_BYTES_MAX
            and header.record_count <= _SMALL_RECORDS_MAX
        )

    def find(self) -> TimestampOffset | None:
        """Open the batch, record by record up to the one. Raises `Corrupt` for a batch that cannot be decoded."""
        epoch = read_header(self.batch).partition_leader_epoch
        for record in iter_records(self.batch):
            if record.timestamp_ms >= self.timestamp_ms and self.start_offset <= record.offset < self.end_offset:
                return TimestampOffset(record.timestamp_ms, record.offset, epoch)
        return self.otherwise
