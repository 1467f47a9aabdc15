"""Stores of this machine's files can do more than the port: tell the file of an object, show its bytes without a copy.

A range that is only looked at needs no memory of its own length: it passes through a window that stays in the
processor's cache.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Final, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from stratalog.tier.stores.store import ObjectStore

__all__ = ["FileBacked", "Look", "SeenBytes", "file_of", "look_through", "pieces_of"]

_WINDOW_BYTES: Final = 256 << 10

Look: TypeAlias = Callable[[Iterator[memoryview]], None]
"""Gets the bytes of a range, a piece after the other; each is void when the next is asked for.

It is called again, with all of them, where the request is repeated.
"""


class SeenBytes(Struct, frozen=True):
    """The answer of `FileBacked.look_through`: how many bytes were shown."""

    count: int


@runtime_checkable
class FileBacked(Protocol):
    """Methods of a store, besides the port, whose objects are files of this machine."""

    def file_of(self, key: str) -> str | None:
        """The path of the file that is the object, if there is one; to be read, never to be written or removed."""

    def look_through(self, key: str, position: int, length: int, look: Look) -> SeenBytes:
        """`get_range` for who needs the bytes only once: ``look`` gets exactly the range. Raises what both raise."""


def file_of(store: ObjectStore, key: str) -> str | None:
    """The path of the file that is the object; None for stores that have no files here."""
    return store.file_of(key) if isinstance(store, FileBacked) else None


def look_through(store: ObjectStore, key: str, position: int, length: int, look: Look) -> SeenBytes:
    """See :class:`FileBacked`; other stores show what they read, in one piece."""
    if isinstance(store, FileBacked):
        return store.look_through(key, position, length, look)
    look(iter([memoryview(store.get_range(key, position, length))]))
    return SeenBytes(length)


class _Windows(threading.local):
    """One window for each thread; None while a caller further up the stack uses it."""

    def __init__(self) -> None:
        self.free: bytearray | None = None


_windows = _Windows()


def pieces_of(descriptor: int, position: int, length: int) -> Generator[memoryview]:
    """Yield a range of an open file through a window. Raises `OSError`, also if the file ends before the range does."""
    window, _windows.free = _windows.free or bytearray(_WINDOW_BYTES), None
    end = position + length
    try:
        with memoryview(window) as view:
            while position < end:
                with view[: min(_WINDOW_BYTES, end - position)] as room:
                    count = os.preadv(descriptor, [room], position)
                if not count:
                    raise OSError(errno.EIO, f"the file ended at byte {position}, expected {end}")
                with view[:count] as piece:
                    yield piece
                position += count
    finally:
        _windows.free = window
