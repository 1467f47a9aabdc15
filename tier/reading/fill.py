"""Carries out the commands that read the archive: chunks into cache files, look-ups by time, footers, aborted lists."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from crc32c import crc32c

from stratalog.tier.manifests.second_timeline import BatchMark
from stratalog.tier.messages.commands import (
    AbortedRead,
    ChunkFill,
    ChunksFilled,
    FillChunks,
    FilledChunk,
    FindLargestTimestamp,
    FindTimestamp,
    FooterRead,
    LastBatchRead,
    ReadAborted,
    ReadFooter,
    ReadLastBatch,
    ReadRestartState,
    RestartStateRead,
    TimestampFound,
)
from stratalog.tier.objects.aborted_ranges import AbortedRanges
from stratalog.tier.objects.chunk_table import Chunk, ChunkTable
from stratalog.tier.objects.segment_blobs import aborted_from_bytes, epochs_from_bytes
from stratalog.tier.objects.segment_reader import (
    CorruptObject,
    look_at_chunks,
    read_blob,
    read_chunk,
    read_chunks,
    read_object_footer,
)
from stratalog.tier.objects.sparse_index import SparseIndex
from stratalog.tier.reading.cache_files import free_bytes_beside, is_disk_full, write_chunk_file
from stratalog.tier.stores.file_backed import file_of
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.batch import BatchHeader, iter_headers, iter_records
from stratalog.wire.errors import Corrupt, StratalogError

__all__ = ["fill_chunks", "find_timestamp", "read_aborted", "read_footer_of", "read_last_batch", "read_restart_state"]

log = logging.getLogger(__name__)


def fill_chunks(store: ObjectStore, command: FillChunks) -> ChunksFilled:
    """One GET, a CRC-32C check of each chunk, then a temporary file renamed to each path.

    No GET if the files are there already and right. No file is written unless every chunk is right, nor if the object
    is a file on the cache's own file system: a copy would be no nearer, so it is served from there. A full disk leaves
    no file and is said in the answer. Raises `CorruptObject`, `OSError` for the cache's disk, and what the store raises.
    """
    shared = _file_beside(store, command)
    if shared is not None:
        return _shared(store, command, shared)
    kept = [_cached(command, fill) for fill in command.chunks]
    pieces = [piece for piece in kept if piece is not None]
    if len(pieces) < len(command.chunks):
        pieces = read_chunks(store, command.key, [fill.chunk for fill in command.chunks])
    indexes = []
    for fill, piece in zip(command.chunks, pieces, strict=True):
        index = SparseIndex(command.index_interval_bytes)
        index.feed(piece)
        indexes.append(_finished(index, command.key, fill.chunk))
    filled = []
    for fill, piece, old, (offsets, positions, next_offset) in zip(command.chunks, pieces, kept, indexes, strict=True):
        if old is None and not _written(command, fill, piece):
            return ChunksFilled(command.key, (), 0)
        filled.append(FilledChunk(fill.path, len(piece), offsets, positions, next_offset))
    return ChunksFilled(command.key, tuple(filled), free_bytes_beside(str(Path(command.chunks[0].path).parent)))


def _shared(store: ObjectStore, command: FillChunks, path: str) -> ChunksFilled:
    """The chunks where they lie, in the object's own file: they are only looked at."""
    chunks = [fill.chunk for fill in command.chunks]
    indexes = look_at_chunks(store, command.key, chunks, lambda: SparseIndex(command.index_interval_bytes))
    filled = []
    for chunk, index in zip(chunks, indexes, strict=True):
        offsets, positions, next_offset = _finished(index, command.key, chunk)
        filled.append(FilledChunk(path, chunk.length, offsets, positions, next_offset, chunk.position, shared=True))
    return ChunksFilled(command.key, tuple(filled), -1)


def _finished(index: SparseIndex, key: str, chunk: Chunk) -> tuple[bytes, bytes, int]:
    try:
        return index.finish(chunk.first_offset)
    except Corrupt as error:
        raise CorruptObject(key, chunk.position + index.position, chunk.first_offset, str(error)) from error


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


