"""Which fetch sessions a broker keeps (KIP-227): a limited number, and who must go when there is no room.

A newcomer takes the place of the session that was not used for the longest time, if that is longer than
:data:`EVICTION_MS`. Otherwise it takes that of the least valuable one which it outweighs: a consumer's counts less
than a replica's, few partitions less than many. A session is safe from heavier ones in its first
:data:`EVICTION_MS`, a consumer's only from consumers'. A newcomer that finds no room goes on with full fetches.
Source of the rules: Kafka's ``FetchSessionCacheShard``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, NamedTuple

from stratalog.metadata.fetch_sessions.fetch_session import FetchSession

__all__ = ["EVICTION_MS", "FetchSessionCache"]

EVICTION_MS: Final = 120_000
"""Kafka's ``min.incremental.fetch.session.eviction.ms``, which is no setting there either."""


class _Worth(NamedTuple):
    """The worth of a session, to decide between two; the smaller one goes."""

    privileged: bool
    partition_count: int
    session_id: int


class FetchSessionCache:
    """Sessions by id. ``slots``: how many there may be (``max.incremental.fetch.session.cache.slots``)."""

    __slots__ = ("_by_replicas", "_by_use", "_everyones", "_slots", "eviction_count", "partition_count")

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._by_use: dict[int, FetchSession] = {}  # the one used last is at the end
        self._everyones: list[_Worth] = []
        self._by_replicas: list[_Worth] = []
        self.partition_count = 0
        """Partitions of all sessions."""
        self.eviction_count = 0
        """Sessions that had to make room since start."""

    def __len__(self) -> int:
        """The number of sessions."""
        return len(self._by_use)

    def __contains__(self, session_id: int) -> bool:
        """Whether there is a session with this id."""
        return session_id in self._by_use

    def get(self, session_id: int) -> FetchSession | None:
        """The session, or None."""
        return self._by_use.get(session_id)

    def make_room(self, now_ms: int, *, privileged: bool, partition_count: int) -> tuple[bool, FetchSession | None]:
        """Whether a session of that worth may be added, and the one that had to go for it."""
        if len(self._by_use) < self._slots:
            return True, None
        victim = self._victim(now_ms, _Worth(privileged, partition_count, 0))
        if victim is None:
            return False, None
        self.remove(victim.id)
        self.eviction_count += 1
        return True, victim

    def _victim(self, now_ms: int, newcomer: _Worth) -> FetchSession | None:
        oldest = next(iter(self._by_use.values()), None)
        if oldest is None:
            return None
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            return oldest
        candidates = self._by_replicas if newcomer.privileged else self._everyones
        if not candidates or newcomer < candidates[0]:
            return None
        return self._by_use[candidates[0].session_id]

    def add(self, session: FetchSession, now_ms: int) -> None:
        """Keep a new session, for which there is room."""
        session.cached_size = len(session)
        self._by_use[session.id] = session
        self.partition_count += session.cached_size
        self._rank(session, now_ms)

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """The session is used."""
        by_use = self._by_use
        by_use[session.id] = by_use.pop(session.id)
        session.last_used_ms = now_ms
        size = len(session.partitions)
        if size == session.cached_size and (session.aged or now_ms - session.created_ms <= EVICTION_MS):
            return
        self._unrank(session)
        self.partition_count += size - session.cached_size
        session.cached_size = size
        self._rank(session, now_ms)

    def remove(self, session_id: int) -> FetchSession | None:
        """Forget a session; it, or None if there was none."""
        session = self._by_use.pop(session_id, None)
        if session is not None:
            self._unrank(session)
            self.partition_count -= session.cached_size
        return session

    def _rank(self, session: FetchSession, now_ms: int) -> None:
        worth = _worth(session)
        session.aged = now_ms - session.created_ms > EVICTION_MS
        if session.aged:
            insort(self._everyones, worth)
        if session.aged or not session.privileged:
            insort(self._by_replicas, worth)

    def _unrank(self, session: FetchSession) -> None:
        worth = _worth(session)
        for ranked in (self._everyones, self._by_replicas):
            if _holds(ranked, worth):
                del ranked[bisect_left(ranked, worth)]


def _worth(session: FetchSession) -> _Worth:
    return _Worth(session.privileged, session.cached_size, session.id)


def _holds(ranked: list[_Worth], worth: _Worth) -> bool:
    at = bisect_left(ranked, worth)
    return at < len(ranked) and ranked[at] == worth
