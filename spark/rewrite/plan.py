"""Which objects a rewriting run takes together, and up to where a compaction goes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from stratalog.spark.rewrite.group import Group
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest

__all__ = ["OBJECTS_MAX", "clean_end", "plan_groups", "run_borders"]

OBJECTS_MAX: Final = 64
"""Objects that one job of a run takes: as many lines has it in the manifest."""
_OFFSETS_MAX: Final = 2**31 - 1


def clean_end(entries: Sequence[Entry], *, now_ms: int, lag_ms: int) -> int:
    """Up to where ``entries`` may be compacted: before the first one with a record that is younger than ``lag_ms``."""
    end = entries[0].base if entries else 0
    for entry in entries:
        if lag_ms > 0 and entry.max_timestamp_ms > now_ms - lag_ms:
            break
        end = entry.end
    return end


def run_borders(manifest: Manifest) -> frozenset[int]:
    """Offsets that no new object may reach across: where cuts begin and end."""
    return frozenset({pin.remote_end for pin in manifest.pins} | {pin.log_start_offset for pin in manifest.pins})


def plan_groups(
    partition: PartitionId,
    entries: Iterable[Entry],
    *,
    bytes_max: int,
    first_number: int = 0,
    no_crossing: Collection[int] = (),
    forgettable_below: int = 0,
) -> list[Group]:
    """Neighbours that are together no larger than ``bytes_max`` data bytes; a larger object is a group of its own."""
    groups: list[list[Entry]] = []
    size_bytes = 0
    for entry in entries:
        last = groups[-1] if groups else None
        if (
            last is None
            or size_bytes + entry.data_bytes > bytes_max
            or len(last) == OBJECTS_MAX
            or entry.end - last[0].base > _OFFSETS_MAX
            or entry.base in no_crossing
        ):
            groups.append([])
            size_bytes = 0
        groups[-1].append(entry)
        size_bytes += entry.data_bytes
    return [_group(first_number + index, partition, each, forgettable_below) for index, each in enumerate(groups)]


def _group(number: int, partition: PartitionId, entries: Sequence[Entry], forgettable_below: int) -> Group:
    return Group(
        number,
        partition,
        entries[0].base,
        entries[-1].end,
        sum(entry.data_bytes for entry in entries),
        sum(entry.record_count for entry in entries),
        all(not entry.control_batch_count and not entry.aborted_count for entry in entries),
        tuple(entry.uuid for entry in entries),
        forgettable_below,
    )