def _headers(key: str, chunk: Chunk, data: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    try:
        yield from iter_headers(data)
    except Corrupt as error:
        raise CorruptObject(key, chunk.position, chunk.first_offset, str(error)) from error


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
        try:
            for record in iter_records(data, position):
                if record.offset >= command.end_offset:
                    return TimestampFound()
                if record.timestamp_ms >= command.timestamp_ms and record.offset >= command.start_offset:
                    return TimestampFound(record.timestamp_ms, record.offset, header.partition_leader_epoch)
        except Corrupt:  # its producer sent it like that; a later answer would pass over what may be in it
            return _at_batch(header, command.start_offset, command.end_offset)
    return None


def _at_batch(header: BatchHeader, start: int, end: int) -> TimestampFound:
    """The answer for a batch that cannot be opened, by its header: its first offset within the bounds, and its largest time."""
    offset = max(header.base_offset, start)
    return (
        TimestampFound(header.max_timestamp, offset, header.partition_leader_epoch)
        if offset < end
        else TimestampFound()
    )


def find_largest_timestamp(store: ObjectStore, command: FindLargestTimestamp) -> TimestampFound:
    """The first record between two offsets with the largest timestamp; none if no record there has one.

    Reads the chunk table and the chunk that holds it; those of the offsets as well, if their largest may lie beyond these.
    """
    chunks = read_object_footer(store, command.key).chunks
    assert chunks is not None, "read_object_footer always reads the chunk table"
    start, end = command.start_offset, command.end_offset
    behind = [chunks[number] for number in range(chunks.find_offset(start), len(chunks))]
    candidates = [chunk for chunk in behind if chunk.first_offset < end]
    best = TimestampFound()
    for chunk in sorted(candidates, key=lambda one: one.max_timestamp_ms, reverse=True):
        if chunk.max_timestamp_ms <= best.timestamp_ms:
            break
        data = memoryview(read_chunk(store, command.key, chunk))
        for position, header in _headers(command.key, chunk, data):
            if header.next_offset <= start or header.max_timestamp <= best.timestamp_ms:
                continue
            try:
                for record in iter_records(data, position):
                    if record.timestamp_ms > best.timestamp_ms and start <= record.offset < end:
                        best = TimestampFound(record.timestamp_ms, record.offset, header.partition_leader_epoch)
            except Corrupt:
                best = max(best, _at_batch(header, start, end), key=lambda one: one.timestamp_ms)
    return best


def read_footer_of(store: ObjectStore, command: ReadFooter) -> FooterRead:
    """The chunk table and where the other parts are; the chunk that the reader begins with, if its path is given."""
    footer = read_object_footer(store, command.key)
    assert footer.chunks is not None, "read_object_footer always reads the chunk table"
    blobs = {name: (blob.position, blob.length, blob.crc32c) for name, blob in footer.blobs.items()}
    number, filled = _first_chunk(store, command, footer.chunks)
    return FooterRead(command.key, footer.chunks.to_bytes(), blobs, number, filled)


def _first_chunk(store: ObjectStore, command: ReadFooter, chunks: ChunkTable) -> tuple[int, FilledChunk | None]:
    """Its number, and the chunk. None where that fails: a request for that chunk alone gets the error."""
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
    aborted = aborted_from_bytes(read_blob(store, command.key, footer, "aborted"))
    return AbortedRead(command.key, AbortedRanges.of(aborted))


def read_restart_state(store: ObjectStore, command: ReadRestartState) -> RestartStateRead:
    """Leader epochs and producer snapshot as of the object's end."""
    footer = read_object_footer(store, command.key)
    epochs = epochs_from_bytes(read_blob(store, command.key, footer, "leader_epochs"))
    snapshot = read_blob(store, command.key, footer, "producer_snapshot")
    return RestartStateRead(command.key, epochs, snapshot)


def read_last_batch(store: ObjectStore, command: ReadLastBatch) -> LastBatchRead:
    """The last batch of an object, by its footer and its last chunk; none if the object was made of others' records.

    Raises `CorruptObject`, and what the store raises.
    """
    footer = read_object_footer(store, command.key)
    if footer.entry.compacted:
        return LastBatchRead(command.key, None)
    assert footer.chunks is not None
    chunk = footer.chunks[len(footer.chunks) - 1]
    headers = deque((header for _, header in iter_headers(read_chunk(store, command.key, chunk))), maxlen=1)
    if not headers:
        raise CorruptObject(command.key, chunk.position, chunk.first_offset, "its last chunk has no batch")
    header = headers[0]
    return LastBatchRead(command.key, BatchMark(header.base_offset, header.next_offset, header.crc))
