"""Reading what is to be uploaded: buffers and file ranges, as whole bytes or in parts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from crc32c import crc32c

from stratalog.tier.store import Buffer, ChecksumMismatch, FileRange, Source
from stratalog.wire.errors import Corrupt

__all__ = ["BufferReader", "as_bytes", "check_crc32c", "crc32c_of", "source_bytes", "source_length", "source_parts"]

_READ_BYTES = 1 << 20


def as_bytes(data: Buffer | Sequence[Buffer]) -> bytes:
    """Return ``data`` as one ``bytes``; nothing is copied when it is one already."""
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    return bytes(data[0]) if len(data) == 1 else b"".join(data)


class BufferReader:
    """Buffers read one after the other as a file is, without a copy: what an HTTP client sends as a body."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._views = [memoryview(one).cast("B") for one in buffers]
        self._size_bytes = sum(len(one) for one in self._views)
        self._position = 0

    def __len__(self) -> int:
        return self._size_bytes

    def tell(self) -> int:
        """Where the next `read` begins."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte, as a retry does; whence as that of files."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> memoryview | bytes:
        """At most ``size`` bytes, all that is left in the buffer if negative; nothing at the end."""
        at = self._position
        for view in self._views:
            if at < len(view):
                piece = view[at:] if size < 0 else view[at : at + size]
                self._position += len(piece)
                return piece
            at -= len(view)
        return b""


def crc32c_of(data: Buffer, crc: int = 0) -> int:
    """Return the CRC-32C (Castagnoli, RFC 3720) of ``data``, continuing ``crc``."""
    return int(crc32c(data, crc))


def check_crc32c(operation: str, key: str, url: str, data: bytes, expected: int | None) -> int:
    """Return the CRC-32C of ``data``; raise :class:`ChecksumMismatch` if ``expected`` is given and differs."""
    actual = crc32c_of(data)
    if expected is not None and expected != actual:
        raise ChecksumMismatch(operation, key, url, f"the CRC-32C is {actual:08x}, the caller gave {expected:08x}")
    return actual


def _pieces(source: Source) -> Sequence[Buffer | FileRange]:
    return [source] if isinstance(source, (bytes, bytearray, memoryview, FileRange)) else source


def source_length(source: Source) -> int:
    """Return how many bytes ``source`` has."""
    return sum(piece.length if isinstance(piece, FileRange) else memoryview(piece).nbytes for piece in _pieces(source))


def source_bytes(source: Source) -> bytes:
    """Return all of ``source``; raises :class:`Corrupt` if a file is shorter than its range."""
    return b"".join(_slices(source))


def source_parts(source: Source, part_bytes: int) -> Iterator[bytes]:
    """Yield ``source`` cut into parts of exactly ``part_bytes`` (the last may be shorter; none for an empty source).

    Raises :class:`Corrupt` if a file is shorter than its range: whatever should have been there is gone.
    """
    pending: list[Buffer] = []
    pending_bytes = 0
    for piece in _slices(source):
        rest = memoryview(piece)
        while pending_bytes + len(rest) >= part_bytes:
            taken = part_bytes - pending_bytes
            yield b"".join([*pending, rest[:taken]])
            rest = rest[taken:]
            pending, pending_bytes = [], 0
        if rest:
            pending.append(rest)
            pending_bytes += len(rest)
    if pending:
        yield b"".join(pending)


def _slices(source: Source) -> Iterator[memoryview | bytes]:
    for piece in _pieces(source):
        if isinstance(piece, FileRange):
            yield from _file_slices(piece)
        else:
            yield memoryview(piece).cast("B")


def _file_slices(piece: FileRange) -> Iterator[bytes]:
    descriptor = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        position = piece.position
        end = piece.position + piece.length
        while position < end:
            data = os.pread(descriptor, min(_READ_BYTES, end - position), position)
            if not data:
                msg = (
                    f"{piece.path} ends at byte {position}, the range to upload goes to {end}. "
                    "Do not upload it; check the log directory."
                )
                raise Corrupt(msg)
            yield data
            position += len(data)
    finally:
        os.close(descriptor)
