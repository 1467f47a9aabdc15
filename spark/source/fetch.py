"""Reading slices of objects in an executor: ranged GETs that run ahead of the decoder, every byte checked.

A small object comes whole in one GET. From a larger one the tail (aborted transactions, chunk table, footer) is read
first, by one suffix GET, and then the chunks that the slice needs, some megabytes per GET. At most `_IN_FLIGHT` ranges
wait in memory, so a task holds some tens of megabytes however large its objects are.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa
from crc32c import crc32c
from msgspec import Struct

from stratalog.spark.archive_store import open_archive
from stratalog.spark.rows.decode import AbortedTransactions, OnDamage, Window, decode_batches
from stratalog.spark.rows.salvage import DamagedPart, salvage
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.quarantine import BadRange, Quarantine
from stratalog.tier.objects.chunk_table import Chunk, ChunkTable
from stratalog.tier.objects.footer import Footer, read_footer
from stratalog.tier.objects.segment_blobs import aborted_from_bytes
from stratalog.tier.planning.slices import RANGE_BYTES, WHOLE_BYTES_MAX, SegmentSlice, chunk_runs, tail_bytes
from stratalog.tier.stores.checked_read import READS_MAX, read_checked
from stratalog.tier.stores.store import InvalidRange, NotFound, ObjectStore
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import base_topic

__all__ = [
    "ChunkData",
    "OpenedSegment",
    "ReadRequest",
    "chunk_bytes",
    "open_quarantine",
    "open_segment",
    "read_slices",
]

_T = TypeVar("_T")
OnDamagedPart: TypeAlias = Callable[[DamagedPart, int], None]

_IN_FLIGHT: Final = 3
_OPENED_AHEAD: Final = 2

_logger = logging.getLogger("stratalog.spark")


class ReadRequest(Struct, frozen=True):
    """Settings shared by all tasks of one query; it travels with the reader."""

    columns: tuple[str, ...]
    required: frozenset[str] = frozenset()
    batch_bytes: int = 2 << 20
    read_committed: bool = True
    fail_on_data_loss: bool = True


class OpenedSegment(Struct, frozen=True):
    """The verified tail of the object behind ``piece``; ``data`` is the whole object where it came in one GET."""

    piece: SegmentSlice
    chunks: ChunkTable
    aborted: AbortedTransactions
    data: bytes | None


class ChunkData(NamedTuple):
    """Record batches: the bytes ``[start, end)`` of ``data``, each of them checked."""

    data: bytes
    start: int
    end: int


class _Range(NamedTuple):
    """Neighbouring chunks of one object on their way, and which of their records are rows."""

    piece: SegmentSlice
    window: Window
    start_offset: int
    end_offset: int
    data: Callable[[], ChunkData]


class _Fetches:
    """Fetches that run ahead in threads. One that nothing can be done beside runs where its result is asked for.

    A micro-batch of a stream is a GET or two: to start a thread for it and to wait for that costs more than they do.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def begin(self, fetch: Callable[[], _T], *, alone: bool) -> Callable[[], _T]:
        """A call that gives the result, or raises what ``fetch`` raises; to be called once."""
        if alone:
            return fetch
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_IN_FLIGHT, thread_name_prefix="stratalog-fetch")
        return self._threads.submit(fetch).result

    def close(self) -> None:
        """Wait for those that run, and begin no other."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)


def open_quarantine(url: str, options: Mapping[str, str]) -> Quarantine:
    """The quarantine at ``url``, a directory that is made or a bucket; ``options`` count only for a bucket of S3."""
    return Quarantine(open_archive(url, options if url.startswith("s3") else {}, create=True))


def read_slices(
    store: ObjectStore,
    slices: Sequence[SegmentSlice],
    request: ReadRequest,
    quarantine: Quarantine | None = None,
    on_unreadable: OnDamage | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``slices``, in their order.

    Raises `DataLoss` for an object that is not there (a warning instead, if the request says so) and `Corrupt` for
    one that is not what was uploaded; both name partition, offsets and key. With a ``quarantine`` that receives what is
    damaged, and the rest is read. Without one, ``on_unreadable`` gets the batches that are as their producer sent them (the
    CRC of their chunk holds) and have no records that can be read, as far as they lie in their slice; damage is an error.
    """
    fetches = _Fetches()
    try:
        for each in _ranges(fetches, store, slices, request, quarantine):
            aside = _Aside(quarantine, store.url, each.piece) if quarantine else None
            found = _content(each, request, aside)
            if found is None:
                continue
            with _told(each.piece):
                yield from decode_batches(
                    found.data,
                    each.piece.topic_partition,
                    request.columns,
                    each.window,
                    batch_bytes=request.batch_bytes,
                    required=request.required,
                    span=(found.start, found.end),
                    checked=True,
                    on_damage=aside.records if aside else _cut_to(each.piece, on_unreadable),
                )
    finally:
        fetches.close()


def _cut_to(piece: SegmentSlice, told: OnDamage | None) -> OnDamage | None:
    """Another slice tells of its own part of a batch, or can read that."""
    if told is None:
        return None

    def cut(start_offset: int, end_offset: int, reason: str) -> None:
        told(max(start_offset, piece.start_offset), min(end_offset, piece.end_offset), reason)

    return cut


