"""Decide which records of a batch survive the cleaner. Pure.

A record goes when a later one of its key lies in the section that the map knows, and a tombstone when its delete
horizon has passed. An aborted batch goes, a marker without records before it when its horizon has passed. A batch
from which nothing goes is passed on as it stands. Source: Kafka's ``Cleaner``, KIP-534.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.hot.cleaner.horizons import HorizonRules, needless_marker
from stratalog.hot.cleaner.offset_map import NEWEST, NEWEST_TOMBSTONE, OffsetMap
from stratalog.hot.cleaner.records import (
    Span,
    bare_batch,
    opened_batch,
    rebuilt_batch,
    record_places,
    record_spans,
)
from stratalog.hot.cleaner.transactions import CleanedTransactions
from stratalog.hot.state.producer_snapshot import ProducerEntry
from stratalog.wire.batch import BatchHeader

__all__ = ["BatchFilter", "FilterCounts", "FilterRules", "add_keys"]

_HORIZON: Final = 0x40


class FilterRules(NamedTuple):
    """The rules of one cleaning."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int
    """Where the section that may be cleaned ends: the batch that ends there stays, emptied or not."""
    forgettable_below: int
    """No tombstone or marker at or above this offset goes (of a tiered topic: up to where its archive is cleaned)."""
    epoch_starts: frozenset[int] = frozenset()
    """Where leader epochs above 0 begin: who copies the log learns it from the first batch of each."""


class FilterCounts(Struct):
    """Counts of one cleaning."""

    batches: int = 0
    kept_whole: int = 0
    """Batches passed on as they stood."""
    records: int = 0
    records_kept: int = 0
    forgotten_below: int = 0
    """The offset behind the last tombstone or marker that goes although no later record of its key does its work."""


def add_keys(header: BatchHeader, batch: memoryview, offset_map: OffsetMap, start_offset: int) -> bool:
    """Take the keys of a data batch from ``start_offset`` on into the map; False if the map became too full for it.

    Then ``latest_offset`` is where the last one before that ended. Raises `Corrupt`.
    """
    put, base_offset, limit = offset_map.put, header.base_offset, offset_map.limit
    for _, _, _, delta, key, has_value in opened_batch(header, batch, record_spans)[1]:
        offset = base_offset + delta
        if key is None or offset < start_offset:
            continue
        if offset_map.count >= limit:
            offset_map.latest_offset = max(offset_map.latest_offset, offset - 1)
            return False
        put(key, offset)
        if not has_value:
            offset_map.note_tombstone(offset)
    offset_map.latest_offset = max(offset_map.latest_offset, header.last_offset)
    return True


