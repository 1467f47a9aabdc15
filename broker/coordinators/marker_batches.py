"""Decides which markers go to which other broker, and when. Pure: ``step(event, now_ms)`` returns actions.

Each broker has one request in flight, with the markers of many transactions; those that come meanwhile go with the next.
Markers wait by partition, and the leader of a partition is looked up anew before each try. A broker that fails is left
alone for a while, a partition without a leader, or whose broker refuses it for now, rests for :data:`RETRY_MS`; neither holds
up the others. A partition has one marker of a producer in flight: a second one would end the producer's next transaction,
if it came late. Sources: Kafka's ``TransactionMarkerChannelManager``, ``TransactionMarkerRequestCompletionHandler``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from math import inf
from typing import Final, NamedTuple

from stratalog.broker.peers.backoff import Backoff
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition

__all__ = [
    "RETRY_MS",
    "Action",
    "Answered",
    "End",
    "Event",
    "Failed",
    "MarkerBatches",
    "Moved",
    "Place",
    "Refused",
    "Send",
    "Ticked",
    "Unwanted",
    "Wanted",
]

RETRY_MS: Final = 100
"""The rest of a partition that cannot take markers now."""

MARKERS_MAX: Final = 250
"""Markers in one request, counted by partition: the other broker appends them in one turn of its event loop."""

_BACKOFF: Final = Backoff(RETRY_MS, 1000)

_FINAL: Final = frozenset({0, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Outcomes that another try does not change."""


class Place(Enum):
    """The place of a partition that no other broker leads."""

    HERE = "led by this broker"
    GONE = "deleted"
    NOWHERE = "without a leader that could be reached"


