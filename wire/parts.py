"""What encoders return and connections send: pieces of memory and ranges of files, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

__all__ = ["FileSlice", "HasFileno", "Part", "parts_length"]


class HasFileno(Protocol):
    """An open file. Whoever holds it keeps the descriptor open, also after the name was unlinked."""

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
