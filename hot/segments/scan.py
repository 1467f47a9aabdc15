"""Walks over the batches of a ``.log`` file: headers only, or whole batches with their CRC checked."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from stratalog.hot.storage.filesystem import File, Filesystem
from stratalog.wire.batch import BATCH_HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, check_batch
from stratalog.wire.errors import Corrupt

__all__ = [
    "OFFSET_MAX",
    "CheckedBatch",
    "Damage",
    "UnreadableBatch",
    "open_whole",
    "read_batch",
    "scan_borders",
    "scan_checked",
    "scan_headers",
    "scan_within",
]

_HEADERS_STEP_BYTES: Final = 16 << 10
_CHECKED_STEP_BYTES: Final = 1 << 20
_BORDERS_STEP_BYTES: Final = 6 << 10
_MAGIC: Final = 2
OFFSET_MAX: Final = (1 << 63) - 1
_BORDER: Final = Struct(">qi4xB4x2xi")
"""The fields of a batch header that place it: base offset, length, magic, last offset delta."""


class CheckedBatch(NamedTuple):
    """A batch whose bounds, magic, CRC and place in the sequence of offsets are right."""

    position: int
    header: BatchHeader
    data: memoryview


class Damage(NamedTuple):
    """Where a walk had to stop, and why."""

    position: int
    reason: str


def scan_headers(
    file: File, position: int, end: int, *, step_bytes: int = _HEADERS_STEP_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """``(position, header)`` of each whole batch in ``[position, end)``; bodies are not read where they are large.

    A torn or impossible batch ends the walk. Raises `OSError`.
    """
    chunk = b""
    chunk_start = position
    while position + HEADER_BYTES <= end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.pread(min(step_bytes, end - position), position)
            chunk_start, at = position, 0
            if len(chunk) < HEADER_BYTES:
                return
        header = BatchHeader._make(BATCH_HEADER.unpack_from(chunk, at))
        after = position + LOG_OVERHEAD_BYTES + header.batch_length
        if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES or header.magic != _MAGIC or after > end:
            return
        yield position, header
        position = after


def scan_within(
    file: File, position: int, end: int, first_offset: int, end_offset: int, *, step_bytes: int = _HEADERS_STEP_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """As `scan_headers`, less the batches that claim offsets outside of ``[first_offset, end_offset)``.

    The CRC does not cover base offsets: one beyond the borders of its segment is damaged.
    """
    for found in scan_headers(file, position, end, step_bytes=step_bytes):
        header = found[1]
        if first_offset <= header.base_offset <= header.last_offset < end_offset:
            yield found


def scan_borders(file: File, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """``(position, size, base offset, last offset)`` of each whole batch: `scan_headers` for look-ups, less work."""
    chunk = b""
    chunk_start = position
    unpack = _BORDER.unpack_from
    while position + HEADER_BYTES <= end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.pread(min(_BORDERS_STEP_BYTES, end - position), position)
            chunk_start, at = position, 0
            if len(chunk) < HEADER_BYTES:
                return
        base_offset, length, magic, delta = unpack(chunk, at)
        size_bytes = LOG_OVERHEAD_BYTES + length
        if size_bytes < HEADER_BYTES or magic != _MAGIC or position + size_bytes > end:
            return
        yield position, size_bytes, base_offset, base_offset + delta
        position += size_bytes


class UnreadableBatch(Corrupt):
    """A segment is damaged at ``position`` of the file at ``path``, or before."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} is damaged at position {position}: {why}")
        self.path = path
        self.position = position
        self.why = why


def unreadable(path: str, position: int) -> UnreadableBatch:
    """The error for a position at which no batch begins although one should."""
    return UnreadableBatch(path, position, "no batch can begin with the bytes that stand there, its header is damaged")


def open_whole(files: Filesystem, path: str, size_bytes: int) -> File:
    """Open a file that has so many bytes at least. Raises `UnreadableBatch` if it has not, or is gone, and `OSError`."""
    try:
        file = files.open_read(path)
    except FileNotFoundError as error:
        raise UnreadableBatch(path, 0, "the file is gone") from error
    found_bytes = file.size_bytes()
    if found_bytes < size_bytes:
        raise UnreadableBatch(path, found_bytes, f"the file ends there, it had {size_bytes} bytes")
    return file


def read_batch(file: File, position: int, header: BatchHeader) -> bytes:
    """All bytes of the batch at ``position``. Raises `Corrupt` if the file ends inside it."""
    data = file.pread(header.size_bytes, position)
    if len(data) != header.size_bytes:
        raise Corrupt(f"the batch at offset {header.base_offset}, position {position}, is cut short; run recovery")
    return data


def scan_checked(
    file: File, position: int, end: int, next_offset: int, *, gaps_below: int = OFFSET_MAX
) -> Iterator[CheckedBatch | Damage]:
    """Every batch in ``[position, end)``, verified; ends with one `Damage` at the first that is not right.

    A batch is right if its bounds, magic and CRC are, if its offsets do not go back below ``next_offset`` or its
    predecessor, if its last offset delta is not negative, and if no offsets are missing before it: those below
    ``gaps_below`` may be. Never raises for any bytes; raises `OSError`.
    """
    while position < end:
        want = _CHECKED_STEP_BYTES
        chunk = memoryview(file.pread(min(want, end - position), position))
        at = 0
        while True:
            batch = _checked(chunk, at, position + at, next_offset, gaps_below)
            if isinstance(batch, CheckedBatch):
                yield batch
                at += batch.header.size_bytes
                next_offset = batch.header.next_offset
                if at == len(chunk):
                    break
            elif isinstance(batch, int) and at == 0:
                if position + batch > end or batch <= len(chunk):
                    yield Damage(position, f"{end - position} bytes are there, the batch needs {batch}")
                    return
                chunk = memoryview(file.pread(batch, position))
                if len(chunk) < batch:
                    yield Damage(position, f"{len(chunk)} bytes are there, the batch needs {batch}")
                    return
            elif isinstance(batch, int):
                break
            else:
                yield batch
                return
        position += at


def _checked(
    chunk: memoryview, at: int, position: int, next_offset: int, gaps_below: int
) -> CheckedBatch | Damage | int:
    """The batch at ``at``, its damage, or how many bytes are needed to see it whole."""
    if at + HEADER_BYTES > len(chunk):
        return HEADER_BYTES
    header = BatchHeader._make(BATCH_HEADER.unpack_from(chunk, at))
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        return Damage(position, f"a batch cannot be {header.batch_length} bytes long")
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        return Damage(position, f"base offset {header.base_offset} comes after offset {next_offset - 1}")
    if next_offset < header.base_offset > gaps_below or header.last_offset > OFFSET_MAX:
        return Damage(position, f"offset {next_offset} is due, base offset {header.base_offset} stands there")
    if at + header.size_bytes > len(chunk):
        return header.size_bytes
    try:
        check_batch(chunk, at)
    except Corrupt as error:
        return Damage(position, str(error))
    return CheckedBatch(position, header, chunk[at : at + header.size_bytes])
