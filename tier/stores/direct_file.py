"""Large files written and read past the page cache, a piece at a time.

An archived object is written once and seldom read: in the page cache it would only push out what is hot. Worse,
its megabytes of dirty pages are written back by whichever ``fdatasync`` of the log comes next on the same disk (ext4
commits one journal for all files), so that producers would wait for uploads. Direct transfers cost no page, hardly
any CPU, and leave nothing behind for a sync but the name. Where the file system knows none (``EINVAL``), everything
here goes through the page cache instead.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from stratalog.tier.stores.store import Buffer

__all__ = ["PIECE_BYTES", "DirectFile", "read_pieces"]

PIECE_BYTES: Final = 256 << 10
"""Bytes transferred at once: a sync of the log that comes in between waits for no more than this.

Smaller files take the page cache: a single transfer is not worth a disk's latency.
"""

_BLOCK_BYTES: Final = 4096
"""Position, length and address of a direct transfer are multiples of the device's block, seldom larger than this."""

_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)


class _Buffers(threading.local):
    """One aligned piece for each thread; ``busy`` while a caller further up the stack uses it."""

    def __init__(self) -> None:
        self.pieces: list[mmap.mmap] = []

    def take(self) -> mmap.mmap:
        return self.pieces.pop() if self.pieces else mmap.mmap(-1, PIECE_BYTES)

    def give_back(self, piece: mmap.mmap) -> None:
        if not self.pieces:
            self.pieces.append(piece)


_buffers = _Buffers()

_turn = threading.Lock()
"""One transfer at a time in this process, so that the disk's queue stays short for the log that shares it."""


class DirectFile:
    """A new file, filled from its start to its end. Every method raises `OSError`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._piece = _buffers.take()
        self._view = memoryview(self._piece)
        self._filled = 0
        self._direct = False
        self._possible = bool(_O_DIRECT)

    def append(self, data: Buffer) -> Iterator[memoryview]:
        """Write ``data``, whose views are yielded one after the other on the way, for counting or hashing."""
        rest = memoryview(data).cast("B")
        while rest:
            count = min(len(rest), PIECE_BYTES - self._filled)
            part = rest[:count]
            self._view[self._filled : self._filled + count] = part
            self._filled += count
            if self._filled == PIECE_BYTES:
                self._write_piece()
            yield part
            rest = rest[count:]

    def finish(self, *, sync: bool) -> None:
        """Write what is left, and bring everything to the disk if ``sync``."""
        whole = self._filled - self._filled % _BLOCK_BYTES if self._direct else 0
        self._write(self._view[:whole])
        if whole < self._filled:
            self._switch(direct=False)
            self._write(self._view[whole : self._filled])
        self._filled = 0
        if sync:
            os.fsync(self._fd)

    def close(self) -> None:
        """Release the descriptor and the buffer."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
            self._view.release()
            _buffers.give_back(self._piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write_piece(self) -> None:
        if self._possible and not self._direct:
            self._switch(direct=True)
        self._write(self._view)
        self._filled = 0

    def _write(self, rest: memoryview) -> None:
        """Write all of it: through the page cache what is refused otherwise, or was cut short inside a block."""
        while rest:
            refused = False
            try:
                with _turn:
                    count = os.write(self._fd, rest)
            except OSError as error:
                if not self._direct or error.errno != errno.EINVAL:
                    raise
                count, refused = 0, True
            rest = rest[count:]
            if self._direct and (refused or len(rest) % _BLOCK_BYTES):
                self._possible = False
                self._switch(direct=False)

    def _switch(self, *, direct: bool) -> None:
        if direct != self._direct:
            self._direct = _set_direct(self._fd, direct=direct)
            self._possible = self._possible and (self._direct or not direct)


def read_pieces(fd: int, size_bytes: int) -> Iterator[memoryview]:
    """Yield the bytes of the open file from position 0 on; each view is void when the next one is asked for.

    Raises `OSError`, also if the file ends before ``size_bytes``.
    """
    piece = _buffers.take()
    direct = size_bytes >= PIECE_BYTES and _set_direct(fd, direct=True)
    position = 0
    try:
        with memoryview(piece) as view:
            while position < size_bytes:
                try:
                    with _turn:
                        count = os.preadv(fd, [view], position)
                except OSError as error:
                    if not direct or error.errno != errno.EINVAL:
                        raise
                    direct = _set_direct(fd, direct=False)
                    continue
                if not count:
                    raise OSError(errno.EIO, f"the file ended at byte {position}, expected {size_bytes}")
                count = min(count, size_bytes - position)
                with view[:count] as part:
                    yield part
                position += count
    finally:
        _buffers.give_back(piece)


def _set_direct(fd: int, *, direct: bool) -> bool:
    """Turn direct transfers on or off; returns whether they are on. A file system may know none."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | _O_DIRECT if direct else flags & ~_O_DIRECT)
    except OSError as error:
        if not direct or error.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:
            raise
        return False
    return direct and bool(_O_DIRECT)
