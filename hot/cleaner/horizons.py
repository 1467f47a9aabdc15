"""Delete horizons: a tombstone or a marker that is not needed stays for a time after the cleaner first meets it. Pure.

Readers that began earlier then still see it. Source: KIP-534.
"""

from __future__ import annotations

from typing import NamedTuple

from stratalog.hot.cleaner.records import batch_payload, rebuilt_batch, record_spans
from stratalog.hot.config import LONG_MAX
from stratalog.wire.batch import BatchHeader

__all__ = ["HorizonRules", "needless_marker"]


class HorizonRules(NamedTuple):
    """When tombstones and markers go: below ``forgettable_below``, once the horizon set when they were first met is over."""

    now_ms: int
    delete_retention_ms: int
    forgettable_below: int

    @property
    def new_horizon_ms(self) -> int:
        """The horizon of what is met now for the first time. A retention of all time has none that could be written."""
        return min(self.now_ms + self.delete_retention_ms, LONG_MAX)


def needless_marker(
    header: BatchHeader, batch: memoryview, rules: HorizonRules
) -> tuple[memoryview | bytearray | None, bool]:
    """The batch of a marker that is not needed, as it stays, and whether it was rebuilt; None if it goes now.

    Without a horizon it gets one. Raises `Corrupt`.
    """
    if header.has_delete_horizon:
        due = header.base_timestamp <= rules.now_ms and header.last_offset < rules.forgettable_below
        return (None if due else batch), False
    payload = batch_payload(header, batch)
    return rebuilt_batch(header, payload, record_spans(header, payload), rules.new_horizon_ms), True
