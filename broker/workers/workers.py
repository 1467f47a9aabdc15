"""Work that would stop the event loop, done elsewhere: in a worker process per role, or in threads.

A busy Python thread in the broker costs most of its request rate, so uploads, chunk fills and cleaning run in
processes that are started on demand. They may die at any time: what they were doing fails with :class:`WorkerLost`,
which is retriable, and the next command starts a new one. One that hangs (`stratalog.broker.workers.watch`) is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, overload

from stratalog.broker.workers.channel import Kind, WorkerError, WorkerMessage, decode_error
from stratalog.broker.workers.main import Executes, Start
from stratalog.broker.workers.process import Child, WorkerProcess
from stratalog.broker.workers.watch import TICK_SECONDS, Patience, WorkerState, WorkerWatch
from stratalog.wire.errors import Retriable

__all__ = ["OnDone", "ProcessWorkers", "ThreadWorkers", "WorkerLost", "Workers"]

log = logging.getLogger(__name__)

BACKOFF_SECONDS_MIN: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 10.0
GIVEN_UP_MAX: Final = 3
"""Processes that were killed and have not ended, because the kernel does not let them: then no other is started."""

OnDone = Callable[[Any, Exception | None], object]
"""``on_done(report, error)``, called on the loop, once; exactly one of the two is None unless a report is None."""


class WorkerLost(Retriable):
    """The worker died, or the broker is closing, before the command was answered. It may or may not have been done."""


class Workers(Protocol):
    """An executor of commands."""

    @overload
    def submit(self, command: object) -> asyncio.Future[Any]: ...
    @overload
    def submit(self, command: object, on_done: OnDone) -> None: ...
    def submit(self, command: object, on_done: OnDone | None = None) -> asyncio.Future[Any] | None:
        """Execute ``command``: returns a future of the report, or calls ``on_done``.

        A cancelled future is not waited for; its command runs on and its answer is dropped.
        """
        ...

    @property
    def outstanding(self) -> int:
        """Commands not yet answered."""
        ...

    @property
    def state(self) -> WorkerState:
        """How the worker does: ages, hangs, and what is wrong."""
        ...

    def begin(self) -> None:
        """Get ready for a first command that is likely to come: it then need not wait for a start."""
        ...

    async def close(self) -> None:
        """Fail what is outstanding with :class:`WorkerLost` and end the worker."""
        ...


def _resolve(future: asyncio.Future[Any]) -> OnDone:
    def done(report: Any, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(report)

    return done


class _Submitting:
    """Shared by both kinds of workers: the table of callers and the answers they wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, role: str, patience: Patience | None = None) -> None:
        self._loop = loop
        self._watch = WorkerWatch(role, patience)
        self._waiting: dict[int, OnDone] = {}
        self._next_id = 0
        self._closed = False
        self.late_answers = 0

    @property
    def outstanding(self) -> int:
        """Commands not yet answered."""
        return len(self._waiting)

    @property
    def state(self) -> WorkerState:
        """How the worker does."""
        return self._watch.state(self._loop.time())

    @overload
    def submit(self, command: object) -> asyncio.Future[Any]: ...
    @overload
    def submit(self, command: object, on_done: OnDone) -> None: ...
    def submit(self, command: object, on_done: OnDone | None = None) -> asyncio.Future[Any] | None:
        """Execute ``command``; see :class:`Workers`.

        Raises :class:`WorkerLost` after :meth:`close`, and what pickling raises for a command that cannot be sent.
        """
        if self._closed:
            raise WorkerLost("the workers are closed")
        self._next_id += 1
        request_id = self._next_id
        if on_done is not None:
            self._begin(request_id, command, on_done)
            return None
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(lambda _: self._waiting.pop(request_id, None))
        self._begin(request_id, command, _resolve(future))
        return future

    def _begin(self, request_id: int, command: object, on_done: OnDone) -> None:
        self._waiting[request_id] = on_done
        self._watch.sent(request_id, command, self._loop.time())
        try:
            self._send(request_id, command)
        except BaseException:
            self._waiting.pop(request_id, None)
            self._watch.forgotten(request_id)
            raise

    def _send(self, request_id: int, command: object) -> None:
        raise NotImplementedError

    def _answer(self, request_id: int, report: Any, error: Exception | None) -> None:
        self._watch.forgotten(request_id)
        on_done = self._waiting.pop(request_id, None)
        if on_done is None:
            self.late_answers += 1
            return
        try:
            on_done(report, error)
        except Exception:
            log.exception("the callback of an answer failed; the broker goes on without it")

    def _fail_all(self, error: WorkerLost) -> None:
        self._watch.lost()  # also those commands whose callers wait no more
        for request_id in list(self._waiting):
            self._answer(request_id, None, error)