class _Aside:
    """Tells the quarantine of what is damaged in one slice, as far as rows of the slice are lost."""

    def __init__(self, quarantine: Quarantine, archive: str, piece: SegmentSlice) -> None:
        self._quarantine = quarantine
        self._archive = archive
        self._piece = piece

    def part(self, part: DamagedPart, position: int | None = None) -> None:
        """Damaged bytes, ``position`` where those that were looked at begin; None if it is not known which they are."""
        piece = self._piece
        if part.end_offset <= piece.start_offset or part.start_offset >= piece.end_offset:
            return
        known = position is not None
        self._quarantine.add(
            BadRange(
                topic=piece.topic,
                partition=piece.partition,
                start_offset=part.start_offset,
                end_offset=part.end_offset,
                archive=self._archive,
                key=piece.key,
                position=(position or 0) + part.position if known else None,
                length=part.length if known else None,
                reason=part.reason,
            )
        )

    def records(self, start_offset: int, end_offset: int, reason: str) -> None:
        """Records that cannot be decoded, or cannot be had."""
        self.part(DamagedPart(start_offset, end_offset, 0, 0, reason))


def _ranges(
    fetches: _Fetches,
    store: ObjectStore,
    slices: Sequence[SegmentSlice],
    request: ReadRequest,
    quarantine: Quarantine | None,
) -> Iterator[_Range]:
    """The ranges to decode, with up to `_IN_FLIGHT` of them and the tails of the next objects on their way."""
    waiting: deque[_Range] = deque()
    opening: deque[tuple[SegmentSlice, Callable[[], OpenedSegment]]] = deque()
    coming, only = iter(slices), len(slices) == 1
    while True:
        for piece in coming:
            opening.append((piece, fetches.begin(partial(open_segment, store, piece), alone=only)))
            if len(opening) > _OPENED_AHEAD:
                break
        if not opening:
            break
        piece, wait = opening.popleft()
        aside = _Aside(quarantine, store.url, piece) if quarantine else None
        opened = _had(wait, request, aside, piece.start_offset, piece.end_offset)
        if opened is None:
            continue
        window = Window(
            piece.start_offset,
            piece.end_offset,
            aborted=opened.aborted if request.read_committed else None,
        )
        runs = list(chunk_runs(opened.chunks, piece, RANGE_BYTES))
        for chunks in runs:
            fetch = partial(chunk_bytes, store, opened, chunks, aside.part if aside else None)
            data = fetches.begin(fetch, alone=only and len(runs) == 1)
            end_offset = _chunk_end(opened, chunks[-1])
            waiting.append(_Range(piece, window, chunks[0].first_offset, end_offset, data))
            if len(waiting) > _IN_FLIGHT:
                yield waiting.popleft()
    yield from waiting


def _content(each: _Range, request: ReadRequest, aside: _Aside | None) -> ChunkData | None:
    start, end = max(each.start_offset, each.piece.start_offset), min(each.end_offset, each.piece.end_offset)
    return _had(each.data, request, aside, start, end)


def _had(
    wait: Callable[[], _T], request: ReadRequest, aside: _Aside | None, start_offset: int, end_offset: int
) -> _T | None:
    """The fetched object; None for a loss that is accepted, and for damage that is left out."""
    try:
        return wait()
    except DataLoss as loss:
        if request.fail_on_data_loss:
            raise
        _logger.warning("skipped, because failOnDataLoss is false: %s", loss)
    except Corrupt as error:
        if aside is None:
            raise
        aside.records(start_offset, end_offset, str(error))
    return None


@contextmanager
def _told(piece: SegmentSlice) -> Iterator[None]:
    """Errors name the partition, the offsets and the key."""
    where = f"{piece.topic_partition}, offsets {piece.start_offset} to {piece.end_offset - 1}, object {piece.key}"
    try:
        yield
    except NotFound as error:
        raise DataLoss(
            f"{where}: the object that the manifest names is not in {error.url}. If retention removed it while the "
            f"query ran, run the query again; to read what there is, set option 'failOnDataLoss' to 'false'"
        ) from error
    except (Corrupt, InvalidRange) as error:
        raise Corrupt(f"{where}: {error}") from error


def open_segment(store: ObjectStore, piece: SegmentSlice) -> OpenedSegment:
    """Read and verify the tail of the object behind ``piece``.

    Raises `DataLoss` if it is not there, and `Corrupt` if it is not the one that the manifest describes, also when it is
    fetched again: bytes that were damaged on their way are no damage.
    """
    return read_checked(lambda: _opened_once(store, piece))


