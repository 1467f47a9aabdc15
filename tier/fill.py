"""Carries out the commands that read the archive: chunks into cache files, look-ups by time, footers, aborted lists."""

from __future__ import annotations

import logging
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from crc32c import crc32c

from stratalog.tier.cache_files import free_bytes_beside, is_disk_full, write_chunk_file
from stratalog.tier.chunk_table import Chunk, ChunkTable
from stratalog.tier.commands import (
    AbortedRead,
    ChunkFill,
    ChunksFilled,
    FillChunks,
    FilledChunk,
    FindTimestamp,
    FooterRead,
    ReadAborted,
    ReadFooter,
    ReadRestartState,
    RestartStateRead,
    TimestampFound,
)
from stratalog.tier.segment_blobs import aborted_from_bytes, epochs_from_bytes
from stratalog.tier.segment_reader import CorruptObject, read_blob, read_chunk, read_chunks, read_object_footer
from stratalog.tier.store import ObjectStore, file_of
from stratalog.wire.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    iter_headers,
    iter_records,
    read_header,
)
from stratalog.wire.errors import Corrupt, StratalogError

__all__ = ["fill_chunks", "find_timestamp", "read_aborted", "read_footer_of", "read_restart_state", "sparse_index"]

log = logging.getLogger(__name__)

_BATCH = Struct(">qi").unpack_from
"""Base offset and length of the batch at a position."""


def fill_chunks(store: ObjectStore, command: FillChunks) -> ChunksFilled:
    """One GET, a CRC-32C check of each chunk, then a temporary file renamed to each path.

    No GET if the files are there already and right. Nothing is written unless every chunk is right, nor if the object
    is a file on the cache's own file system: a copy would be no nearer, so it is served from there. A full disk leaves
    no file and is said in the answer. Raises `CorruptObject`, `OSError` for the cache's disk, and what the store raises.
    """
    shared = _file_beside(store, command)
    kept = [None if shared else _cached(command, fill) for fill in command.chunks]
    pieces = [piece for piece in kept if piece is not None]
    if len(pieces) < len(command.chunks):
        pieces = read_chunks(store, command.key, [fill.chunk for fill in command.chunks])
    indexed = []
    for fill, piece in zip(command.chunks, pieces, strict=True):
        indexed.append(sparse_index(command.key, fill.chunk, piece, command.index_interval_bytes))
    filled = []
    for fill, piece, old, (offsets, positions, next_offset) in zip(command.chunks, pieces, kept, indexed, strict=True):
        if shared:
            start = fill.chunk.position
            filled.append(FilledChunk(shared, len(piece), offsets, positions, next_offset, start, shared=True))
            continue
        if old is None and not _written(command, fill, piece):
            return ChunksFilled(command.key, (), 0)
        filled.append(FilledChunk(fill.path, len(piece), offsets, positions, next_offset))
    free_bytes = -1 if shared else free_bytes_beside(str(Path(command.chunks[0].path).parent))
    return ChunksFilled(command.key, tuple(filled), free_bytes)


def _written(command: FillChunks, fill: ChunkFill, piece: memoryview) -> bool:
    """Write a chunk's file; False if the disk is full, then those of this command that were written are removed."""
    try:
        write_chunk_file(fill.path, piece, sync=command.sync)
    except OSError as error:
        if not is_disk_full(error):
            raise
        log.warning("%s: the disk of the chunk cache is full, %s is not kept", command.partition, fill.path)
        for one in command.chunks:
            Path(one.path).unlink(missing_ok=True)
        return False
    return True


def _file_beside(store: ObjectStore, command: FillChunks) -> str | None:
    """The object's own file if it lies on the cache's file system."""
    path = file_of(store, command.key)
    if path is None:
        return None
    try:
        beside = Path(path).stat().st_dev == Path(command.chunks[0].path).parent.stat().st_dev
    except FileNotFoundError:
        return None  # the GET, or the writing, says what is missing
    return path if beside else None


def _cached(command: FillChunks, fill: ChunkFill) -> memoryview | None:
    """The chunk as its file holds it; None if there is no file, or one that fails its check, which is reported."""
    try:
        data = Path(fill.path).read_bytes()
    except FileNotFoundError:
        return None
    if len(data) == fill.chunk.length and crc32c(data) == fill.chunk.crc32c:
        return memoryview(data)
    log.error(
        "%s: the cache file %s, offsets from %d of %s, fails its check; it is not served but fetched again",
        command.partition,
        fill.path,
        fill.chunk.first_offset,
        command.key,
    )
    return None


