"""Lets a copy of a log take its place in another directory, while the log stays open.

A copy is of the files, so it is the log as long as these only grow: `CopyView` says which files the log consists of at one
moment, and `LogMoving.is_at` whether they are the same still. All of it is called on the owner's thread.
"""

from __future__ import annotations

from typing import NamedTuple

from stratalog.hot.log.parts import LogParts
from stratalog.hot.segments.segment import Segment

__all__ = ["CopyView", "LogMoving"]


class CopyView(NamedTuple):
    """The files of a log at one moment. A segment is an object: the cleaner makes another one of the same name."""

    generation: int
    """Another number means that the log was cut or begun anew: nothing of an earlier copy counts."""
    frozen: tuple[tuple[Segment, int], ...]
    """The segments that are complete, and their bytes."""
    active: Segment
    """The one behind them."""
    active_bytes: int
    """Its bytes that are in the file."""
    written_offset: int
    """All below it is in these files."""
    snapshots: tuple[int, ...]
    """The offsets of the snapshots of producers."""
    is_settled: bool
    """Whether each file bears its own name. A segment of a cleaner's swap does not, and an old file may still bear it."""

    @property
    def size_bytes(self) -> int:
        """The bytes of all segments."""
        return sum(size for _, size in self.frozen) + self.active_bytes


class LogMoving:
    """The mover's side of one log."""

    __slots__ = ("_parts",)

    def __init__(self, parts: LogParts) -> None:
        self._parts = parts

    def view(self) -> CopyView:
        """The files of the log now."""
        parts = self._parts
        frozen: list[tuple[Segment, int]] = []
        for segment in parts.segments:
            if not segment.frozen:
                break
            frozen.append((segment, segment.size_bytes))
        active = parts.segments[len(frozen)]
        first = parts.segments[0].base_offset
        snapshots = tuple(offset for offset in parts.snapshots.offsets if offset >= first)
        return CopyView(
            parts.cycles.generation,
            tuple(frozen),
            active,
            active.written_bytes,
            parts.tail.written_offset,
            snapshots,
            self._is_settled,
        )

    @property
    def _is_settled(self) -> bool:
        return not any(segment.name_suffix for segment in self._parts.segments)

    def why_not(self) -> str | None:
        """Why the log cannot take another place now; None if it can."""
        parts = self._parts
        if parts.tail.failed is not None:
            return f"it takes no appends: {parts.tail.failed}"
        if any(segment.missing is not None for segment in parts.segments):
            return "the disk has lost a part of it"
        if not self._is_settled:
            return "it is being compacted"
        return None

    def is_at(self, view: CopyView) -> bool:
        """Whether the files are those of ``view`` still, all of them durable, and the log may take another place."""
        return self.why_not() is None and self._parts.cycles.is_idle and self.view() == view

    def begin(self) -> None:
        """Take what the files of the active segment hold beside its batches into memory. Raises `OSError`."""
        for segment in self._parts.segments:
            if not segment.frozen:
                segment.hold_indexes()

    def relocate(self, directory: str) -> None:
        """Use the files in ``directory`` from now on: a durable copy of all that is written. Batches may be queued."""
        parts = self._parts
        for segment in parts.segments:
            parts.place.cache.drop(segment)
            segment.directory = directory
        parts.place.directory = directory
        parts.start.relocated()
        parts.doomed.relocated()
        parts.cycles.relocated(parts.tail.written_offset)
        parts.epochs.dirty = True  # those of batches that are queued are not in the copy
