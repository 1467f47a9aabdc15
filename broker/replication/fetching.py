"""The fetches of one broker, as follower, from one broker that leads. Pure: ``step(event, now_ms)`` returns actions.

One request is in flight at a time. The next one leaves when all that the answer brought is in the logs, as durable as their
topics demand: with sync on ack, on the disk. So a leader may take the offset that is asked for as what the follower will
still have after a power cut, also of a partition that the request does not name, because its session repeats it (KIP-227).

A partition that the leader refuses, or whose records cannot be taken, rests and leaves the session meanwhile; it holds up no
other. So does one that is moved into its leader's log, for that may wait for a bucket that does not answer, and one that is
throttled and behind (`stratalog.broker.replication.throttled_queue`). An answer to what was asked in an earlier epoch is
dropped. A session ends with the registration of its broker, and none begins without one. Sources: Kafka's ``AbstractFetcherThread``, ``FetchSessionHandler``; KIP-73, KIP-101, KIP-227, KIP-595, KIP-903.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf
from typing import Final

from msgspec import Struct

from stratalog.broker.peers.backoff import Backoff
from stratalog.broker.replication.copied_partition import CopiedPartition
from stratalog.broker.replication.fetching_events import (
    Action,
    Answered,
    Ask,
    Correct,
    Event,
    Failed,
    Followed,
    Refused,
    Released,
    Take,
    Taken,
)
from stratalog.broker.replication.throttled_queue import Throttle, ThrottledQueue
from stratalog.hot.replica_state import NO_BROKER_EPOCH
from stratalog.metadata.fetch_sessions.fetch_session import EPOCH_INITIAL, next_epoch
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from stratalog.wire.topic import Uuid

__all__ = ["NAMED_MAX", "FetchLimits", "Fetching"]

NAMED_MAX: Final = 500
"""Partitions that one request names: more would hold the leader's event loop for long. The others follow at once."""

_REST_FIRST_MS: Final = 20
"""The first pause after a refusal: a leader that has just been elected often has not heard of it yet."""

_NO_SESSION: Final = 0

_SHARE_BYTES_MAX: Final = 4 << 20
"""The most that one partition may bring where few have news: as much as a leader writes before it syncs, so both sync as often."""

_WAIT_MOVING_MS: Final = 20

_WAIT_APART_MS: Final = 10
"""How long a request may wait at first while a partition takes what has come outside of the session; then as long as that has lasted."""


