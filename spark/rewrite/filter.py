"""Filters batches when an archived object is rewritten: by the offsets that stay, or by those that go. Pure.

Remaining records keep offsets and times; a batch that loses no record is passed on as it stands, one that loses
all is left out. The rules for tombstones and markers are those of the local cleaner (`stratalog.hot.cleaner.cleaner`):
they go once their delete horizon has passed, and only below the offset up to which an earlier compaction has cleaned the
whole archive, so that no older record of their key, and no record of their transaction, is left anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from stratalog.hot.cleaner.horizons import HorizonRules, needless_marker
from stratalog.hot.cleaner.records import opened_batch, rebuilt_batch, record_places, record_spans
from stratalog.hot.state.validation import read_end_marker
from stratalog.spark.rows.decode import AbortedTransactions, Window
from stratalog.wire.batch import BatchHeader
from stratalog.wire.errors import Corrupt

__all__ = [
    "Codes",
    "DoomedFilter",
    "FilterCounts",
    "RewriteFilter",
    "SurvivorFilter",
    "aborted_by_producer",
    "code_of",
    "offsets_of",
    "split_unread",
    "unread_code",
]

Codes: TypeAlias = npt.NDArray[np.int64]
"""Offsets, ascending, each twice its value: plus one where a tombstone at that offset asks for a rewrite.

