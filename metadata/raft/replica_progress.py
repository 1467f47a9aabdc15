"""A leader's knowledge of the others: how far each has fetched, and when (KIP-595, KIP-853)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice, takewhile
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.metadata.raft.messages import UNKNOWN_OFFSET
from stratalog.metadata.raft.voter_set import ReplicaKey, VoterSet

__all__ = ["NEVER_MS", "OBSERVERS_MAX", "Replica", "ReplicaProgress"]

NEVER_MS = -1
OBSERVERS_MAX: Final = 1000
"""A leader keeps no more observers in mind than so many: anybody may fetch, under any id and directory."""


class Replica(Struct, frozen=True):
    """One replica, voter or observer. Times are ms."""

    key: ReplicaKey
    end_offset: int = UNKNOWN_OFFSET
    """Its fetch offset, below which a voter has synced everything."""
    fetched_ms: int = NEVER_MS
    """When it has fetched last."""
    leader_end_offset: int = 0
    """Where the leader's log ended then."""
    caught_up_ms: int = NEVER_MS
    """When it has last had all that the leader had."""

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> Replica:
        """After a fetch at ``offset``. It has caught up to now, or to its fetch before if that end is reached."""
        caught_up = self.caught_up_ms
        if offset >= leader_end_offset:
            caught_up = now_ms
        elif self.fetched_ms != NEVER_MS and offset >= self.leader_end_offset:
            caught_up = max(caught_up, self.fetched_ms)
        return Replica(self.key, offset, now_ms, leader_end_offset, caught_up)


class ReplicaProgress(Struct, frozen=True):
    """All replicas that have fetched from the leader in its epoch, by (id, directory)."""

    replicas: tuple[Replica, ...] = ()

    def of(self, key: ReplicaKey) -> Replica:
        """The latest state of the replica that ``key`` means: of a voter, only fetches by its directory count."""
        known = (each for each in self._with_id(key.id) if key.matches(each.key))
        return max(known, key=lambda each: each.fetched_ms, default=Replica(key))

    def latest(self, node_id: int) -> ReplicaKey | None:
        """The replica that has fetched last under this id; None if there was none."""
        last = max(self._with_id(node_id), key=lambda each: each.fetched_ms, default=None)
        return None if last is None else last.key

    def fetched(self, key: ReplicaKey, offset: int, leader_end_offset: int, now_ms: int) -> ReplicaProgress:
        """After a fetch of this replica."""
        before = next((each for each in self._with_id(key.id) if each.key == key), Replica(key))
        after = before.fetched(offset, leader_end_offset, now_ms)
        others = (each for each in self.replicas if each.key != key)
        return ReplicaProgress(tuple(sorted((*others, after), key=lambda each: each.key)))

    def _with_id(self, node_id: int) -> Iterator[Replica]:
        """The replicas of a node, one for each of its directories."""
        first = bisect_left(self.replicas, node_id, key=lambda each: each.key.id)
        return takewhile(lambda each: each.key.id == node_id, islice(self.replicas, first, None))

    def bounded(self, voters: VoterSet) -> ReplicaProgress:
        """With `OBSERVERS_MAX` observers at most: those that have not fetched for longest are forgotten."""
        if len(self.replicas) <= OBSERVERS_MAX:
            return self
        observers = [each for each in self.replicas if not voters.has(each.key)]
        surplus = len(observers) - OBSERVERS_MAX
        silent = {each.key for each in nsmallest(surplus, observers, key=lambda each: (each.fetched_ms, each.key))}
        return ReplicaProgress(tuple(each for each in self.replicas if each.key not in silent))

    def remembered(self, voters: VoterSet, since_ms: int) -> ReplicaProgress:
        """Without observers that have not fetched since then."""
        return replace(
            self, replicas=tuple(each for each in self.replicas if each.fetched_ms >= since_ms or voters.has(each.key))
        )

    def high_watermark(self, voters: VoterSet, leader: ReplicaKey, flushed_offset: int) -> int:
        """The offset below which a majority of the voters has everything on disk; -1 if that is not known.

        The leader counts its flushed end, not its end: Kafka counts the latter, and a quorum of one, or a leader with
        one slow follower, then acknowledges records that a power cut takes back.
        """
        ends = sorted(
            (flushed_offset if voter.key.matches(leader) else self.of(voter.key).end_offset for voter in voters),
            reverse=True,
        )
        return ends[len(ends) // 2] if ends else UNKNOWN_OFFSET

    def successors(self, voters: VoterSet, leader: ReplicaKey) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with most of the log first."""
        others = [voter.key for voter in voters.others(leader.id)]
        return tuple(sorted(others, key=lambda key: (-self.of(key).end_offset, key)))
