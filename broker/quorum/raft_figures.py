"""The latest work of a replica of the metadata log, counted by the rules of Kafka's ``KafkaRaftMetrics``.

No call asks for the time: each brings it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from stratalog.broker.runtime.windows import Windows
from stratalog.metadata.raft.actions import Action, Append, Committed, LostLeadership
from stratalog.metadata.raft.events import Proposed
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.states import Candidate, Follower, Leader, Prospective

__all__ = ["RaftFigures"]

_UNCOMMITTED_MAX: Final = 1000
"""Appends whose commit is timed at once; those beyond are counted, and not timed."""


class RaftFigures:
    """The figures of one replica. Times are the machine's, in milliseconds."""

    def __init__(self) -> None:
        self.commit_ms, self.election_ms = Windows(), Windows()
        """From the append of records to their commit, by record, as leader; from the first ask for votes to a leader."""
        self.appended, self.fetched = Windows(), Windows()
        """Records appended as leader; records taken over from another leader."""
        self.busy_seconds = Windows()
        self.raft: Raft | None = None
        """The machine, once it has begun."""
        self._election_begun_ms: int | None = None
        self._uncommitted: deque[tuple[int, int, int]] = deque(maxlen=_UNCOMMITTED_MAX)

    def observe(self, event: object, actions: Sequence[Action], raft: Raft, now_ms: int) -> None:
        """The machine ``raft`` has answered an event with these actions."""
        self.raft, role = raft, raft.role
        if isinstance(event, Proposed):
            self.appended.note(event.count, now_ms)
            self._uncommitted.append((raft.log.end_offset, event.count, now_ms))
        for action in actions:
            if isinstance(action, Append) and isinstance(role, Follower):
                self.fetched.note(sum(one.end_offset - one.base_offset for one in action.batches), now_ms)
            elif isinstance(action, Committed):
                self._committed(action.high_watermark, now_ms)
            elif isinstance(action, LostLeadership):
                self._uncommitted.clear()
        if isinstance(role, Prospective | Candidate):
            if self._election_begun_ms is None:
                self._election_begun_ms = now_ms
        elif isinstance(role, Leader | Follower) and self._election_begun_ms is not None:
            self.election_ms.note(now_ms - self._election_begun_ms, now_ms)
            self._election_begun_ms = None

    def busy(self, seconds: float, now_ms: int) -> None:
        """The replica was at work for so long."""
        self.busy_seconds.note(seconds, now_ms)

    def idle_ratio(self, now_ms: int) -> float:
        """The part of the time in which the replica has done nothing."""
        return max(0.0, 1.0 - self.busy_seconds.per_second(now_ms))

    def _committed(self, high_watermark: int, now_ms: int) -> None:
        uncommitted = self._uncommitted
        while uncommitted and uncommitted[0][0] <= high_watermark:
            _, count, appended_ms = uncommitted.popleft()
            self.commit_ms.note((now_ms - appended_ms) / count, now_ms)