Those below -1 come from a scan: each is a batch that could not be read (`unread_code`).
"""

_OFFSET_MAX: Final = (1 << 62) - 1


@dataclass(slots=True)
class FilterCounts:
    """Records that went through, and those that stay; ``kept_whole`` are batches passed on as they stood."""

    batches: int = 0
    kept_whole: int = 0
    records: int = 0
    records_kept: int = 0
    tombstones_dropped: int = 0


class RewriteFilter(Protocol):
    """Asked about every batch of a range, in order."""

    counts: FilterCounts

    def left(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        """The batch as it will stand; None if it goes. Raises `Corrupt`."""

    def finish(self) -> None:
        """All batches were asked about. Raises `Corrupt` if they do not hold what the filter was made for."""


def code_of(offset: int, *, flagged: bool) -> int:
    """One of `Codes`."""
    return offset << 1 | flagged


def unread_code(base_offset: int) -> int:
    """One of `Codes`, below -1: the batch that begins at ``base_offset`` holds no records that can be read."""
    return ~(base_offset << 1 | 1)


def offsets_of(codes: Codes) -> Codes:
    """The offset of each code, of records and of batches that could not be read."""
    offsets: Codes = np.where(codes < 0, ~codes, codes) >> 1
    return offsets


def split_unread(codes: Codes) -> tuple[Codes, tuple[int, ...]]:
    """The codes of records, ascending, and where the batches begin that could not be read."""
    unread = codes[codes < 0]
    return np.sort(codes[codes >= 0]), tuple(sorted(offsets_of(unread).tolist()))


class SurvivorFilter:
    """Keeps the records at the offsets in ``codes``, and of the rest what producers, markers and horizons ask for.

    Batches that begin at an offset in ``unread`` stay as they stand: no one can say whether they hold the newest of a key.
    """

    __slots__ = (
        "_codes",
        "_ended",
        "_found",
        "_kept_data",
        "_met",
        "_offsets",
        "_rules",
        "_unread",
        "_window",
        "counts",
    )

    def __init__(
        self, codes: Codes, aborted: AbortedTransactions, rules: HorizonRules, unread: Collection[int] = ()
    ) -> None:
        """``aborted`` are all aborted transactions that overlap the range."""
        self._codes = codes
        self._unread = frozenset(unread)
        self._met = 0
        self._offsets = codes >> 1
        self._window = Window(0, _OFFSET_MAX, aborted)
        self._rules = rules
        self._found = 0
        self._ended: set[int] = set()
        self._kept_data: set[int] = set()
        self.counts = FilterCounts()

    def left(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        """See `RewriteFilter`."""
        counts = self.counts
        counts.batches += 1
        counts.records += header.record_count
        left = self._control(header, batch) if header.is_control else self._data(header, batch)
        if left is batch:
            counts.kept_whole += 1
            counts.records_kept += header.record_count
        if left is not None and header.is_transactional and not header.is_control:
            self._kept_data.add(header.producer_id)
        return left

    def finish(self) -> None:
        """See `RewriteFilter`."""
        if self._found != len(self._codes):
            raise Corrupt(
                f"{self._found} of {len(self._codes)} records that are the newest of their keys were found: the objects "
                "do not hold what was read before"
            )
        if self._met != len(self._unread):
            raise Corrupt(
                f"{self._met} of {len(self._unread)} batches that could not be read were found: the objects do not hold "
                "what was read before"
            )

    def _data(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        if not header.record_count or self._window.skips(header):
            return None
        if header.base_offset in self._unread:
            self._met += 1
            return batch
        low, high = np.searchsorted(self._offsets, (header.base_offset, header.next_offset))
        count = int(high - low)
        self._found += count
        if not count:
            return None
        if (self._codes[low:high] & 1).any():
            return self._with_tombstones(header, batch, set(self._offsets[low:high].tolist()))
        if count == header.record_count:
            return batch
        payload, spans = opened_batch(header, batch, record_places)
        wanted = set((self._offsets[low:high] - header.base_offset).tolist())
        kept = [span for span in spans if span[3] in wanted]
        if len(kept) != count:
            raise _strange(header, count, len(kept))
        self.counts.records_kept += count
        return rebuilt_batch(header, payload, kept)

    def _with_tombstones(self, header: BatchHeader, batch: memoryview, wanted: set[int]) -> bytearray | None:
        """The batch with some tombstones that go now, or with the horizon from which on its tombstones may go."""
        rules, base_offset = self._rules, header.base_offset
        payload, spans = opened_batch(header, batch, record_spans)
        spans = [span for span in spans if base_offset + span[3] in wanted]
        if len(spans) != len(wanted):
            raise _strange(header, len(wanted), len(spans))
        over = header.has_delete_horizon and header.base_timestamp <= rules.now_ms
        kept = [span for span in spans if span[5] or not over or base_offset + span[3] >= rules.forgettable_below]
        self.counts.tombstones_dropped += len(spans) - len(kept)
        if not kept:
            return None
        self.counts.records_kept += len(kept)
        return rebuilt_batch(header, payload, kept, None if header.has_delete_horizon else rules.new_horizon_ms)

    def _control(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        """A marker that is not needed gets its horizon, and goes when that is over.

        An abort marker is needed until an earlier compaction has removed its transaction. A commit marker is, unless its
        whole transaction lies in this range and nothing of it stays.
        """
        if not header.record_count:
            return None
        marker = read_end_marker(batch, header)
        if marker is None:
            return batch
        rules = self._rules
        if marker.commit:
            needless = header.producer_id in self._ended and header.producer_id not in self._kept_data
        else:
            needless = header.last_offset < rules.forgettable_below
        self._ended.add(header.producer_id)
        self._kept_data.discard(header.producer_id)
        if not needless:
            return batch
        left, rebuilt = needless_marker(header, batch, rules)
        if rebuilt:
            self.counts.records_kept += header.record_count
        return left


class DoomedFilter:
    """Drops the records at the offsets in ``codes``, of any producer, and keeps all else as it stands."""

    __slots__ = ("_codes", "_found", "_offsets", "counts")

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._offsets = codes >> 1
        self._found = 0
        self.counts = FilterCounts()

    def left(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        """See `RewriteFilter`."""
        counts = self.counts
        counts.batches += 1
        counts.records += header.record_count
        low, high = np.searchsorted(self._offsets, (header.base_offset, header.next_offset))
        count = int(high - low)
        if header.is_control or not count:
            counts.kept_whole += 1
            counts.records_kept += header.record_count
            return batch
        payload, spans = opened_batch(header, batch, record_places)
        doomed = set((self._offsets[low:high] - header.base_offset).tolist())
        kept = [span for span in spans if span[3] not in doomed]
        if len(kept) != header.record_count - count:
            raise _strange(header, count, header.record_count - len(kept))
        self._found += count
        counts.records_kept += len(kept)
        return rebuilt_batch(header, payload, kept) if kept else None

    def finish(self) -> None:
        """See `RewriteFilter`."""
        if self._found != len(self._codes):
            raise Corrupt(
                f"{self._found} of {len(self._codes)} records to be erased were found: the objects do not hold what was "
                "read before"
            )


def _strange(header: BatchHeader, expected: int, found: int) -> Corrupt:
    return Corrupt(
        f"the batch at offset {header.base_offset} holds {found} of {expected} records that were read there before"
    )


def aborted_by_producer(rows: Sequence[tuple[int, int, int, int]]) -> AbortedTransactions:
    """Aborted transactions in the form of `stratalog.spark.rows.decode`."""
    found: dict[int, list[tuple[int, int]]] = {}
    for producer_id, first_offset, last_offset, _ in sorted(set(rows)):
        found.setdefault(producer_id, []).append((first_offset, last_offset))
    return found
