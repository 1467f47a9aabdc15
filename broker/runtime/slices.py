"""Does long work in slices, a few in each turn of the event loop, so that no other request waits for all of it.

A work is a generator. It yields None where it may pause, or an :class:`Awaited` to be continued when that has an answer.
All works of a broker share one budget of time in each turn, however many there are:

- The first slice runs at once, so a short work is done at once. If others are under way, a new one gets a short first slice
  in the next turn, before they go on.
- Only a few works are under way together, which bounds the memory of answers that are half done. The others wait in the
  order in which they came. A work that waits for an answer is not counted meanwhile.
- A connection is not read while a work of its own is under way: its answers stay in order, and each of its requests waits
  for the one before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, Protocol, TypeVar

from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["FIRST_SECONDS", "SLICE_SECONDS", "Awaited", "Client", "Slices", "Steps", "to_the_end"]

SLICE_SECONDS: Final = 0.01
"""How long all sliced work together may compute in one turn of the loop."""

FIRST_SECONDS: Final = 0.001
"""The first slice of a work that begins beside others: long enough for an ordinary request, too short for much memory."""

UNDER_WAY_MAX: Final = 8
"""Works under way together. Each may hold an answer of `answer_rows.ANSWER_BYTES_MAX` in memory."""

T = TypeVar("T")


class Awaited:
    """One answer that comes now or later: a work yields it to be continued afterwards.

    Coordinators take it as the token of a request. ``answer`` holds the answer once ``arrived`` is true; in the place of an
    error it holds the value that ``failed`` returned for it.
    """

    __slots__ = ("_failed", "_resume", "answer", "arrived")

    def __init__(self, failed: Callable[[KafkaError], Any]) -> None:
        self._failed = failed
        self._resume: Callable[[], None] | None = None
        self.answer: Any = None
        self.arrived = False

    def respond(self, answer: Any) -> None:
        """Take the answer. Raises `RuntimeError` for a second one."""
        if self.arrived:
            raise RuntimeError(f"a second answer came: {answer!r}")
        self.answer = answer
        self.arrived = True
        if self._resume is not None:
            self._resume()

    def fail(self, error: BaseException) -> None:
        """Take an error in the place of an answer; one that is no `KafkaError` counts as UNKNOWN_SERVER_ERROR."""
        if not isinstance(error, KafkaError):
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        self.respond(self._failed(error))

    def wake(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` when the answer arrives."""
        self._resume = resume


Steps = Generator[Awaited | None, None, T]
"""A work that returns a ``T``: it yields None where it may pause, an `Awaited` where it has to wait."""


class Client(Protocol):
    """The connection that asked for a work."""

    def gone(self) -> bool:
        """Whether the client takes no answer any more."""
        ...

    def hold(self) -> None:
        """Take no further request: work for this client is under way."""
        ...

    def release(self) -> None:
        """Undo one :meth:`hold`."""
        ...

    @property
    def quota(self) -> Any:
        """The `ClientQuotas` that count the time computed for this client; None where time is not counted."""
        ...


class _Work:
    """One work. ``done`` is called with its result or its error, unless the client has gone.

    - ``held``: its client takes no further request until the work is done.
    - ``counted``: it is one of the `UNDER_WAY_MAX` works that are under way.
    - ``urgent``: others wait for its end.
    - ``is_free``: its time is none of its client's quota.
    """

    __slots__ = ("client", "counted", "done", "held", "is_free", "steps", "urgent")

    def __init__(self, steps: Steps[Any], client: Client | None, done: Callable[[Any, Exception | None], None]) -> None:
        self.steps = steps
        self.client = client
        self.done = done
        self.held = self.counted = self.urgent = self.is_free = False

    def hold(self) -> None:
        """Have the client wait: the work is not done at once."""
        if self.client is not None and not self.held:
            self.held = True
            self.client.hold()

    def spend(self, seconds: float) -> None:
        """Count computing time for the client's quota."""
        if self.client is not None and self.client.quota is not None and not self.is_free:
            self.client.quota.spend(self.client, seconds)

    def release(self) -> None:
        """Let the client go on: the work is done, or the client has gone."""
        if self.client is not None and self.held:
            self.client.release()


