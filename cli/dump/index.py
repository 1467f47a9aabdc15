"""Offset, time and transaction indexes and producer snapshots as rows; indexes are held against the log beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stratalog.cli.dump.row import Row, problem, row
from stratalog.hot.segments.index import OffsetIndex, TimeIndex
from stratalog.hot.segments.scan import scan_headers
from stratalog.hot.segments.transaction_index import aborted_from_bytes
from stratalog.hot.state.producer_snapshot import snapshot_from_bytes
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import HEADER_BYTES, BatchHeader, read_header

__all__ = ["dump_offset_index", "dump_producer_snapshot", "dump_time_index", "dump_transaction_index"]

MAGIC: Final = 2


def dump_offset_index(data: bytes, base_offset: int, log: Path | None) -> Iterator[Row]:
    """Entries of an ``.index``; each must name a batch of the log that ends with its offset. Raises `Corrupt`."""
    index = OffsetIndex.from_bytes(base_offset, _filled(data, 8))
    for relative, position in zip(index.relative_offsets, index.positions, strict=True):
        offset = base_offset + relative
        yield row("entry", offset=offset, position=position)
        if log is not None:
            yield from _checked_position(log, offset, position)
    yield row("summary", entries=len(index), checked_against=None if log is None else log.name)


def _filled(data: bytes, entry_bytes: int) -> bytes:
    """Without the zeros behind the last entry: Kafka allocates an active segment's indexes in advance."""
    end = len(data)
    while end >= entry_bytes and data[end - entry_bytes : end] == bytes(entry_bytes) and end > entry_bytes:
        end -= entry_bytes
    return data[:end] if end != entry_bytes or any(data[:entry_bytes]) else b""


def _checked_position(log: Path, offset: int, position: int) -> Iterator[Row]:
    with log.open("rb") as file:
        file.seek(position)
        head = file.read(HEADER_BYTES)
    header: BatchHeader | None = read_header(head) if len(head) == HEADER_BYTES else None
    if header is None or header.magic != MAGIC:
        yield problem(f"no batch of {log.name} begins at position {position}", position=position, offset=offset)
    elif header.last_offset != offset:
        yield problem(
            f"the batch at position {position} of {log.name} ends with offset {header.last_offset}",
            position=position,
            offset=offset,
        )


def dump_time_index(data: bytes, base_offset: int, log: Path | None) -> Iterator[Row]:
    """Entries of a ``.timeindex``; each must be the largest time up to its offset in the log. Raises `Corrupt`."""
    index = TimeIndex.from_bytes(base_offset, _filled(data, 12))
    largest = {} if log is None else _largest_times(log)
    for timestamp_ms, relative in zip(index.timestamps, index.relative_offsets, strict=True):
        offset = base_offset + relative
        yield row("entry", timestamp=timestamp_ms, offset=offset)
        if log is not None and largest.get(offset) != timestamp_ms:
            found = f"the largest time up to there is {largest[offset]}" if offset in largest else "no batch ends there"
            yield problem(f"time {timestamp_ms} is not what {log.name} says: {found}", offset=offset)
    yield row("summary", entries=len(index), checked_against=None if log is None else log.name)


def _largest_times(log: Path) -> dict[int, int]:
    """For the last offset of each batch the largest time of any batch so far."""
    largest: dict[int, int] = {}
    highest = -1
    file = RealFilesystem().open_read(str(log))
    try:
        for _, header in scan_headers(file, 0, file.size_bytes()):
            highest = max(highest, header.max_timestamp)
            largest[header.last_offset] = highest
    finally:
        file.close()
    return largest


def dump_transaction_index(data: bytes) -> Iterator[Row]:
    """The aborted transactions of a ``.txnindex``. Raises `Corrupt`."""
    aborted = aborted_from_bytes(data)
    for one in aborted:
        yield row("aborted", **one._asdict())
    yield row("summary", entries=len(aborted))


def dump_producer_snapshot(data: bytes) -> Iterator[Row]:
    """The producers of a ``.snapshot``, its CRC checked. Raises `Corrupt`."""
    producers = snapshot_from_bytes(data)
    for one in producers:
        yield row(
            "producer",
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            last_sequence=one.last_sequence,
            last_offset=one.last_offset,
            last_timestamp=one.last_timestamp_ms,
            coordinator_epoch=one.coordinator_epoch,
            transaction_first_offset=one.transaction_first_offset,
        )
    yield row("summary", producers=len(producers))
