"""Checks the entries of one manifest in offset order: continuous, in the order of epochs, and as the manifest sums up.

Pure, and bounded: nothing is kept of an entry but where it ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from stratalog.tier.documents.keys import SegmentKey, parse_key
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.manifest import Manifest, Totals
from stratalog.wire.errors import Invalid

__all__ = ["EntryWalk", "epoch_order_fault"]


def epoch_order_fault(epochs: Sequence[LeaderEpoch]) -> str:
    """Describe the fault of a list of epochs; empty if both epochs and their first offsets rise."""
    for before, after in pairwise(epochs):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            return f"epoch {after.epoch} from offset {after.start_offset} follows {before.epoch} from {before.start_offset}"
    return ""


class EntryWalk:
    """Give it every live entry in order, then `finish`. Report with `skip` what was passed over (an unreadable page)."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._known_epochs = {epoch for epoch, _ in manifest.leader_epochs}
        self._due: int | None = None
        self._first = manifest.remote_end
        self._last_epoch = -1
        self._totals = [0, 0, 0]
        self._whole = True

    def add(self, entry: Entry) -> Iterator[Anomaly]:
        """Find the faults of the entry, and between it and the one before."""
        if self._due is None:
            self._first = entry.base
        elif entry.base > self._due:
            yield self._found(
                AnomalyKind.OFFSET_GAP,
                entry.key,
                self._due,
                f"offsets {self._due} to {entry.base - 1} are in no object",
            )
        elif entry.base < self._due:
            detail = f"it begins at offset {entry.base}, the entry before it ends at {self._due}"
            yield self._found(AnomalyKind.OFFSET_OVERLAP, entry.key, entry.base, detail)
        yield from self._check_epochs(entry)
        yield from self._check_key(entry)
        self._due = max(entry.end, self._due or 0)
        for index, value in enumerate((1, entry.size_bytes, entry.record_count)):
            self._totals[index] += value

    def skip(self, end: int) -> None:
        """Entries up to offset ``end`` could not be read: sums cannot be compared, the walk goes on behind them."""
        self._whole = False
        if self._due is None:
            self._first = self._manifest.log_start_offset
        self._due = end

    def _check_epochs(self, entry: Entry) -> Iterator[Anomaly]:
        fault = epoch_order_fault(entry.epochs)
        if not fault and entry.epochs:
            first, last = entry.epochs[0].epoch, entry.epochs[-1].epoch
            unknown = [epoch for epoch, _ in entry.epochs if epoch not in self._known_epochs]
            if first < self._last_epoch:
                fault = f"its first epoch is {first}, the entry before it ends in epoch {self._last_epoch}"
            elif last > entry.epoch:
                fault = f"it was uploaded by the leader of epoch {entry.epoch} and holds batches of epoch {last}"
            elif unknown:
                fault = f"epoch {unknown[0]} is not in the manifest's history of epochs"
            self._last_epoch = max(last, self._last_epoch)
        if fault:
            yield self._found(AnomalyKind.EPOCH_ORDER, entry.key, entry.base, fault)

    def _check_key(self, entry: Entry) -> Iterator[Anomaly]:
        partition = self._manifest.partition
        try:
            key = parse_key(entry.key)
        except Invalid:
            key = None
        if (
            not isinstance(key, SegmentKey)
            or (key.topic_id, key.partition) != (partition.topic_id, partition.partition)
            or (key.base, key.end) != (entry.base, entry.end)
        ):
            detail = f"the entry of offsets [{entry.base}, {entry.end}) names an object of something else"
            yield self._found(AnomalyKind.FOREIGN_KEY, entry.key, entry.base, detail)

    def finish(self) -> Iterator[Anomaly]:
        """Find the faults of the manifest's own figures."""
        manifest, key = self._manifest, self._manifest.partition.manifest_key
        fault = epoch_order_fault(manifest.leader_epochs)
        if fault:
            yield self._found(AnomalyKind.EPOCH_ORDER, key, -1, fault)
        end = manifest.remote_end if self._due is None else self._due
        if end != manifest.remote_end:
            detail = f"the entries end at offset {end}, the manifest says {manifest.remote_end}"
            yield self._found(AnomalyKind.WRONG_BOUNDS, key, manifest.remote_end, detail)
        if manifest.log_start_offset < self._first:
            detail = f"the log starts at offset {manifest.log_start_offset}, the first entry at {self._first}"
            yield self._found(AnomalyKind.WRONG_BOUNDS, key, manifest.log_start_offset, detail)
        totals = Totals(*self._totals)
        if self._whole and totals != manifest.totals:
            detail = f"the entries add up to {_words(totals)}, the manifest says {_words(manifest.totals)}"
            yield self._found(AnomalyKind.WRONG_BOUNDS, key, -1, detail)

    def _found(self, kind: AnomalyKind, key: str, offset: int, detail: str) -> Anomaly:
        partition = self._manifest.partition
        return Anomaly(kind, partition.topic, partition.partition, key, offset, detail)


def _words(totals: Totals) -> str:
    return f"{totals.segments} objects, {totals.size_bytes} bytes, {totals.records} records"