class Slices:
    """The sliced work of one event loop."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], monotonic: Callable[[], float]) -> None:
        """``call_soon`` calls a callable in the next turn of the loop; ``monotonic`` returns seconds."""
        self._call_soon = call_soon
        self._monotonic = monotonic
        self._urgent: deque[_Work] = deque()
        self._fresh: deque[_Work] = deque()
        """Works that have not had their first slice."""
        self._ready: deque[_Work] = deque()
        """Works that are under way and can go on."""
        self._waiting: deque[_Work] = deque()
        """Works that have had their first slice, and go on when fewer are under way."""
        self._under_way = 0
        self._turn_end: float | None = None
        """When the present turn's budget is used up, in seconds; None if no turn is scheduled."""

    def start(
        self,
        steps: Steps[Any],
        done: Callable[[Any, Exception | None], None],
        client: Client | None = None,
        *,
        urgent: bool = False,
        is_free: bool = False,
    ) -> None:
        """Begin a work, and do as much of it as this turn has time for before this returns.

        ``done`` gets the result and None, or None and the error. If ``client`` goes, the work ends and ``done`` is not called.
        ``urgent`` is for a work that holds a lock for which others wait: it has half of each turn until it is done.
        ``is_free``: the client's quota does not count it.
        """
        work = _Work(steps, client, done)
        work.urgent, work.is_free = urgent, is_free
        turn_end = self._this_turn()
        if self._monotonic() < turn_end and (urgent or (self._under_way < UNDER_WAY_MAX and not self._ready)):
            self._count(work)
            self._advance(work, turn_end)
            return
        work.hold()
        (self._urgent if urgent else self._fresh).append(work)

    async def run(self, steps: Steps[T], *, urgent: bool = False) -> T:
        """Carry out a work for a coroutine, as `start` does. Raises what the work raises; cancelling the caller ends it."""
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(value: Any, error: Exception | None) -> None:
            if outcome.cancelled():
                return
            if error is None:
                outcome.set_result(value)
            else:
                outcome.set_exception(error)

        self.start(steps, done, urgent=urgent)
        try:
            return await outcome
        finally:
            steps.close()

    def _this_turn(self) -> float:
        """When the budget of the present turn is used up, in seconds; schedules the next turn if there is none."""
        if self._turn_end is None:
            self._turn_end = self._monotonic() + SLICE_SECONDS
            self._call_soon(self._turn)
        return self._turn_end

    def _turn(self) -> None:
        """One turn of the loop. Errors of an outcome's receiver go to the
        loop; the works left over have later turns.
        """
        try:
            self._take_turns()
        finally:
            if self._urgent or self._fresh or self._ready:
                self._call_soon(self._turn)
            else:
                self._turn_end = None

    def _take_turns(self) -> None:
        """Half of the turn is for urgent works and for those that begin, then what is ready goes on."""
        now = self._monotonic()
        half, turn_end = now + SLICE_SECONDS / 2, now + SLICE_SECONDS
        self._turn_end = turn_end
        for _ in range(len(self._urgent)):
            if self._monotonic() >= half:
                break
            self._advance(self._urgent.popleft(), half)
        # At least one begins in each turn, and there is time for one that is ready.
        for count in range(len(self._fresh)):
            if count and self._monotonic() >= half:
                break
            self._advance(self._fresh.popleft(), min(self._monotonic() + FIRST_SECONDS, turn_end))
        while self._ready and self._monotonic() < turn_end:
            self._advance(self._ready.popleft(), turn_end)

    def _advance(self, work: _Work, turn_end: float) -> None:
        """Do steps of a work until the turn is over, the work is done or it has to wait."""
        if work.client is not None and work.client.gone():
            work.steps.close()
            self._ended(work)
            return
        send, monotonic = work.steps.send, self._monotonic
        begun = monotonic()
        while True:
            try:
                awaited = send(None)
            except StopIteration as end:
                work.spend(monotonic() - begun)  # before the answer, which says what its client has to wait
                self._finish(work, end.value, None)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is becomes the answer
                work.spend(monotonic() - begun)
                self._finish(work, None, error)
                return
            if awaited is not None and not awaited.arrived:
                work.hold()
                work.spend(monotonic() - begun)
                # A work that waits, for a disk perhaps, keeps no other from computing.
                self._one_less(work)
                awaited.wake(lambda: self._resume(work))
                return
            if (now := monotonic()) >= turn_end:
                work.hold()
                work.spend(now - begun)
                self._go_on_later(work)
                return

    def _go_on_later(self, work: _Work) -> None:
        if work.urgent:
            self._urgent.append(work)
        elif work.counted:
            self._ready.append(work)
        elif self._under_way < UNDER_WAY_MAX:
            self._count(work)
            self._ready.append(work)
        else:
            self._waiting.append(work)

    def _resume(self, work: _Work) -> None:
        self._count(work)
        (self._urgent if work.urgent else self._ready).append(work)
        self._this_turn()

    def _count(self, work: _Work) -> None:
        work.counted = True
        self._under_way += 1

    def _finish(self, work: _Work, value: Any, error: Exception | None) -> None:
        try:
            work.done(value, error)
        finally:
            self._ended(work)

    def _ended(self, work: _Work) -> None:
        self._one_less(work)
        work.release()

    def _one_less(self, work: _Work) -> None:
        if not work.counted:
            return
        work.counted = False
        self._under_way -= 1
        if self._waiting and self._under_way < UNDER_WAY_MAX:
            self._resume(self._waiting.popleft())


def to_the_end(steps: Generator[Any, None, T]) -> T:
    """Carry out a work without a pause, for callers that need no turns. Raises `RuntimeError` if it has to wait."""
    while True:
        try:
            awaited = next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
        if awaited is not None and not awaited.arrived:
            raise RuntimeError("the work waits for an answer, which does not come while it is carried out")
