"""The segments and snapshots of a log, read from the names in its directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stratalog.hot.recovery.damage import refusal
from stratalog.hot.recovery.interrupted import NAMED
from stratalog.hot.recovery.opening import OpenRequest
from stratalog.hot.recovery.snapshots import SNAPSHOT
from stratalog.hot.segments.segment import SUFFIXES, Segment, segment_path
from stratalog.hot.storage.filesystem import Entry

__all__ = ["listed_segments", "listed_snapshots", "noted_ranges"]


def listed_segments(request: OpenRequest, entries: Iterable[Entry], lost: Sequence[int] = ()) -> list[Segment]:
    """A segment of every ``.log`` file, in the order of offsets; each but the last ends where the next one begins.

    A log that has lost them all (``lost``, the bases) has an empty one: it is damaged, and no new log. Raises `Corrupt` for it
    where the request wants that.
    """
    logs = _named(entries, SUFFIXES[0]) or _gone(request, lost)
    ends: list[int | None] = [offset for offset, _ in logs[1:]]
    return [
        Segment(
            request.files,
            request.directory,
            base_offset,
            request.config,
            request.cache,
            size_bytes=entry.size_bytes,
            next_offset=end,
            frozen=end is not None,
            first_append_ms=entry.modified_ms if entry.size_bytes else -1,
        )
        for (base_offset, entry), end in zip(logs, [*ends, None][: len(logs)], strict=True)
    ]


def _gone(request: OpenRequest, lost: Sequence[int]) -> list[tuple[int, Entry]]:
    if lost and request.refuse_damage:
        path = segment_path(request.directory, lost[-1], SUFFIXES[0])
        raise refusal(f"{path} is gone, and had been flushed up to offset {request.recovery_point}")
    return [(base_offset, Entry("", 0, 0, is_directory=False)) for base_offset in lost[-1:]]


def listed_snapshots(entries: Iterable[Entry]) -> list[int]:
    """The offsets of the producer snapshots."""
    return [offset for offset, _ in _named(entries, SNAPSHOT)]


def noted_ranges(entries: Iterable[Entry]) -> set[int]:
    """The base offsets of missing ranges that have a note."""
    return {offset for offset, _ in _named(entries, SUFFIXES[4])}


def _named(entries: Iterable[Entry], suffix: str) -> list[tuple[int, Entry]]:
    found = []
    for entry in entries:
        match = NAMED.fullmatch(entry.name)
        if match is not None and match[2] == suffix:
            found.append((int(match[1]), entry))
    return found
