"""Reads parts of a ``.seg`` object from the store and checks each by its CRC-32C."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

from crc32c import crc32c

from stratalog.tier.objects.chunk_table import Chunk
from stratalog.tier.objects.footer import SUFFIX_BYTES, TRAILER_BYTES, Blob, Footer, read_footer, read_trailer
from stratalog.tier.stores.checked_read import read_checked
from stratalog.tier.stores.file_backed import look_through
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Corrupt

__all__ = ["CorruptObject", "look_at_chunks", "read_blob", "read_chunk", "read_chunks", "read_object_footer"]

_SUFFIX_BYTES_MAX: Final = 16 * 1024 * 1024


class CorruptObject(Corrupt):
    """An archived object fails its check. ``key``, ``position`` and ``offset`` (-1: not in the data) say where."""

    def __init__(self, key: str, position: int, offset: int, reason: str) -> None:
        super().__init__(key, position, offset, reason)
        self.key = key
        self.position = position
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        where = f"offset {self.offset}" if self.offset >= 0 else "its tail"
        return f"{self.key} is damaged at position {self.position} ({where}): {self.reason}. It is not served."


def read_object_footer(store: ObjectStore, key: str) -> Footer:
    """Footer and chunk table, by one suffix GET for all but objects with unusually many chunks.

    Raises `CorruptObject`, and what the store raises.
    """
    return read_checked(lambda: _read_object_footer(store, key))


def _read_object_footer(store: ObjectStore, key: str) -> Footer:
    suffix, total_bytes = store.get_suffix(key, SUFFIX_BYTES)
    try:
        trailer = read_trailer(suffix, total_bytes)
        if total_bytes - trailer.footer_position > len(suffix):
            suffix = _longer_suffix(store, key, total_bytes - trailer.footer_position)
        footer = read_footer(suffix, total_bytes)
        if footer.chunks is None and "chunks" in footer.blobs:
            suffix = _longer_suffix(store, key, total_bytes - footer.blobs["chunks"].position)
            footer = read_footer(suffix, total_bytes)
        if footer.chunks is None:
            raise Corrupt("the footer names no chunk table")
    except Corrupt as error:
        raise CorruptObject(key, max(0, total_bytes - TRAILER_BYTES), -1, str(error)) from error
    return footer


def _longer_suffix(store: ObjectStore, key: str, needed_bytes: int) -> bytes:
    if needed_bytes > _SUFFIX_BYTES_MAX:
        raise Corrupt(f"a tail of {needed_bytes} bytes is not plausible")
    return store.get_suffix(key, needed_bytes)[0]


def read_blob(store: ObjectStore, key: str, footer: Footer, name: str) -> bytes:
    """The part ``name`` behind the data. Raises `CorruptObject`, and what the store raises."""
    blob = footer.blobs.get(name)
    if blob is None:
        raise CorruptObject(key, 0, -1, f"the footer names no part {name!r}")
    if not blob.length:
        return b""
    return read_checked(lambda: _read_blob(store, key, blob, name))


def _read_blob(store: ObjectStore, key: str, blob: Blob, name: str) -> bytes:
    data = store.get_range(key, blob.position, blob.length)
    try:
        blob.check(name, data)
    except Corrupt as error:
        raise CorruptObject(key, blob.position, -1, str(error)) from error
    return data


def read_chunk(store: ObjectStore, key: str, chunk: Chunk) -> bytes:
    """The batches of one chunk. Raises `CorruptObject`, and what the store raises."""
    return bytes(read_chunks(store, key, [chunk])[0])


def read_chunks(store: ObjectStore, key: str, chunks: list[Chunk]) -> list[memoryview]:
    """Neighbouring chunks by one ranged GET, each checked. Raises `CorruptObject`, and what the store raises."""
    return read_checked(lambda: _read_chunks(store, key, chunks))


def _read_chunks(store: ObjectStore, key: str, chunks: list[Chunk]) -> list[memoryview]:
    position = chunks[0].position
    length = chunks[-1].position + chunks[-1].length - position
    view = memoryview(store.get_range(key, position, length))
    pieces = []
    for chunk in chunks:
        piece = view[chunk.position - position : chunk.position - position + chunk.length]
        if len(piece) != chunk.length or crc32c(piece) != chunk.crc32c:
            raise _fails_its_crc(key, chunk)
        pieces.append(piece)
    return pieces


class _Fed(Protocol):
    def feed(self, data: memoryview, /) -> None: ...


Fed = TypeVar("Fed", bound=_Fed)


def look_at_chunks(store: ObjectStore, key: str, chunks: Sequence[Chunk], new: Callable[[], Fed]) -> list[Fed]:
    """`read_chunks` for who needs the bytes only once: each chunk is checked, and fed in pieces to a ``new`` one of its own.

    Raises `CorruptObject`, and what the store raises.
    """
    return read_checked(lambda: _look_at_chunks(store, key, chunks, new))


def _look_at_chunks(store: ObjectStore, key: str, chunks: Sequence[Chunk], new: Callable[[], Fed]) -> list[Fed]:
    fed: list[Fed] = []

    def look(pieces: Iterator[memoryview]) -> None:
        fed.clear()  # the request is made again
        piece = memoryview(b"")
        for chunk in chunks:
            one, left, crc = new(), chunk.length, 0
            while left:
                if not piece:
                    piece = next(pieces, piece)
                part = piece[:left]
                if not part:
                    break
                crc = crc32c(part, crc)
                one.feed(part)
                left -= len(part)
                piece = piece[len(part) :]
            if left or crc != chunk.crc32c:
                raise _fails_its_crc(key, chunk)
            fed.append(one)

    position = chunks[0].position
    look_through(store, key, position, chunks[-1].position + chunks[-1].length - position, look)
    return fed


def _fails_its_crc(key: str, chunk: Chunk) -> CorruptObject:
    reason = f"the chunk of {chunk.length} bytes fails its CRC-32C"
    return CorruptObject(key, chunk.position, chunk.first_offset, reason)