def _opened_once(store: ObjectStore, piece: SegmentSlice) -> OpenedSegment:
    with _told(piece):
        suffix, total_bytes = store.get_suffix(piece.key, tail_bytes(piece, WHOLE_BYTES_MAX))
        if total_bytes != piece.size_bytes:
            raise Corrupt(f"the object has {total_bytes} bytes, the manifest says {piece.size_bytes}")
        footer = read_footer(suffix, total_bytes)
        _check_identity(piece, footer)
        chunks = footer.chunks
        if chunks is None:
            chunks = ChunkTable.from_bytes(_blob(store, piece, footer, "chunks", suffix))
        aborted = _aborted(_blob(store, piece, footer, "aborted", suffix))
    return OpenedSegment(piece, chunks, aborted, suffix if len(suffix) == total_bytes else None)


def _check_identity(piece: SegmentSlice, footer: Footer) -> None:
    held = (footer.partition.partition, footer.entry.base, footer.entry.end)
    topics = {piece.topic, base_topic(piece.topic)}  # a view is read from the objects of its topic
    if held != (piece.partition, piece.base, piece.end) or footer.partition.topic not in topics:
        raise Corrupt(
            f"the object says that it holds {footer.partition}, offsets {footer.entry.base} to "
            f"{footer.entry.end - 1}; the manifest says {piece.base} to {piece.end - 1}"
        )


def _blob(store: ObjectStore, piece: SegmentSlice, footer: Footer, name: str, suffix: bytes) -> bytes:
    """One part behind the data: out of the suffix, or by a GET of its own where a writer put it elsewhere."""
    blob = footer.blobs.get(name)
    if blob is None:
        raise Corrupt(f"the object's footer names no part {name!r}")
    if not blob.length:
        return b""
    start = blob.position - (piece.size_bytes - len(suffix))
    data = suffix[start : start + blob.length] if start >= 0 else store.get_range(piece.key, blob.position, blob.length)
    blob.check(name, data)
    return data


def _aborted(table: bytes) -> AbortedTransactions:
    transactions: dict[int, list[tuple[int, int]]] = {}
    for row in sorted(aborted_from_bytes(table)):
        transactions.setdefault(row.producer_id, []).append((row.first_offset, row.last_offset))
    return transactions


def chunk_bytes(
    store: ObjectStore, opened: OpenedSegment, chunks: Sequence[Chunk], on_damage: OnDamagedPart | None = None
) -> ChunkData:
    """The bytes of neighbouring ``chunks``. Raises `DataLoss`, and `Corrupt` unless each has its CRC-32C.

    That covers base offsets too, which a batch's own CRC does not. Before anything counts as damaged it is fetched
    again: what was damaged on its way is not. With ``on_damage``, which gets the parts and the
    position of their chunk, the damaged batches are left out instead. An object that came whole is not copied.
    """
    first = chunks[0].position
    length = chunks[-1].position + chunks[-1].length - first
    with _told(opened.piece):
        found = ChunkData(opened.data or b"", first, first + length)
        sound = [False] if opened.data is None else _sound(found, chunks)
        reads = 0
        while reads < READS_MAX and not all(sound):
            if reads or opened.data is not None:
                _logger.warning(
                    "object %s: the CRC of a chunk does not match; its bytes are fetched again", opened.piece.key
                )
            found = ChunkData(store.get_range(opened.piece.key, first, length), 0, length)
            sound = _sound(found, chunks)
            reads += 1
        if all(sound):
            return found
        pieces: list[bytes] = []
        for chunk, is_sound in zip(chunks, sound, strict=True):
            at = found.start + chunk.position - first
            data = found.data[at : at + chunk.length]
            pieces += [data] if is_sound else _salvaged(opened, chunk, data, on_damage)
    joined = b"".join(pieces)
    return ChunkData(joined, 0, len(joined))


def _sound(found: ChunkData, chunks: Sequence[Chunk]) -> list[bool]:
    """Which of the chunks have their CRC."""
    view = memoryview(found.data)
    ats = [found.start + chunk.position - chunks[0].position for chunk in chunks]
    return [crc32c(view[at : at + chunk.length]) == chunk.crc32c for chunk, at in zip(chunks, ats, strict=True)]


def _salvaged(opened: OpenedSegment, chunk: Chunk, data: bytes, on_damage: OnDamagedPart | None) -> list[bytes]:
    """The intact batches of a damaged chunk, whose damage is reported. Raises `Corrupt` without a receiver of reports."""
    found = salvage(data, chunk.first_offset, _chunk_end(opened, chunk))
    if on_damage is None:
        what = "no batch is damaged, but what precedes its CRC"
        if found.damaged:
            worst = found.damaged[0]
            what = f"offsets {worst.start_offset} to {worst.end_offset - 1} are damaged ({worst.reason})"
        raise Corrupt(
            f"the chunk at position {chunk.position} has another CRC than {chunk.crc32c:#010x}, as its table says: {what}. "
            f"Restore the object from a copy, or set option 'badRecords' to 'quarantine' to read the rest"
        )
    for part in found.damaged:
        on_damage(part, chunk.position)
    return [data[start:end] for start, end in found.intact]


def _chunk_end(opened: OpenedSegment, chunk: Chunk) -> int:
    """The first offset behind ``chunk``."""
    index = opened.chunks.find_offset(chunk.first_offset) + 1
    return opened.chunks.first_offset(index) if index < len(opened.chunks) else opened.piece.end