_ENDED_BY: Final = {
    Place.HERE: int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    Place.GONE: int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


class Wanted(NamedTuple):
    """A new marker, under a number of the caller's."""

    number: int
    partition: TopicPartition
    producer_id: int


class Answered(NamedTuple):
    """A broker has answered its request: a code for each producer id and partition."""

    broker_id: int
    codes: Mapping[tuple[int, TopicPartition], int]


class Failed(NamedTuple):
    """The request to a broker has no answer; its markers may stand or not."""

    broker_id: int


class Unwanted(NamedTuple):
    """These markers of the request that was to be sent are not wanted any more, and were left out."""

    broker_id: int
    numbers: frozenset[int]


class Moved(NamedTuple):
    """Partitions may have other leaders now."""


class Ticked(NamedTuple):
    """It is `MarkerBatches.wake_at_ms`, or a little later."""


Event = Wanted | Answered | Failed | Unwanted | Moved | Ticked


class Send(NamedTuple):
    """Send these markers in one request, and say `Answered` or `Failed`."""

    broker_id: int
    numbers: tuple[int, ...]


class End(NamedTuple):
    """A marker needs no more work. ``code`` is 0 where it stands.

    NOT_LEADER_OR_FOLLOWER: this broker leads the partition now. UNKNOWN_TOPIC_OR_PARTITION: it was deleted.
    """

    number: int
    code: int


class Refused(NamedTuple):
    """A broker has refused a partition's markers for now; ``tries`` in a row."""

    broker_id: int
    partition: TopicPartition
    code: int
    tries: int


Action = Send | End | Refused


class _Lane:
    """The markers of one partition."""

    __slots__ = ("in_flight", "queued_at", "rests", "tries", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, None] = {}
        self.in_flight: dict[int, int] = {}
        """By producer id."""
        self.queued_at: int | None = None
        """The broker whose next request takes them."""
        self.rests = False
        self.tries = 0


class _Queue:
    """One broker: the partitions with markers for it, and its request."""

    __slots__ = ("failures", "in_flight", "lanes", "not_before_ms")

    def __init__(self) -> None:
        self.lanes: dict[TopicPartition, None] = {}
        self.in_flight: tuple[int, ...] = ()
        self.failures = 0
        self.not_before_ms = 0


class MarkerBatches:
    """The markers that are on their way to other brokers."""

    def __init__(
        self,
        route: Callable[[TopicPartition], int | Place],
        draw: Callable[[], float],
        *,
        markers_max: int = MARKERS_MAX,
    ) -> None:
        """``route`` gives the id of the other broker that leads a partition, as this broker knows it now.

        ``draw`` gives numbers from 0.0 up to but without 1.0, for jitter.
        """
        self._route = route
        self._draw = draw
        self._markers_max = markers_max
        self._markers: dict[int, Wanted] = {}
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._queues: dict[int, _Queue] = {}
        self._resting: deque[tuple[int, TopicPartition]] = deque()
        self._actions: list[Action] = []

    def __len__(self) -> int:
        """The markers that have not ended."""
        return len(self._markers)

    @property
    def wake_at_ms(self) -> float:
        """When `Ticked` has something to do; infinity for never."""
        due_ms: float = self._resting[0][0] if self._resting else inf
        for queue in self._queues.values():
            if queue.lanes and not queue.in_flight and queue.not_before_ms < due_ms:
                due_ms = queue.not_before_ms
        return due_ms

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take an event. A new marker is not sent before `Ticked`, so that all of one turn go together."""
        self._actions = []
        if isinstance(event, Wanted):
            self._want(event, now_ms)
        elif isinstance(event, Answered):
            self._answered(event, now_ms)
        elif isinstance(event, Failed):
            self._failed(event, now_ms)
        elif isinstance(event, Unwanted):
            self._unwanted(event, now_ms)
        elif isinstance(event, Moved):
            self._moved(now_ms)
        else:
            self._ticked(now_ms)
        return self._actions

    # -- waiting ------------------------------------------------------------------------------------------

    def _want(self, event: Wanted, now_ms: int) -> None:
        self._markers[event.number] = event
        lane = self._lanes.get(event.partition)
        if lane is None:
            lane = self._lanes[event.partition] = _Lane()
        lane.waiting[event.number] = None
        self._place(event.partition, now_ms)

    def _place(self, partition: TopicPartition, now_ms: int) -> None:
        """Queue what waits in a partition at its leader; forget a partition in which nothing waits or is in flight."""
        lane = self._lanes[partition]
        if not lane.waiting:
            if not lane.in_flight:
                del self._lanes[partition]
            return
        if lane.queued_at is not None or lane.rests:
            return
        where = self._route(partition)
        if where is Place.NOWHERE:
            self._rest(partition, lane, now_ms)
        elif isinstance(where, Place):
            for number in lane.waiting:
                self._end(number, _ENDED_BY[where])
            lane.waiting.clear()
            if not lane.in_flight:
                del self._lanes[partition]
        else:
            lane.queued_at = where
            self._queues.setdefault(where, _Queue()).lanes[partition] = None

    def _rest(self, partition: TopicPartition, lane: _Lane, now_ms: int) -> None:
        self._leave_queue(partition, lane)
        if not lane.rests:
            lane.rests = True
            self._resting.append((now_ms + RETRY_MS, partition))

    def _leave_queue(self, partition: TopicPartition, lane: _Lane) -> None:
        if lane.queued_at is not None:
            del self._queues[lane.queued_at].lanes[partition]
            lane.queued_at = None

    def _end(self, number: int, code: int) -> None:
        del self._markers[number]
        self._actions.append(End(number, code))

    # -- sending ------------------------------------------------------------------------------------------

    def _serve(self, broker_id: int, now_ms: int) -> None:
        """Send a broker what waits for it, unless it has a request or is left alone."""
        queue = self._queues[broker_id]
        if queue.in_flight:
            return
        if queue.lanes and queue.not_before_ms <= now_ms:
            queue.in_flight = tuple(self._take(broker_id, queue, now_ms))
            if queue.in_flight:
                self._actions.append(Send(broker_id, queue.in_flight))
                return
        if not queue.lanes and not queue.failures:
            del self._queues[broker_id]

    def _take(self, broker_id: int, queue: _Queue, now_ms: int) -> list[int]:
        taken: list[int] = []
        for partition in list(queue.lanes):
            if len(taken) >= self._markers_max:
                break
            lane = self._lanes[partition]
            self._leave_queue(partition, lane)
            if self._route(partition) != broker_id:
                self._place(partition, now_ms)
                continue
            for number in list(lane.waiting):
                producer_id = self._markers[number].producer_id
                if producer_id in lane.in_flight:
                    continue  # it goes when that one has ended
                if len(taken) >= self._markers_max:
                    self._place(partition, now_ms)
                    break
                del lane.waiting[number]
                lane.in_flight[producer_id] = number
                taken.append(number)
        return taken

    # -- outcomes -----------------------------------------------------------------------------------------

    def _landed(self, numbers: Iterable[int]) -> dict[TopicPartition, list[int]]:
        """Markers that are in flight no longer, by partition."""
        landed: dict[TopicPartition, list[int]] = {}
        for number in numbers:
            marker = self._markers[number]
            del self._lanes[marker.partition].in_flight[marker.producer_id]
            landed.setdefault(marker.partition, []).append(number)
        return landed

    def _answered(self, event: Answered, now_ms: int) -> None:
        queue = self._queues[event.broker_id]
        numbers, queue.in_flight = queue.in_flight, ()
        queue.failures = queue.not_before_ms = 0
        for partition, landed in self._landed(numbers).items():
            lane = self._lanes[partition]
            again: dict[int, int] = {}
            for number in landed:
                key = self._markers[number].producer_id, partition
                code = event.codes.get(key, int(ErrorCode.UNKNOWN_SERVER_ERROR))
                if code in _FINAL:
                    self._end(number, code)
                else:
                    again[number] = code
            if again:
                lane.tries += 1
                self._actions.append(Refused(event.broker_id, partition, next(iter(again.values())), lane.tries))
                self._put_back(lane, again)
                self._rest(partition, lane, now_ms)
            else:
                lane.tries = 0
                self._place(partition, now_ms)
        self._serve(event.broker_id, now_ms)

    @staticmethod
    def _put_back(lane: _Lane, numbers: Iterable[int]) -> None:
        """Before those that have waited meanwhile."""
        lane.waiting = dict.fromkeys([*numbers, *lane.waiting])

    def _failed(self, event: Failed, now_ms: int) -> None:
        queue = self._queues[event.broker_id]
        numbers, queue.in_flight = queue.in_flight, ()
        queue.not_before_ms = now_ms + _BACKOFF.after(queue.failures, self._draw)
        queue.failures += 1
        for partition, landed in self._landed(numbers).items():
            self._put_back(self._lanes[partition], landed)
            self._place(partition, now_ms)

    def _unwanted(self, event: Unwanted, now_ms: int) -> None:
        queue = self._queues[event.broker_id]
        queue.in_flight = tuple(number for number in queue.in_flight if number not in event.numbers)
        for partition, landed in self._landed(event.numbers).items():
            for number in landed:
                del self._markers[number]
            self._place(partition, now_ms)
        self._serve(event.broker_id, now_ms)

    # -- time and leaders ---------------------------------------------------------------------------------

    def _moved(self, now_ms: int) -> None:
        for broker_id, queue in list(self._queues.items()):
            for partition in [one for one in queue.lanes if self._route(one) != broker_id]:
                self._leave_queue(partition, self._lanes[partition])
                self._place(partition, now_ms)

    def _ticked(self, now_ms: int) -> None:
        while self._resting and self._resting[0][0] <= now_ms:
            _, partition = self._resting.popleft()
            self._lanes[partition].rests = False
            self._place(partition, now_ms)
        for broker_id in list(self._queues):
            self._serve(broker_id, now_ms)