def sparse_index(key: str, chunk: Chunk, data: memoryview, interval_bytes: int) -> tuple[bytes, bytes, int]:
    """``(offsets, positions, next offset)`` of a chunk: see `FilledChunk`. Raises `CorruptObject`.

    Of each batch two fields are looked at: a GiB of small batches has a hundred thousand.
    """
    offsets, positions = array("q"), array("i")
    size_bytes = len(data)
    position = last = due = 0
    while position + HEADER_BYTES <= size_bytes:
        base_offset, length = _BATCH(data, position)
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            break
        if position >= due:
            offsets.append(base_offset)
            positions.append(position)
            due = position + interval_bytes
        last, position = position, position + LOG_OVERHEAD_BYTES + length
    if position != size_bytes:
        raise CorruptObject(key, chunk.position + last, chunk.first_offset, "the chunk does not end on a batch border")
    next_offset = read_header(data, last).next_offset if offsets else chunk.first_offset
    return _little_endian(offsets), _little_endian(positions), next_offset


def _headers(key: str, chunk: Chunk, data: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    try:
        yield from iter_headers(data)
    except Corrupt as error:
        raise CorruptObject(key, chunk.position, chunk.first_offset, str(error)) from error


def _little_endian(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def find_timestamp(store: ObjectStore, command: FindTimestamp) -> TimestampFound:
    """The first record, in offset order, with at least this timestamp and offset; exact, as Kafka's ListOffsets.

    Reads the chunk table and then only chunks that may hold it, usually one.
    """
    chunks = read_object_footer(store, command.key).chunks
    assert chunks is not None, "read_object_footer always reads the chunk table"
    index = chunks.find_timestamp(command.timestamp_ms, chunks.find_offset(command.start_offset))
    while index is not None and chunks[index].first_offset < command.end_offset:
        data = memoryview(read_chunk(store, command.key, chunks[index]))
        found = _find_in_chunk(command, chunks[index], data)
        if found is not None:
            return found
        index = chunks.find_timestamp(command.timestamp_ms, index + 1)
    return TimestampFound()


def _find_in_chunk(command: FindTimestamp, chunk: Chunk, data: memoryview) -> TimestampFound | None:
    for position, header in _headers(command.key, chunk, data):
        if header.max_timestamp < command.timestamp_ms or header.next_offset <= command.start_offset:
            continue
        for record in iter_records(data, position):
            if record.offset >= command.end_offset:
                return TimestampFound()
            if record.timestamp_ms >= command.timestamp_ms and record.offset >= command.start_offset:
                return TimestampFound(record.timestamp_ms, record.offset, header.partition_leader_epoch)
    return None


def read_footer_of(store: ObjectStore, command: ReadFooter) -> FooterRead:
    """The chunk table and where the other parts are; the chunk that the reader begins with, if its path is given."""
    footer = read_object_footer(store, command.key)
    assert footer.chunks is not None, "read_object_footer always reads the chunk table"
    blobs = {name: (blob.position, blob.length, blob.crc32c) for name, blob in footer.blobs.items()}
    number, filled = _first_chunk(store, command, footer.chunks)
    return FooterRead(command.key, footer.chunks.to_bytes(), blobs, number, filled)


def _first_chunk(store: ObjectStore, command: ReadFooter, chunks: ChunkTable) -> tuple[int, FilledChunk | None]:
    """Its number, and the chunk. None where that fails: whoever asks for it by itself is told why."""
    if command.path is None or not len(chunks):
        return -1, None
    number = chunks.find_offset(command.offset)
    fill = ChunkFill(chunks[number], str(number).join(command.path))
    try:
        filled = fill_chunks(store, FillChunks(command.partition, command.key, (fill,)))
    except (StratalogError, OSError) as error:
        log.info("%s: chunk %d of %s is asked for again: %s", command.partition, number, command.key, error)
        return number, None
    return number, filled.chunks[0] if filled.chunks else None


def read_aborted(store: ObjectStore, command: ReadAborted) -> AbortedRead:
    """The aborted transactions that overlap the object."""
    footer = read_object_footer(store, command.key)
    return AbortedRead(command.key, aborted_from_bytes(read_blob(store, command.key, footer, "aborted")))


def read_restart_state(store: ObjectStore, command: ReadRestartState) -> RestartStateRead:
    """Leader epochs and producer snapshot as of the object's end."""
    footer = read_object_footer(store, command.key)
    epochs = epochs_from_bytes(read_blob(store, command.key, footer, "leader_epochs"))
    snapshot = read_blob(store, command.key, footer, "producer_snapshot")
    return RestartStateRead(command.key, epochs, snapshot)
