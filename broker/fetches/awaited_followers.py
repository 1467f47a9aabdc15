"""Followers whose first fetch of newly led partitions is awaited: none of their requests is held back for long meanwhile.

A follower has one request under way with each leader. While it waits for records, up to ``replica.fetch.wait.max.ms``, partitions
that this broker has begun to lead are not asked for, so acknowledgements of all replicas would wait as long. Requests that wait are
answered at once, and later ones soon: the follower may hear of the new leader a moment after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Final, Protocol

__all__ = ["AwaitedFollowers"]

_AWAITED_SECONDS: Final = 1.0
"""How long after an election a follower is awaited: all brokers read the metadata log within this time, if they live."""
_WAIT_MS: Final = 20.0
"""How long its requests wait at most meanwhile."""


class WaitingFetch(Protocol):
    """A request that waits."""

    def finish(self) -> None:
        """Answer with what there is, now."""
        ...


class AwaitedFollowers:
    """Those of one broker. ``monotonic`` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._until: dict[int, float] = {}
        self._waiting: dict[int, dict[WaitingFetch, None]] = {}

    def expect(self, broker_ids: Iterable[int]) -> None:
        """A partition that these follow is led here from now on."""
        until = self._monotonic() + _AWAITED_SECONDS
        for broker_id in broker_ids:
            self._until[broker_id] = until
            for fetch in tuple(self._waiting.get(broker_id, ())):
                fetch.finish()

    def wait_ms_max(self, broker_id: int) -> float:
        """How long a request of this follower may wait at most."""
        until = self._until.get(broker_id)
        if until is None:
            return inf
        if self._monotonic() < until:
            return _WAIT_MS
        del self._until[broker_id]
        return inf

    def begin_wait(self, broker_id: int, fetch: WaitingFetch) -> None:
        """A request of this follower waits from now on."""
        self._waiting.setdefault(broker_id, {})[fetch] = None

    def end_wait(self, broker_id: int, fetch: WaitingFetch) -> None:
        """It waits no longer; nothing happens to one that does not wait."""
        waiting = self._waiting.get(broker_id)
        if waiting is not None:
            waiting.pop(fetch, None)
            if not waiting:
                del self._waiting[broker_id]
