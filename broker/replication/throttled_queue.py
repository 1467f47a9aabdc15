"""The partitions whose copying is throttled and that are behind: few of them are asked for at a time, in turns. Pure.

A partition waits here outside the fetch session, so the leader sends nothing of it. As many are let out as the allowance has
room for by the bytes that one of them may bring, at least one while anything is allowed. One whose records have come goes to the
end of the queue. Partitions that are in sync, or not throttled, never come here. Source: Kafka's
``ReplicaFetcherThread.shouldFollowerThrottle``.
"""

from __future__ import annotations

from itertools import islice
from typing import Final, Protocol

from stratalog.metadata.image.partition_index import PartitionKey

__all__ = ["Throttle", "ThrottledQueue"]

_LOOK_AGAIN_MS: Final = 1000
"""The rate and the lists of throttled replicas may change meanwhile, which is found by looking."""


class Throttle(Protocol):
    """The follower's throttle: `stratalog.broker.requests.replication_throttle.ReplicationThrottle`."""

    def is_key_throttled(self, key: PartitionKey, /) -> bool:
        """Whether this broker's replica of the partition is named as throttled."""

    def allowed_bytes(self, now_ms: float, /) -> float:
        """The bytes that may be asked for now; none while it is not above 0."""

    def wait_ms(self, now_ms: float, /) -> float:
        """How long until something is allowed."""


class ThrottledQueue:
    """The throttled partitions of one leader."""

    __slots__ = ("_lists_due_ms", "_out", "_throttle", "_waiting", "look_at_ms")

    def __init__(self, throttle: Throttle | None) -> None:
        """Without a ``throttle`` nothing is held."""
        self._throttle = throttle
        self._waiting: dict[PartitionKey, None] = {}
        self._out: dict[PartitionKey, None] = {}
        """Those that are asked for."""
        self._lists_due_ms = 0
        """When to look which of them are still throttled."""
        self.look_at_ms: float = 0
        """When something may be allowed again, for those that wait."""

    def __len__(self) -> int:
        """The partitions that wait."""
        return len(self._waiting)

    def holds(self, key: PartitionKey) -> bool:
        """Take a partition that is behind in if it is throttled; whether it was."""
        self.discard(key)
        if self._throttle is None or not self._throttle.is_key_throttled(key):
            return False
        self._waiting[key] = None
        return True

    def is_out(self, key: PartitionKey) -> bool:
        """Whether it is throttled and asked for: it may bring no more than was reckoned with."""
        return key in self._out

    def discard(self, key: PartitionKey) -> None:
        """It is not to be asked for, or is in sync."""
        self._waiting.pop(key, None)
        self._out.pop(key, None)

    def take_back(self, now_ms: int) -> list[PartitionKey]:
        """Those that are asked for and may not be any longer; they wait again."""
        throttle = self._throttle
        if throttle is None or not self._out or throttle.allowed_bytes(now_ms) > 0:
            return []
        back = [key for key in self._out if throttle.is_key_throttled(key)]
        self._out.clear()
        self._waiting.update(dict.fromkeys(back))
        return back

    def let_out(self, bytes_each: int, now_ms: int) -> list[PartitionKey]:
        """Those to be asked for from now on, if each may bring ``bytes_each``."""
        throttle = self._throttle
        if throttle is None or not self._waiting:
            return []
        free: list[PartitionKey] = []
        if now_ms >= self._lists_due_ms:
            self._lists_due_ms = now_ms + _LOOK_AGAIN_MS
            free = [key for key in self._waiting if not throttle.is_key_throttled(key)]
        allowed = throttle.allowed_bytes(now_ms)
        room = max(1, int(allowed / max(bytes_each, 1))) - len(self._out) if allowed > 0 else 0
        for key in free:
            del self._waiting[key]
        turn = list(islice(self._waiting, max(room, 0)))
        for key in turn:
            del self._waiting[key]
            self._out[key] = None
        wait_ms = _LOOK_AGAIN_MS if allowed > 0 else min(throttle.wait_ms(now_ms), _LOOK_AGAIN_MS)
        self.look_at_ms = now_ms + max(wait_ms, 1)
        return free + turn
