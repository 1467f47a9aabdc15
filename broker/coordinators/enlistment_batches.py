"""Decides which questions go to which other coordinator, and when: may a partition's batch go on? Pure: ``step(event, now_ms)``.

Each coordinator has one request in flight, with the questions of many transactions, one for each transactional id; those
that come meanwhile go with the next. A question is asked once, but for one case: a transaction cannot take partitions while
the one before is still being ended, which is over in a moment, so it is asked again after a pause. Otherwise the client
tries again. Sources: Kafka's ``AddPartitionsToTxnManager``, ``ReplicaManager``; KIP-890.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.metadata.coordination import Producer
from stratalog.wire.errors import ErrorCode

__all__ = [
    "Action",
    "Answered",
    "Asked",
    "Deliver",
    "EnlistmentBatches",
    "EnlistmentLimits",
    "Event",
    "Failed",
    "Refuse",
    "Send",
    "Ticked",
]


class Asked(NamedTuple):
    """A new question, under a number of the caller's. ``adds``: the partitions are added, not just looked for.

    ``elements``: the question itself, its topics and its partitions.
    """

    number: int
    broker_id: int
    transactional_id: str
    producer: Producer
    adds: bool
    elements: int = 3


class Answered(NamedTuple):
    """A coordinator has answered its request; ``concurrent``: the questions that met the end of the transaction before."""

    broker_id: int
    concurrent: frozenset[int]


class Failed(NamedTuple):
    """The request to a coordinator has no answer."""

    broker_id: int


class Ticked(NamedTuple):
    """It is `EnlistmentBatches.wake_at_ms`, or a little later."""


Event = Asked | Answered | Failed | Ticked


class Send(NamedTuple):
    """Send these questions in one request, and say `Answered` or `Failed`."""

    broker_id: int
    numbers: tuple[int, ...]


class Deliver(NamedTuple):
    """The latest answer to this question stands."""

    number: int


class Refuse(NamedTuple):
    """There is no answer to this question."""

    number: int
    code: ErrorCode
    why: str


Action = Send | Deliver | Refuse

_SILENT: Final = "the coordinator of the transaction, another broker, did not answer"


class EnlistmentLimits(Struct, frozen=True, kw_only=True):
    """The bounds of the questions to one coordinator."""

    waiting_max: int = 4096
    batch_max: int = 250
    elements_max: int = 900
    """List elements of one request, unless one question has more: a broker closes the connection of a request with too many
    (``stratalog.request.elements.max``, at least 1,000), and all questions in it would fail, each time they come together."""
    timeout_ms: int = 30_000
    """How long a question may wait to be sent (``request.timeout.ms``)."""
    retry_ms: int = 20
    """The pause before a question is asked again (``add.partitions.to.txn.retry.backoff.ms``)."""
    retry_max_ms: int = 100
    """No question is asked again this long after it came (``add.partitions.to.txn.retry.backoff.max.ms``)."""


class _Question(Struct):
    asked: Asked
    came_ms: int


class _Queue:
    """One coordinator."""

    __slots__ = ("by_id", "in_flight")

    def __init__(self) -> None:
        self.by_id: dict[str, dict[int, None]] = {}
        """The questions that wait, by transactional id; the ids are in the order in which their questions are sent."""
        self.in_flight: tuple[int, ...] = ()


class EnlistmentBatches:
    """The questions that are on their way to other brokers."""

    def __init__(self, limits: EnlistmentLimits) -> None:
        self.limits = limits
        self._questions: dict[int, _Question] = {}
        self._counts: Counter[int] = Counter()
        """Questions by coordinator."""
        self._queues: dict[int, _Queue] = {}
        self._pausing: deque[tuple[int, int]] = deque()
        """When questions are asked again, and their numbers, in that order."""
        self._deadlines: deque[tuple[int, int]] = deque()
        """When questions are refused that have not been sent, and their numbers, in that order."""
        self._actions: list[Action] = []

    def __len__(self) -> int:
        """The questions without an answer."""
        return len(self._questions)

    @property
    def wake_at_ms(self) -> float:
        """When `Ticked` has something to do; infinity for never."""
        if any(queue.by_id and not queue.in_flight for queue in self._queues.values()):
            return 0
        due_ms: float = self._pausing[0][0] if self._pausing else inf
        return min(due_ms, self._deadlines[0][0]) if self._deadlines else due_ms

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take an event. A new question is not sent before `Ticked`, so that all of one turn go together."""
        self._actions = []
        if isinstance(event, Asked):
            self._ask(event, now_ms)
        elif isinstance(event, Answered):
            self._answered(event, now_ms)
        elif isinstance(event, Failed):
            queue = self._queues[event.broker_id]
            numbers, queue.in_flight = queue.in_flight, ()
            for number in numbers:
                self._refuse(number, ErrorCode.NETWORK_EXCEPTION, _SILENT)
            self._serve(event.broker_id)
        else:
            self._ticked(now_ms)
        while self._deadlines and self._deadlines[0][1] not in self._questions:
            self._deadlines.popleft()
        return self._actions

    def _ask(self, asked: Asked, now_ms: int) -> None:
        queue = self._queues.setdefault(asked.broker_id, _Queue())
        question = self._questions[asked.number] = _Question(asked, now_ms)
        self._counts[asked.broker_id] += 1
        if self._counts[asked.broker_id] > self.limits.waiting_max:
            why = f"{self.limits.waiting_max} questions wait for the coordinator on broker {asked.broker_id} already"
            self._refuse(asked.number, ErrorCode.NETWORK_EXCEPTION, why)
        elif self._is_fenced(question, queue):
            why = f"a later epoch of producer id {asked.producer.producer_id} waits for the coordinator"
            self._refuse(asked.number, ErrorCode.INVALID_PRODUCER_EPOCH, why)
        else:
            queue.by_id.setdefault(asked.transactional_id, {})[asked.number] = None
            self._deadlines.append((now_ms + self.limits.timeout_ms, asked.number))

    def _is_fenced(self, question: _Question, queue: _Queue) -> bool:
        """Whether a later epoch of the producer waits; earlier epochs that wait are refused (Kafka's rule)."""
        producer_id, epoch = question.asked.producer
        for number in list(queue.by_id.get(question.asked.transactional_id, ())):
            other_id, other_epoch = self._questions[number].asked.producer
            if other_id != producer_id or other_epoch == epoch:
                continue
            if other_epoch > epoch:
                return True
            self._take_out(queue, number)
            why = f"epoch {epoch} of producer id {producer_id} has come"
            self._refuse(number, ErrorCode.INVALID_PRODUCER_EPOCH, why)
        return False

    def _take_out(self, queue: _Queue, number: int) -> None:
        transactional_id = self._questions[number].asked.transactional_id
        waiting = queue.by_id[transactional_id]
        del waiting[number]
        if not waiting:
            del queue.by_id[transactional_id]

    def _refuse(self, number: int, code: ErrorCode, why: str) -> None:
        self._forget(number)
        self._actions.append(Refuse(number, code, why))

    def _forget(self, number: int) -> None:
        broker_id = self._questions.pop(number).asked.broker_id
        self._counts[broker_id] -= 1
        if not self._counts[broker_id]:
            del self._counts[broker_id]

    def _serve(self, broker_id: int) -> None:
        """Send a coordinator what waits for it, unless it has a request."""
        queue = self._queues[broker_id]
        if queue.in_flight:
            return
        if not queue.by_id:
            del self._queues[broker_id]
            return
        numbers: list[int] = []
        elements = 0
        for transactional_id in list(islice(queue.by_id, self.limits.batch_max)):
            number = next(iter(queue.by_id[transactional_id]))
            elements += self._questions[number].asked.elements
            if numbers and elements > self.limits.elements_max:
                break
            waiting = queue.by_id.pop(transactional_id)
            numbers.append(number)
            del waiting[number]
            if waiting:
                queue.by_id[transactional_id] = waiting  # behind the others
        queue.in_flight = tuple(numbers)
        self._actions.append(Send(broker_id, queue.in_flight))

    def _answered(self, event: Answered, now_ms: int) -> None:
        queue = self._queues[event.broker_id]
        numbers, queue.in_flight = queue.in_flight, ()
        again_ms = now_ms + self.limits.retry_ms
        for number in numbers:
            question = self._questions[number]
            if (
                number in event.concurrent
                and question.asked.adds
                and again_ms < question.came_ms + self.limits.retry_max_ms
            ):
                self._pausing.append((again_ms, number))
            else:
                self._forget(number)
                self._actions.append(Deliver(number))
        self._serve(event.broker_id)

    def _ticked(self, now_ms: int) -> None:
        while self._pausing and self._pausing[0][0] <= now_ms:
            _, number = self._pausing.popleft()
            asked = self._questions[number].asked
            queue = self._queues.setdefault(asked.broker_id, _Queue())
            queue.by_id.setdefault(asked.transactional_id, {})[number] = None
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, number = self._deadlines.popleft()
            late = self._questions.get(number)
            if late is not None and self._waits(late.asked):
                self._take_out(self._queues[late.asked.broker_id], number)
                self._refuse(number, ErrorCode.NETWORK_EXCEPTION, _SILENT)
        for broker_id in list(self._queues):
            self._serve(broker_id)

    def _waits(self, asked: Asked) -> bool:
        queue = self._queues.get(asked.broker_id)
        return queue is not None and asked.number in queue.by_id.get(asked.transactional_id, ())
