"""Reading what is to be uploaded: buffers and file ranges, as whole bytes or in parts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from crc32c import crc32c

from stratalog.tier.stores.store import Buffer, ChecksumMismatch, FileRange, Source
from stratalog.wire.errors import Corrupt

__all__ = [
    "SourceUnreadable",
    "as_bytes",
    "check_crc32c",
    "crc32c_of",
    "reading_source",
    "source_length",
    "source_parts",
    "source_slices",
]

_READ_BYTES = 1 << 20


class SourceUnreadable(OSError):
    """A file cannot be read that is to be uploaded: its own disk is to blame, not the store. ``filename`` is its path."""


@contextmanager
def reading_source(path: str) -> Iterator[None]:
    """Raise `SourceUnreadable` for an `OSError` inside."""
    try:
        yield
    except OSError as error:
        raise SourceUnreadable(error.errno, error.strerror, path) from error


def as_bytes(source: Source) -> bytes:
    """All of ``source`` as one ``bytes``; nothing is copied when it is one already. Raises as `source_slices`."""
    if isinstance(source, bytes):
        return source
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    return b"".join(source_slices(source))


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


def source_parts(source: Source, part_bytes: int) -> Iterator[bytes]:
    """Yield ``source`` cut into parts of exactly ``part_bytes`` (the last may be shorter; none for an empty source).

    Raises :class:`Corrupt` if a file is shorter than its range: whatever should have been there is gone.
    """
    pending: list[Buffer] = []
    pending_bytes = 0
    for piece in source_slices(source):
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


def source_slices(source: Source) -> Iterator[memoryview | bytes]:
    """Yield ``source`` as it lies, files a mebibyte at a time.

    Raises :class:`Corrupt` if a file is too short, :class:`SourceUnreadable` if it cannot be read.
    """
    for piece in _pieces(source):
        if isinstance(piece, FileRange):
            yield from _file_slices(piece)
        else:
            yield memoryview(piece).cast("B")


def _file_slices(piece: FileRange) -> Iterator[bytes]:
    with reading_source(piece.path):
        descriptor = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        position = piece.position
        end = piece.position + piece.length
        while position < end:
            with reading_source(piece.path):
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