class BatchFilter:
    """Decides batch by batch, from the first one of the log on."""

    __slots__ = ("_epoch_starts", "_horizons", "_last_offsets", "_map", "_markers", "_rules", "_transactions", "counts")

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        producers: Sequence[ProducerEntry],
        rules: FilterRules,
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._rules = rules
        self._horizons = HorizonRules(rules.now_ms, rules.delete_retention_ms, rules.forgettable_below)
        self._last_offsets: Mapping[int, int] = {
            entry.producer_id: entry.last_offset for entry in producers if entry.last_offset >= 0
        }
        self._markers = {entry.producer_id: entry.producer_epoch for entry in producers if entry.last_offset < 0}
        self._epoch_starts = sorted(rules.epoch_starts, reverse=True)  # those that the walk has not reached
        self.counts = FilterCounts()

    def survivor(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        """The batch as it will stand in the cleaned log; None if it is gone. Raises `Corrupt`."""
        counts = self.counts
        counts.batches += 1
        counts.records += header.record_count
        left = self._control(header, batch) if header.is_control else self._data(header, batch)
        begins_epoch = self._begins_epoch(header)
        if left is None and (begins_epoch or self._stays(header)):
            left = bare_batch(header, batch)
        if left is None and header.is_control and header.record_count:
            counts.forgotten_below = header.next_offset
        if left is batch:
            counts.kept_whole += 1
            counts.records_kept += header.record_count
        return left

    def _stays(self, header: BatchHeader) -> bool:
        """Whether something must be left of the batch, if only its header.

        It holds the last sequence of a producer that is remembered, or its epoch if all it wrote last is a marker; or
        it ends the section, and so says where it ended.
        """
        if header.next_offset == self._rules.end_offset:
            return True
        if header.producer_id < 0:
            return False
        if header.producer_id in self._last_offsets:
            return self._last_offsets[header.producer_id] == header.last_offset
        return header.is_control and self._markers.get(header.producer_id) == header.producer_epoch

    def _begins_epoch(self, header: BatchHeader) -> bool:
        """Whether the batch is the first one where a leader epoch begins: something of it has to stay.

        A replica that took a later batch for the beginning would keep a fork of the epoch before, and contradict its archive.
        The oldest epoch begins with the log, which may begin within a batch, or in a gap.
        """
        starts, begins = self._epoch_starts, False
        while starts and starts[-1] < header.next_offset:
            starts.pop()
            begins = True
        return begins

    def _control(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        needless = self._transactions.is_needless(header, batch)
        if header.record_count == 0:
            return None
        if not needless:
            return batch
        left, rebuilt = needless_marker(header, batch, self._horizons)
        if rebuilt:
            self.counts.records_kept += header.record_count
        return left

    def _data(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        if self._transactions.is_void(header) or header.record_count == 0:
            return None
        if header.base_offset > self._map.latest_offset:
            return batch
        if not header.has_delete_horizon:
            marks = self._map.marks(header.base_offset, header.last_offset)
            if marks is not None and NEWEST_TOMBSTONE not in marks:
                return self._marked(header, batch, marks)
        payload, spans = opened_batch(header, batch, record_spans)
        kept, tombstones = self._kept(header, spans)
        if not kept:
            return None
        horizon_ms = None
        if tombstones and not header.has_delete_horizon and header.last_offset <= self._map.latest_offset:
            horizon_ms = self._horizons.new_horizon_ms
        if horizon_ms is None and len(kept) == len(spans):
            return batch
        self.counts.records_kept += len(kept)
        return rebuilt_batch(header, payload, kept, horizon_ms)

    def _marked(self, header: BatchHeader, batch: memoryview, marks: bytes) -> memoryview | bytearray | None:
        """The same where the map's table knows every offset of the batch, and no tombstone stays."""
        count = marks.count(NEWEST)
        if count == 0:
            return None
        if count == header.record_count:
            return batch
        payload, places = opened_batch(header, batch, record_places)
        kept = [span for span in places if marks[span[3]] == NEWEST]
        self.counts.records_kept += len(kept)
        return rebuilt_batch(header, payload, kept)

    def _kept(self, header: BatchHeader, spans: list[Span]) -> tuple[list[Span], bool]:
        """The records that nothing supersedes, and whether a tombstone is among them.

        One without a key has no place in a compacted log, as in Kafka.
        """
        newest, base_offset, latest = self._map.get, header.base_offset, self._map.latest_offset
        forget_below = self._forget_below(header)
        kept, tombstones = [], False
        for span in spans:
            _, _, _, delta, key, has_value = span
            offset = base_offset + delta
            if offset <= latest:
                if key is None or offset < newest(key):
                    continue
                if not has_value and offset < forget_below:
                    self.counts.forgotten_below = offset + 1
                    continue
            kept.append(span)
            tombstones = tombstones or not has_value
        return kept, tombstones

    def _forget_below(self, header: BatchHeader) -> int:
        """Tombstones of this batch go below this offset."""
        rules = self._rules
        passed = header.attributes & _HORIZON and header.base_timestamp <= rules.now_ms
        return rules.forgettable_below if passed else header.base_offset