class ThreadWorkers(_Submitting):
    """Executes commands in threads of this process: for stores that live in its memory, and for tests."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, target: Executes, *, threads: int = 4, role: str = "thread"
    ) -> None:
        super().__init__(loop, role)
        self._target = target
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="worker")

    def begin(self) -> None:
        """There is nothing to start."""

    async def close(self) -> None:
        """Fail what is outstanding; commands under way run to their end unheard."""
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._fail_all(WorkerLost("the broker is closing"))

    def _send(self, request_id: int, command: object) -> None:
        def done(future: Future[Any]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            report = future.result() if error is None else None
            failure = error if error is None or isinstance(error, Exception) else WorkerError(repr(error))
            with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
                self._loop.call_soon_threadsafe(partial(self._answer, request_id, report, failure))

        self._executor.submit(self._target.execute, command).add_done_callback(done)


class ProcessWorkers(_Submitting):
    """Executes commands in one child process with a few threads, started by `begin` or by the first command.

    ``role`` names it in logs; the rest is a :class:`Start`. A command that does not get on for longer than its
    ``patience`` ends the process, and so does silence: what was under way fails as when a worker dies. ``child`` makes the
    process. To be used from the thread that runs the loop, which must be the one that lives as long as the process: the
    child is killed by the kernel when its parent thread ends.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        role: str,
        start: Start,
        *,
        patience: Patience | None = None,
        child: Callable[[asyncio.AbstractEventLoop, str, Callable[[WorkerMessage], None], Callable[[int], None]], Child]
        | None = None,
    ) -> None:
        super().__init__(loop, role, patience)
        self._role = role
        self._start = start
        self._new_child = child or WorkerProcess
        self._given_up = 0
        self._ticking: asyncio.TimerHandle | None = None
        self._process: Child | None = None
        self._unsent: deque[tuple[int, object]] = deque()
        self._deaths = 0
        self._restart: asyncio.TimerHandle | None = None
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """The process id of the worker, None while there is none."""
        return None if self._process is None else self._process.pid

    def begin(self) -> None:
        """Start the process, if there is none and none is about to be started."""
        if self._process is None and self._restart is None and not self._closed:
            self._spawn()

    async def close(self) -> None:
        """Fail what is outstanding, close the socket, and make sure that the process has ended."""
        self._closed = True
        for timer in (self._restart, self._ticking):
            if timer is not None:
                timer.cancel()
        process, self._process = self._process, None
        if process is not None:
            await process.end()
        self._fail_all(WorkerLost("the broker is closing"))

    def _send(self, request_id: int, command: object) -> None:
        self.begin()
        if self._process is None:
            self._unsent.append((request_id, command))
            return
        self._process.send(request_id, Kind.COMMAND, command)
        self._begin_ticks(self._process)

    def _spawn(self) -> None:
        self._restart = None
        if self._given_up >= GIVEN_UP_MAX:
            self._lost(
                f"the {self._role} worker is not started: {self._given_up} earlier processes were killed and have not "
                f"ended, as they are in calls that cannot be interrupted; look for a disk or a network file system that hangs"
            )
            return
        try:
            process = self._new_child(self._loop, self._role, self._message, self._died)
        except OSError as error:
            self._lost(f"the {self._role} worker cannot be started: {error}")
            return
        self.starts += 1
        self._watch.started()
        self._process = process
        process.send(0, Kind.START, self._start)
        while self._unsent:
            request_id, command = self._unsent.popleft()
            process.send(request_id, Kind.COMMAND, command)
        if self.outstanding:
            self._begin_ticks(process)

    def _begin_ticks(self, process: Child) -> None:
        if self._ticking is None and process.pulses:
            self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)

    def _message(self, message: WorkerMessage) -> None:
        if message.kind is Kind.PULSE:
            self._watch.pulse(message.load())
            return
        self._deaths = 0
        self._watch.answered(message.request_id)
        if message.kind is Kind.ERROR:
            self._answer(message.request_id, None, decode_error(message))
            return
        try:
            report = message.load()
        except Exception as error:  # noqa: BLE001 - the waiting caller gets every error
            self._answer(message.request_id, None, error)
        else:
            self._answer(message.request_id, report, None)

    def _died(self, status: int) -> None:
        self._process = None
        self._lost(f"the {self._role} worker ended with status {status}")

    def _tick(self) -> None:
        """A second has passed while commands wait."""
        self._ticking = None
        why = self._watch.tick(running=self._process is not None)
        if why:
            self._give_up(why)
        if self.outstanding and not self._closed:
            self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)

    def _give_up(self, why: str) -> None:
        """Kill a process that hangs. Should the kernel not let it end, it is left behind, and counted."""
        process, self._process = self._process, None
        assert process is not None
        self._given_up += 1

        def ended() -> None:
            self._given_up -= 1

        process.give_up(ended)
        log.error("the %s worker, process %d, hangs and is killed: %s", self._role, process.pid, why)
        self._lost(f"the {self._role} worker hung: {why}")

    def _lost(self, reason: str) -> None:
        self._deaths += 1
        delay = min(BACKOFF_SECONDS_MIN * 2.0 ** (self._deaths - 1), BACKOFF_SECONDS_MAX)
        log.warning(
            "%s; %d commands fail, the next start is in %.1f s at the earliest", reason, self.outstanding, delay
        )
        self._unsent.clear()
        self._restart = self._loop.call_later(delay, self._may_restart)
        self._fail_all(WorkerLost(reason))

    def _may_restart(self) -> None:
        self._restart = None
        if self._unsent and not self._closed:
            self._spawn()
