"""The remains, after a power cut, of bytes that were not synced."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Change", "Mood", "apply", "loose_files", "put_back", "torn"]

_PAGE_BYTES: Final = 4096


class Mood(Enum):
    """The fate of bytes that were not durable when the power went."""

    DROP = "drop"
    KEEP = "keep"
    MIXED = "mixed"


class Change(NamedTuple):
    """An unsynced write, or a truncation if there is no data."""

    position: int
    data: bytes | None


def apply(content: bytearray, change: Change) -> None:
    """Make the change."""
    if change.data is None:
        del content[change.position :]
        content += bytes(max(0, change.position - len(content)))
        return
    content += bytes(max(0, change.position - len(content)))
    content[change.position : change.position + len(change.data)] = change.data


def torn(change: Change, dice: random.Random) -> Iterator[Change]:
    """Each page of a write is kept, dropped, torn or zero; a truncation is kept or dropped."""
    if change.data is None:
        if dice.random() < 0.5:
            yield change
        return
    at = 0
    while at < len(change.data):
        position = change.position + at
        piece = change.data[at : at + _PAGE_BYTES - position % _PAGE_BYTES]
        fate = dice.random()
        if fate < 0.35:
            yield Change(position, piece)
        elif fate < 0.6:
            yield Change(position, piece[: dice.randrange(len(piece) + 1)])
        elif fate < 0.7:
            yield Change(position, bytes(len(piece)))
        at += len(piece)


def loose_files(directory: str, mood: Mood, dice: random.Random) -> Iterator[tuple[str, bytes]]:
    """Paths and bytes left of files that are never synced: all, none, or each by itself whole, torn or not at all."""
    if mood is Mood.DROP or not os.path.isdir(directory):  # noqa: PTH112
        return
    with os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: entry.name)  # real times differ from run to run
    for entry in entries:
        data = Path(entry.path).read_bytes()
        if mood is Mood.MIXED and dice.random() < 0.6:
            if dice.random() < 0.3:
                continue
            left = bytearray()
            for part in torn(Change(0, data), dice):
                apply(left, part)
            data = bytes(left)
        yield entry.path, data


def put_back(files: Iterable[tuple[str, bytes]]) -> None:
    """Write them, one a second, whatever the real clock says."""
    for at_s, (path, data) in enumerate(files):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(data)
        os.utime(path, (at_s, at_s))
