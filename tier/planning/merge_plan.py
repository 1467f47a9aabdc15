"""Chooses small objects to merge: many neighbours, together no larger than an object should be. Pure.

A topic that is written to now and then leaves an object each time its segment freezes. Each of them costs a request to
read, a line in the manifest and, in many stores, a minimum charge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest

__all__ = ["OBJECTS_MAX", "MergeSettings", "borders", "plan_merge"]

OBJECTS_MAX: Final = 256
"""Objects that one merge takes at most: its job in the manifest has a line for each."""
_SMALL: Final = 4
"""An object is small if this many of its size fit into the largest object of a merge."""
_OFFSETS_MAX: Final = 2**31 - 1


class MergeSettings(NamedTuple):
    """At least ``objects_min`` neighbours become one object of at most ``bytes_max`` data bytes; 0 objects: never."""

    objects_min: int
    bytes_max: int


def borders(manifest: Manifest) -> frozenset[int]:
    """Offsets that no merged object may reach across: where cuts begin and end, and what others rewrite just now."""
    ends = {pin.remote_end for pin in manifest.pins}
    return frozenset(ends | {pin.log_start_offset for pin in manifest.pins} | {manifest.archive_clean_offset})


def plan_merge(
    entries: Iterable[Entry], settings: MergeSettings, *, no_crossing: Collection[int] = ()
) -> tuple[Entry, ...]:
    """The oldest neighbours that are worth a merge; empty if none are.

    No object larger than a quarter of ``bytes_max`` is touched, so that none is rewritten again and again. Offsets of
    ``no_crossing`` are never inside the result, unless they are inside one of ``entries`` already.
    """
    if settings.objects_min < 2:
        return ()
    run: list[Entry] = []
    total_bytes = 0
    for entry in entries:
        small = entry.data_bytes * _SMALL <= settings.bytes_max
        fits = (
            total_bytes + entry.data_bytes <= settings.bytes_max
            and len(run) < OBJECTS_MAX
            and (not run or entry.end - run[0].base <= _OFFSETS_MAX)
            and entry.base not in no_crossing
        )
        if run and not (small and fits):
            if len(run) >= settings.objects_min:
                break
            run, total_bytes = [], 0
        if small:
            run.append(entry)
            total_bytes += entry.data_bytes
    return tuple(run) if len(run) >= settings.objects_min else ()
