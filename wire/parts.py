"""The parts that encoders return and connections send: pieces of memory and ranges of files, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

__all__ = ["EncodedList", "FileSlice", "HasFileno", "Part", "parts_length"]


_CHUNK_BYTES: Final = 64 << 10


class HasFileno(Protocol):
    """An open file. Its holder keeps the descriptor open, also after the name was unlinked."""

    def fileno(self) -> int:
        """The descriptor."""
        ...


class FileSlice:
    """``length`` bytes of ``file`` from byte ``position``: sent by ``sendfile`` without passing through Python.

    The slice owns a reference to the open file, so the bytes stay readable while it lives even when the
    segment behind it has been evicted.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: HasFileno, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileSlice({self.file!r}, position={self.position}, length={self.length})"


Part = bytes | bytearray | memoryview | FileSlice
"""One piece of a response. ``len(part)`` is its size in bytes; a ``memoryview`` part has format ``B``."""


def parts_length(parts: Iterable[Part]) -> int:
    """The bytes that the parts occupy on the wire."""
    size = 0
    for part in parts:
        size += part.length if part.__class__ is FileSlice else len(part)
    return size


class EncodedList(list[bytes]):
    """The structs of a list as bytes, joined to chunks of some 64 KiB.

    As a list it holds the chunks; ``row_count`` is the number of structs, ``size_bytes`` the length of all chunks.
    """

    __slots__ = ("_pieces", "_pieces_bytes", "row_count", "size_bytes")

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0
        self.row_count = 0
        self.size_bytes = 0

    def add(self, parts: list[Any]) -> None:
        """Take one more struct, as its encoder has made it."""
        size = sum(map(len, parts))
        self._pieces += parts
        self._pieces_bytes += size
        self.size_bytes += size
        self.row_count += 1
        if self._pieces_bytes >= _CHUNK_BYTES:
            self.close()

    def close(self) -> None:
        """Join what is not part of a chunk yet. The list may be encoded now."""
        if self._pieces:
            self.append(b"".join(self._pieces))
            self._pieces = []
            self._pieces_bytes = 0
