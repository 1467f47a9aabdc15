"""Requests that met a transaction while it was being ended, and wait for the end: for a moment, not for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stratalog.metadata.transactions.events import AddPartitions, InitProducer

__all__ = ["Waiting", "WaitingEvent"]

WaitingEvent = InitProducer | AddPartitions


class _One(Struct):
    event: WaitingEvent
    deadline_ms: int


class Waiting:
    """The requests, by transactional id, each in the order in which they came. Times are monotonic."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[_One]] = {}

    def add(self, event: WaitingEvent, deadline_ms: int) -> None:
        """Let it wait until then."""
        self._by_id.setdefault(event.transactional_id, []).append(_One(event, deadline_ms))

    def ended(self, transactional_id: str) -> list[WaitingEvent]:
        """The end has come: who waited for it may go on."""
        return [one.event for one in self._by_id.pop(transactional_id, ())]

    def late(self, now_ms: int) -> list[WaitingEvent]:
        """Take out the requests that have waited long enough."""
        late = [one.event for one in self._all() if one.deadline_ms <= now_ms]
        if late:
            left = {key: [one for one in ones if one.deadline_ms > now_ms] for key, ones in self._by_id.items()}
            self._by_id = {key: ones for key, ones in left.items() if ones}
        return late

    def deadline(self) -> int | None:
        """When the first one has waited long enough."""
        return min((one.deadline_ms for one in self._all()), default=None)

    def tokens(self) -> list[Any]:
        """The tokens of the outstanding answers."""
        return [one.event.token for one in self._all()]

    def _all(self) -> Iterator[_One]:
        for ones in self._by_id.values():
            yield from ones
