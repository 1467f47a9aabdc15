"""A source read as a file is, from its start to its end: what an HTTP client sends as a body."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from types import TracebackType
from typing import Final, Self

from crc32c import crc32c

from stratalog.tier.stores.source import SourceUnreadable, reading_source
from stratalog.tier.stores.store import Buffer, FileRange
from stratalog.wire.errors import Corrupt

__all__ = ["PIECE_BYTES", "SourceReader"]

PIECE_BYTES: Final = 256 << 10
"""Bytes read and sent at once: they stay in the processor's cache meanwhile."""


class SourceReader:
    """Buffers and file ranges, one after the other, with the CRC-32C of what was read.

    ``crc32c`` begins again when the reader is sent back to the start, as a retry does. It is None if there are no files
    among the pieces: what lies in memory does not change between a check and its being sent. Use it in a ``with`` block: it
    holds a file open. Raises `SourceUnreadable` for a file that cannot be read, `Corrupt` for one shorter than its range;
    ``error`` keeps it, for an HTTP client takes it for a fault of the network.
    """

    def __init__(self, pieces: Sequence[Buffer | FileRange]) -> None:
        self._pieces = [one if isinstance(one, FileRange) else memoryview(one).cast("B") for one in pieces]
        lengths = [one.length if isinstance(one, FileRange) else len(one) for one in self._pieces]
        self._ends = list(accumulate(lengths))
        self._position = 0
        self._buffer = memoryview(bytearray(PIECE_BYTES))
        self._file: tuple[str, int] | None = None
        self.error: SourceUnreadable | Corrupt | None = None
        self._first_crc32c = 0 if any(isinstance(one, FileRange) for one in self._pieces) else None
        self.crc32c = self._first_crc32c

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close_file()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def tell(self) -> int:
        """Where the next `read` begins."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte; whence as that of files. The CRC is whole only of what is read from the start on."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: len(self)}[whence]
        self._position = min(max(0, base + offset), len(self))
        if not self._position:
            self.crc32c, self.error = self._first_crc32c, None
        return self._position

    def read(self, size: int = -1) -> memoryview | bytes:
        """The next bytes, `PIECE_BYTES` at most; all that is left if ``size`` is negative; nothing at the end.

        They are good until the next call. There may be more of them than were asked for: clients ask for 16 KiB at a
        time and send what they get, and small sends cost three times the CPU.
        """
        if size < 0:
            rest = bytearray()
            while following := self.read(PIECE_BYTES):
                rest += following
            return bytes(rest)
        index = bisect_right(self._ends, self._position)
        if index == len(self._ends) or not size:
            return b""
        count = min(PIECE_BYTES, self._ends[index] - self._position)
        piece = self._pieces[index]
        if isinstance(piece, FileRange):
            position = piece.position + piece.length - self._ends[index] + self._position
            try:
                data = self._read_file(piece, position, count)
            except (SourceUnreadable, Corrupt) as error:
                self.error = error
                raise
        else:
            begin = len(piece) - self._ends[index] + self._position
            data = piece[begin : begin + count]
        if self.crc32c is not None:
            self.crc32c = crc32c(data, self.crc32c)
        self._position += len(data)
        return data

    def _read_file(self, piece: FileRange, position: int, count: int) -> memoryview:
        if self._file is None or self._file[0] != piece.path:
            self._close_file()
            with reading_source(piece.path):
                self._file = piece.path, os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
        with reading_source(piece.path):
            done = os.preadv(self._file[1], [self._buffer[:count]], position)
        if not done:
            end = piece.position + piece.length
            raise Corrupt(
                f"{piece.path} ends at byte {position}, the range to upload goes to {end}. "
                "Do not upload it; check the log directory."
            )
        return self._buffer[:done]

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file[1])
            self._file = None
