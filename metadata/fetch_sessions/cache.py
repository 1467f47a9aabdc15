"""Which fetch sessions a broker keeps (KIP-227): a limited number, and who must go when there is no room.

A newcomer takes the place of the session that was not used for the longest time, if that is longer than
:data:`EVICTION_MS`. Otherwise it takes that of the least valuable one which it outweighs: a consumer's counts less
than a replica's, few partitions less than many. A session is safe from heavier ones in its first
:data:`EVICTION_MS`, a consumer's only from consumers'. A newcomer that finds no room goes on with full fetches.
Source of the rules: Kafka's ``FetchSessionCacheShard``.

Consumers' partitions are limited besides, those of one session and those of all together: each costs memory and, while
it is dirty, a look at every answer, and a client chooses their number. Kafka limits neither. Replicas' are not
counted: their number is that of the cluster.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, NamedTuple

from stratalog.metadata.fetch_sessions.fetch_session import FetchSession

__all__ = ["EVICTION_MS", "PARTITIONS_MAX", "FetchSessionCache"]

EVICTION_MS: Final = 120_000
"""Kafka's ``min.incremental.fetch.session.eviction.ms``, which is no setting there either."""

PARTITIONS_MAX: Final = 500_000
"""Partitions of all consumers' sessions together, of half a KiB each."""


class _Worth(NamedTuple):
    """The worth of a session, to decide between two; the smaller one goes."""

    privileged: bool
    partition_count: int
    session_id: int


class FetchSessionCache:
    """Sessions by id. ``slots``: how many there may be (``max.incremental.fetch.session.cache.slots``).

    ``session_partitions_max`` and ``partitions_max``: partitions of one consumer's session, and of all consumers'.
    """

    __slots__ = (
        "_by_replicas",
        "_by_use",
        "_consumer_partition_count",
        "_everyones",
        "_partitions_max",
        "_session_partitions_max",
        "_slots",
        "eviction_count",
        "partition_count",
    )

    def __init__(self, slots: int, session_partitions_max: int, partitions_max: int = PARTITIONS_MAX) -> None:
        self._slots = slots
        self._session_partitions_max = session_partitions_max
        self._partitions_max = partitions_max
        self._consumer_partition_count = 0
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

    def make_room_for_partitions(self, now_ms: int, partition_count: int) -> tuple[bool, list[FetchSession]]:
        """Whether a consumer's session with so many partitions may be added, and those that had to go for it.

        First those that were not used for :data:`EVICTION_MS`, then the one with the most, if it has more than the newcomer.
        """
        victims: list[FetchSession] = []
        if partition_count > self._session_partitions_max:
            return False, victims
        while self._consumer_partition_count + partition_count > self._partitions_max:
            victim = self._largest_victim(now_ms, partition_count)
            if victim is None:
                return False, victims
            self.remove(victim.id)
            self.eviction_count += 1
            victims.append(victim)
        return True, victims

    def _largest_victim(self, now_ms: int, partition_count: int) -> FetchSession | None:
        oldest = next((one for one in self._by_use.values() if not one.privileged), None)
        if oldest is None:
            return None
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            return oldest
        # Consumers' sessions are all ranked here, before those of replicas.
        largest = self._by_replicas[bisect_left(self._by_replicas, _Worth(True, 0, 0)) - 1]
        return self._by_use[largest.session_id] if largest.partition_count > partition_count else None

    def may_keep(self, session: FetchSession) -> bool:
        """Whether a session that has grown is within the limits of partitions still."""
        size = len(session.partitions)
        grown_by = size - session.cached_size
        if grown_by <= 0 or session.privileged:
            return True
        return size <= self._session_partitions_max and (
            self._consumer_partition_count + grown_by <= self._partitions_max
        )

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
        self._by_use[session.id] = session
        self._recount(session, len(session))
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
        self._recount(session, size)
        self._rank(session, now_ms)

    def remove(self, session_id: int) -> FetchSession | None:
        """Forget a session; it, or None if there was none."""
        session = self._by_use.pop(session_id, None)
        if session is not None:
            self._unrank(session)
            self._recount(session, 0)
        return session

    def _recount(self, session: FetchSession, partition_count: int) -> None:
        """The session counts with so many partitions from now on."""
        grown_by = partition_count - session.cached_size
        session.cached_size = partition_count
        self.partition_count += grown_by
        if not session.privileged:
            self._consumer_partition_count += grown_by

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