class FetchLimits(Struct, frozen=True, kw_only=True):
    """Kafka's settings of a follower, as they are now."""

    wait_ms: int
    """``replica.fetch.wait.max.ms``"""
    min_bytes: int
    """``replica.fetch.min.bytes``"""
    max_bytes: int
    """``replica.fetch.response.max.bytes``"""
    partition_max_bytes: int
    """``replica.fetch.max.bytes``"""
    backoff_ms: int
    """``replica.fetch.backoff.ms``: the longest pause after a failure."""

    def bytes_of_one(self, count: int) -> int:
        """The bytes to ask of one of ``count`` partitions with news: its share of an answer, if that is more than its own limit."""
        return max(self.partition_max_bytes, min(_SHARE_BYTES_MAX, self.max_bytes // max(count, 1)))


class Fetching:
    """The machine for one leader."""

    def __init__(
        self,
        local_id: int,
        limits: Callable[[], FetchLimits],
        draw: Callable[[], float],
        throttle: Throttle | None = None,
    ) -> None:
        """``draw`` gives numbers from 0.0 up to but without 1.0, for jitter."""
        self._local_id = local_id
        self._limits = limits
        self._draw = draw
        self.broker_epoch = NO_BROKER_EPOCH
        """The registration under which this broker fetches (KIP-903); -1 without one, and then it does not."""
        self._asked_as = NO_BROKER_EPOCH
        """The registration of the requests so far."""
        self._copied: dict[PartitionKey, CopiedPartition] = {}
        self._in_flight = False
        self._is_outdated = False
        """Whether the request in flight is of an earlier registration."""
        self._busy = 0
        self._apart_bytes, self._apart_since_ms = 0, 0
        """The bytes that partitions take outside of the session."""
        self._session_id = _NO_SESSION
        self._session_epoch = EPOCH_INITIAL
        self._named: dict[PartitionKey, CopiedPartition] = {}
        """The partitions that the request in flight names, and those of its session."""
        self._news: dict[PartitionKey, None] = {}
        """Partitions that the next request names, in order."""
        self._gone: dict[PartitionKey, None] = {}
        """Partitions that the next request takes out of the session."""
        self._resting: dict[PartitionKey, None] = {}
        self._moving: dict[PartitionKey, None] = {}
        """Partitions whose position is being corrected by what their leader says."""
        self._throttled = ThrottledQueue(throttle)
        self._failures = 0
        self._rest_until_ms: float = 0

    def __len__(self) -> int:
        """The partitions that are copied."""
        return len(self._copied)

    @property
    def wake_at_ms(self) -> float:
        """When to say `Ticked` at the latest; infinite for never."""
        if self._in_flight or self._busy or self.broker_epoch == NO_BROKER_EPOCH:
            return inf
        throttled = len(self._throttled) > 0
        if self._failures and (self._news or self._named or throttled):
            return self._rest_until_ms
        due_ms = min((self._copied[key].due_ms for key in self._resting), default=inf)
        return min(due_ms, self._throttled.look_at_ms) if throttled else due_ms

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take in an event. ``now_ms`` never goes back."""
        actions: list[Action] = []
        if self.broker_epoch != self._asked_as:
            self._register()
        if isinstance(event, Followed):
            self._follow(event)
        elif isinstance(event, Released):
            self._release(event.key)
        elif isinstance(event, Answered):
            was_outdated, self._in_flight, self._is_outdated = self._is_outdated, False, False
            if not was_outdated:
                self._answered(event.response, now_ms, actions)
        elif isinstance(event, Failed):
            self._in_flight = self._is_outdated = False
            self._pause(now_ms)
        elif isinstance(event, Taken | Refused):
            self._applied(event, now_ms)
        self._ask(now_ms, actions)
        return actions

    def _register(self) -> None:
        """Name every partition again: the leader counts what a session says under the registration that began it."""
        self._asked_as = self.broker_epoch
        self._is_outdated = self._in_flight
        self._end_session()

    # -- what is copied -------------------------------------------------------------------------------------

    def _follow(self, event: Followed) -> None:
        self._release(event.key)
        copied = self._copied[event.key] = CopiedPartition(event.leader_epoch, event.position)
        self._want(event.key, copied)

    def _want(self, key: PartitionKey, copied: CopiedPartition) -> None:
        """Name it in the next request, or when its turn comes if it is throttled."""
        if not self._is_held(key, copied):
            self._news[key] = None

    def _is_held(self, key: PartitionKey, copied: CopiedPartition) -> bool:
        if not copied.is_behind or not self._throttled.holds(key):
            return False
        self._news.pop(key, None)
        self._leave_session(key)
        return True

    def _release(self, key: PartitionKey) -> None:
        copied = self._copied.pop(key, None)
        if copied is None:
            return
        self._busy -= copied.is_busy
        self._apart_bytes -= copied.apart_bytes
        self._news.pop(key, None)
        self._resting.pop(key, None)
        self._moving.pop(key, None)
        self._throttled.discard(key)
        self._leave_session(key)

    def _leave_session(self, key: PartitionKey) -> None:
        if self._named.pop(key, None) is not None:
            self._gone[key] = None

    def _rest(self, key: PartitionKey, copied: CopiedPartition, due_ms: float) -> None:
        copied.due_ms = due_ms
        self._news.pop(key, None)
        self._throttled.discard(key)
        if due_ms < inf:
            self._resting[key] = None
        self._leave_session(key)

    def _rest_after_failure(self, key: PartitionKey, copied: CopiedPartition, now_ms: int) -> None:
        self._rest(key, copied, now_ms + self._pause_ms(copied.failures))
        copied.failures += 1

    # -- answers --------------------------------------------------------------------------------------------

    def _answered(self, response: FetchResponse, now_ms: int, actions: list[Action]) -> None:
        if response.error_code:
            if self._session_id == _NO_SESSION:
                self._pause(now_ms)
            else:  # the leader has let go of the session, or does not know this request: begin anew
                self._end_session()
            return
        self._failures = 0
        asked = self._named
        if response.session_id == _NO_SESSION:
            self._end_session()
        else:
            self._session_id = response.session_id
            self._session_epoch = next_epoch(self._session_epoch)
        for topic in response.responses:
            for data in topic.partitions:
                key = PartitionKey(topic.topic_id, data.partition_index)
                copied = self._copied.get(key)
                if copied is not None and asked.get(key) is copied:
                    self._partition_answered(key, copied, data, now_ms, actions)

    def _partition_answered(
        self, key: PartitionKey, copied: CopiedPartition, data: PartitionData, now_ms: int, actions: list[Action]
    ) -> None:
        code = data.error_code
        if not code:
            copied.leader_high_watermark = data.high_watermark
            actions.append(Take(key, copied.leader_epoch, data))
        elif code in {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE}:
            copied.is_away = True
            self._rest(key, copied, inf)
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._moving[key] = None
            actions.append(Correct(key, copied.leader_epoch, code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE))
            return
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            self._rest(key, copied, inf)
            return
        else:
            self._rest_after_failure(key, copied, now_ms)
            return
        # Megabytes to write and sync, a checkpoint of a log start, or a long cut: records of the others do not wait for that.
        new_start = data.log_start_offset > copied.position.log_start_offset
        if (copied.lags and data.records) or new_start or data.diverging_epoch is not None:
            self._apart_since_ms = self._apart_since_ms if self._apart_bytes else now_ms
            copied.apart_bytes = len(data.records or b"") or 1
            self._apart_bytes += copied.apart_bytes
            self._leave_session(key)
        elif not copied.is_busy:
            copied.is_busy = True
            self._busy += 1

    def _applied(self, event: Taken | Refused, now_ms: int) -> None:
        copied = self._copied.get(event.key)
        if copied is None or not copied.is_taking or copied.leader_epoch != event.leader_epoch:
            return
        self._busy -= copied.is_busy
        self._apart_bytes -= copied.apart_bytes
        copied.is_busy = copied.is_away = copied.lags = False
        copied.apart_bytes = 0
        self._moving.pop(event.key, None)
        if isinstance(event, Refused):
            copied.position = event.position
            self._rest_after_failure(event.key, copied, now_ms)
            return
        copied.failures = 0
        has_moved, copied.position = event.position != copied.position, event.position
        copied.is_behind = copied.lags = event.position.offset < copied.leader_high_watermark
        if not copied.is_behind:
            self._throttled.discard(event.key)
        if not self._is_held(event.key, copied) and (has_moved or event.key not in self._named):
            self._news[event.key] = None

    def _pause(self, now_ms: int) -> None:
        """Leave the leader alone for a while, and begin a new session with it afterwards."""
        self._end_session()
        self._rest_until_ms = now_ms + self._pause_ms(self._failures)
        self._failures += 1

    def _pause_ms(self, failures: int) -> int:
        return Backoff(_REST_FIRST_MS, max(_REST_FIRST_MS, self._limits().backoff_ms)).after(failures, self._draw)

    def _end_session(self) -> None:
        self._session_id, self._session_epoch = _NO_SESSION, EPOCH_INITIAL
        self._news.update(dict.fromkeys(self._named))
        self._named = {}
        self._gone.clear()

    # -- requests -------------------------------------------------------------------------------------------

    def _ask(self, now_ms: int, actions: list[Action]) -> None:
        """Send the next request, if nothing keeps it back."""
        if self._in_flight or self._busy or (self._failures and now_ms < self._rest_until_ms):
            return
        if self.broker_epoch == NO_BROKER_EPOCH:  # the leader would know copies under -1 as long as they are idle
            return
        if self._apart_bytes >= self._limits().max_bytes:  # memory: as much again may come with the next answer
            return
        for key in [key for key in self._resting if self._copied[key].due_ms <= now_ms]:
            del self._resting[key]
            self._want(key, self._copied[key])
        self._let_throttled_out(now_ms)
        if not self._news and not self._named:
            # With one that may be asked for later the session goes on.
            if not self._throttled and not self._apart_bytes:
                self._session_id, self._session_epoch = _NO_SESSION, EPOCH_INITIAL
                self._gone.clear()
            return
        named = [key for _, key in zip(range(NAMED_MAX), self._news, strict=False)]
        for key in named:
            del self._news[key]
            self._named[key] = self._copied[key]
        gone = [key for key in self._gone if key not in self._named]
        self._gone.clear()
        self._in_flight = True
        actions.append(Ask(self._request(named, gone, now_ms)))

    def _let_throttled_out(self, now_ms: int) -> None:
        for key in self._throttled.take_back(now_ms):
            self._news.pop(key, None)
            self._leave_session(key)
        if self._throttled:
            self._news.update(dict.fromkeys(self._throttled.let_out(self._limits().partition_max_bytes, now_ms)))

    def _wait_ms(self, limits: FetchLimits, now_ms: int) -> int:
        """How long the leader may wait for records: not while there is more to be named, or a throttled partition's turn comes.

        Nor while it is asked for the ends of a log, which it answers after this request: they would be those of before.
        """
        if self._news:
            return 0
        wait_ms = min(limits.wait_ms, _WAIT_MOVING_MS) if self._moving else limits.wait_ms
        if self._apart_bytes:
            wait_ms = min(wait_ms, max(_WAIT_APART_MS, now_ms - self._apart_since_ms))
        if not self._throttled:
            return wait_ms
        return min(wait_ms, max(1, ceil(self._throttled.look_at_ms - now_ms)))

    def _request(self, named: Sequence[PartitionKey], gone: Iterable[PartitionKey], now_ms: int) -> FetchRequest:
        limits = self._limits()
        # Those that are named bring most of the answer. The others of the session were idle when it was asked last.
        share_bytes = limits.bytes_of_one(len(named))
        topics: dict[Uuid, FetchTopic] = {}
        for key in named:
            topic = topics.setdefault(key.topic_id, FetchTopic(topic="", topic_id=key.topic_id, partitions=[]))
            max_bytes = limits.partition_max_bytes if self._throttled.is_out(key) else share_bytes
            topic.partitions.append(_wanted(key, self._copied[key], max_bytes))
        forgotten: dict[Uuid, ForgottenTopic] = {}
        for key in gone:
            left = forgotten.setdefault(key.topic_id, ForgottenTopic(topic="", topic_id=key.topic_id, partitions=[]))
            left.partitions.append(key.number)
        return FetchRequest(
            replica_id=self._local_id,
            replica_state=ReplicaState(replica_id=self._local_id, replica_epoch=self.broker_epoch),
            max_wait_ms=self._wait_ms(limits, now_ms),
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
            rack_id="",
        )


def _wanted(key: PartitionKey, copied: CopiedPartition, max_bytes: int) -> FetchPartition:
    position = copied.position
    return FetchPartition(
        partition=key.number,
        current_leader_epoch=copied.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_epoch,
        log_start_offset=position.log_start_offset,
        partition_max_bytes=max_bytes,
    )
