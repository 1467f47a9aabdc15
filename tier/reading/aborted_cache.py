"""The aborted transactions of archived objects that were read lately, of all partitions of a broker. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from stratalog.tier.objects.aborted_ranges import AbortedRanges
from stratalog.wire.topic import Uuid

__all__ = ["AbortedCache"]

_TRANSACTIONS_MAX: Final = 1_000_000
"""33 MB. Their number in an object is chosen by who writes it."""
_OBJECTS_MAX: Final = 16_384


class AbortedCache:
    """By object; that used longest ago goes first. The one that was read last stays, whatever it holds."""

    def __init__(self, transactions_max: int = _TRANSACTIONS_MAX) -> None:
        self._transactions_max = transactions_max
        self._objects: OrderedDict[Uuid, AbortedRanges] = OrderedDict()
        self.transaction_count = 0
        """Transactions in memory."""

    def get(self, uuid: Uuid) -> AbortedRanges | None:
        """Those of an object; None if they have to be read."""
        found = self._objects.get(uuid)
        if found is not None:
            self._objects.move_to_end(uuid)
        return found

    def keep(self, uuid: Uuid, ranges: AbortedRanges) -> None:
        """Those of an object have been read; others may have to go."""
        self._let_go(uuid)
        self._objects[uuid] = ranges
        self.transaction_count += len(ranges)
        while len(self._objects) > 1 and (
            self.transaction_count > self._transactions_max or len(self._objects) > _OBJECTS_MAX
        ):
            self._let_go(next(iter(self._objects)))

    def _let_go(self, uuid: Uuid) -> None:
        gone = self._objects.pop(uuid, None)
        if gone is not None:
            self.transaction_count -= len(gone)
