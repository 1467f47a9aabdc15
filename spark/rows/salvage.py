"""Finds the batches of a damaged chunk that can still be believed. Pure.

A chunk's CRC-32C covers every byte of it. Where it fails, a batch is believed only if its own CRC holds, which covers
all but its first 17 bytes, and if its base offset is confirmed by a neighbour: it begins where the batch before it
ended, or ends where the next one begins. Damage that reaches over the border of two batches cannot give a record another
offset that way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from stratalog.wire.batch import HEADER_BYTES, BatchHeader, check_batch, read_header
from stratalog.wire.errors import Corrupt

__all__ = ["DamagedPart", "Salvage", "salvage"]

_MAGIC_AT: Final = 16
_MAGIC: Final = b"\x02"


class DamagedPart(NamedTuple):
    """Bytes ``[position, position + length)`` of what was looked at, and the offsets ``[start, end)`` they may hold."""

    start_offset: int
    end_offset: int
    position: int
    length: int
    reason: str


class Salvage(NamedTuple):
    """Runs of intact batches as ``(start, end)`` positions, and what lies between them."""

    intact: list[tuple[int, int]]
    damaged: list[DamagedPart]


class _Found(NamedTuple):
    position: int
    header: BatchHeader

    @property
    def end(self) -> int:
        return self.position + self.header.size_bytes


def salvage(data: bytes, start_offset: int, end_offset: int) -> Salvage:
    """Tell the intact batches of ``data``, one chunk, from the damage; the chunk holds ``[start_offset, end_offset)``."""
    found = list(_sound(data, start_offset, end_offset))
    kept = [each for index, each in enumerate(found) if _confirmed(found, index, start_offset, end_offset, len(data))]
    intact: list[tuple[int, int]] = []
    damaged: list[DamagedPart] = []
    at, offset = 0, start_offset
    for position, header in kept:
        if position > at:
            damaged.append(_part(data, at, position, offset, header.base_offset))
        if intact and intact[-1][1] == position:
            intact[-1] = (intact[-1][0], position + header.size_bytes)
        else:
            intact.append((position, position + header.size_bytes))
        at, offset = position + header.size_bytes, header.next_offset
    if at < len(data):
        damaged.append(_part(data, at, len(data), offset, end_offset))
    return Salvage(intact, damaged)


def _part(data: bytes, start: int, end: int, start_offset: int, end_offset: int) -> DamagedPart:
    try:
        check_batch(data, start)
        reason = "its base offset is confirmed by no neighbour"
    except Corrupt as error:
        reason = str(error)
    return DamagedPart(start_offset, end_offset, start, end - start, reason)


def _sound(data: bytes, start_offset: int, end_offset: int) -> Iterator[_Found]:
    """The batches whose own CRC holds and whose offsets fit the chunk and ascend.

    Behind a damaged batch the next one is looked for where the damaged one says that it ends, else byte by byte.
    """
    position = 0
    while position < len(data):
        header = _sound_at(data, position, start_offset, end_offset)
        if header is not None:
            yield _Found(position, header)
            position += header.size_bytes
            start_offset = header.next_offset
            continue
        position = _next_sound(data, position, start_offset, end_offset)


def _sound_at(data: bytes, position: int, start_offset: int, end_offset: int) -> BatchHeader | None:
    if position + HEADER_BYTES > len(data):
        return None
    header = read_header(data, position)
    if not start_offset <= header.base_offset < header.next_offset <= end_offset:
        return None
    try:
        return check_batch(data, position)
    except Corrupt:
        return None


def _next_sound(data: bytes, position: int, start_offset: int, end_offset: int) -> int:
    """Where the next sound batch behind the damaged one at ``position`` begins; the end of ``data`` if none does."""
    if position + HEADER_BYTES <= len(data):
        claimed = position + max(HEADER_BYTES, read_header(data, position).size_bytes)
        if claimed == len(data) or _sound_at(data, claimed, start_offset, end_offset) is not None:
            return claimed
    magic = data.find(_MAGIC, position + 1 + _MAGIC_AT)
    while magic >= 0:
        if _sound_at(data, magic - _MAGIC_AT, start_offset, end_offset) is not None:
            return magic - _MAGIC_AT
        magic = data.find(_MAGIC, magic + 1)
    return len(data)


def _confirmed(found: list[_Found], index: int, start_offset: int, end_offset: int, length: int) -> bool:
    """Whether a neighbour in bytes is one in offsets, too; the borders of the chunk are neighbours."""
    position, header = found[index]
    if index and found[index - 1].end == position:
        before = found[index - 1].header.next_offset
    else:
        before = start_offset if not position else -1
    end = position + header.size_bytes
    if index + 1 < len(found) and found[index + 1].position == end:
        behind = found[index + 1].header.base_offset
    else:
        behind = end_offset if end == length else -1
    return header.base_offset == before or header.next_offset == behind
