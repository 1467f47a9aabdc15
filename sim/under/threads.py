"""Threads that take drawn, virtual time: pools for jobs that only compute, fibers for those that wait on the way."""

from __future__ import annotations

import random
import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from sim.under.process import PROCESS, Killed, Process, current_process

if TYPE_CHECKING:
    import asyncio

__all__ = ["Fiber", "VirtualLock", "VirtualPool", "VirtualTimer", "sleep"]

_QUANTUM: Final = 0.0001
"""Durations are multiples of it, so that things happen at the same time now and then."""


class _Job(Future[Any]):
    """A job's future. A caller that blocks on it runs the job: no other could."""

    def __init__(self, pool: VirtualPool, run: Callable[[], Any]) -> None:
        super().__init__()
        self.pool = pool
        self.work = run
        self.timer: asyncio.TimerHandle | None = None

    def result(self, timeout: float | None = None) -> Any:
        """The result, now."""
        self.pool.finish(self)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error, now."""
        self.pool.finish(self)
        return super().exception(timeout)


class VirtualPool(Executor):
    """A thread pool: at most ``count`` jobs at a time, each done at one moment after a drawn time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dice: random.Random, count: int, name: str) -> None:
        self._loop = loop
        self._dice = dice
        self._count = count
        self._name = name
        self._process = PROCESS.get(None)
        self._queue: deque[_Job] = deque()
        self._running: dict[_Job, None] = {}
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have ``fn`` called. Raises `RuntimeError` after `shutdown`."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        job = _Job(self, lambda: fn(*args, **kwargs))
        self._queue.append(job)
        self._start()
        return job

    def _start(self) -> None:
        while self._queue and len(self._running) < self._count:
            job = self._queue.popleft()
            self._running[job] = None
            seconds = _QUANTUM * (
                self._dice.randint(1, 30) if self._dice.random() < 0.9 else self._dice.randint(1, 500)
            )
            if self._process is not None:
                seconds *= self._process.thread_delay
            job.timer = self._loop.call_later(seconds, self._run, job)

    def _run(self, job: _Job) -> None:
        if job.timer is not None:
            job.timer.cancel()
        self._running.pop(job, None)
        if not job.set_running_or_notify_cancel():
            return
        try:
            result = job.work()
        except Exception as error:  # noqa: BLE001 - the future raises it in its reader
            job.set_exception(error)
        else:
            job.set_result(result)
        self._start()

    def finish(self, job: _Job) -> None:
        """A caller waits for this job: it runs now, after the jobs before it."""
        while not job.done():
            first = next(iter(self._running), None) or self._queue.popleft()
            self._run(first)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; with ``wait`` the others end now."""
        self._closed = True
        if cancel_futures:
            while self._queue:
                self._queue.popleft().cancel()
        if wait:
            while self._running or self._queue:
                self._run(next(iter(self._running), None) or self._queue.popleft())


class Fiber:
    """A thread that runs only while the loop stands still for it, so that the order of everything is the seed's.

    ``done(result, error)`` is called on the loop when it ends; never if its process dies first.
    """

    _idle: list[_Carrier] = []  # noqa: RUF012 - threads are kept for the next fibers, of other loops too

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        process: Process,
        run: Callable[[], Any],
        done: Callable[[Any, Exception | None], object],
    ) -> None:
        self._loop = loop
        self._process = process
        self._run = run
        self._done = done
        self._carrier: _Carrier | None = None
        self._context: Context = process.context.copy()
        process.on_death.append(self._die)
        self._begin = loop.call_soon(self._start, context=self._context)

    def _start(self) -> None:
        self._carrier = Fiber._idle.pop() if Fiber._idle else _Carrier()
        self._carrier.begin(self)

    def _die(self) -> None:
        """Its process was killed: unwind what is suspended; nothing that it does on the way has an effect."""
        if self._carrier is not None and getattr(_local, "fiber", None) is not self:  # who is running hears by itself
            self._carrier.resume()

    def body(self) -> None:
        """In the thread: from the beginning to the end."""
        try:
            result = self._run()
        except Killed:
            return
        except Exception as error:  # noqa: BLE001 - the caller gets the error
            self._finished(None, error)
        else:
            self._finished(result, None)

    def _finished(self, result: Any, error: Exception | None) -> None:
        if self._process.alive:
            self._process.forget(self._die)
            self._loop.call_soon(self._done, result, error, context=self._context)

    def sleep(self, seconds: float) -> None:
        """In the thread: let virtual time pass. Raises `Killed` if the process has died."""
        self._process.check()
        assert self._carrier is not None
        self._loop.call_later(seconds, self._carrier.resume, context=self._context)
        self.wait()

    def call_later(self, seconds: float, function: Callable[[], object]) -> asyncio.TimerHandle:
        """In the thread: have something called on the loop."""
        return self._loop.call_later(seconds, function, context=self._context)

    def wait(self) -> None:
        """In the thread: until `wake`. Raises `Killed` if the process has died."""
        assert self._carrier is not None
        self._carrier.pause()
        self._process.check()

    def wake(self) -> None:
        """Let it go on soon; nothing happens if its process has died."""
        if self._carrier is not None:
            self._loop.call_soon(self._carrier.resume, context=self._context)

    def released(self) -> None:
        """The thread is free for another fiber."""
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            Fiber._idle.append(carrier)


class _Carrier:
    """A real thread and the baton that it and the loop's thread hand to each other."""

    def __init__(self) -> None:
        self._go = allocate_lock()
        self._back = allocate_lock()
        self._go.acquire()
        self._back.acquire()
        self._fiber: Fiber | None = None
        _real_thread(self._serve).start()

    def begin(self, fiber: Fiber) -> None:
        self._fiber = fiber
        self.resume()

    def resume(self) -> None:
        """Called by the loop: let the thread run until it pauses or ends."""
        fiber = self._fiber
        self._go.release()
        self._back.acquire()
        if self._fiber is None and fiber is not None:
            fiber.released()

    def pause(self) -> None:
        """Called by the thread: let the loop go on, until it resumes this."""
        self._back.release()
        self._go.acquire()

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            fiber = self._fiber
            assert fiber is not None
            _local.fiber = fiber
            context = fiber._context.copy()
            context.run(fiber.body)
            self._fiber = None
            self._back.release()


def _real_thread(run: Callable[[], None]) -> threading.Thread:
    """A thread that tells its starter by a real lock that it runs: both run at once for that moment."""
    virtual, threading.Lock = threading.Lock, allocate_lock  # type: ignore[misc]
    try:
        return threading.Thread(target=run, name="fiber", daemon=True)
    finally:
        threading.Lock = virtual  # type: ignore[misc]


_local = threading.local()


def sleep(seconds: float) -> None:
    """Let virtual time pass in the fiber that is running; outside of any, nothing happens."""
    fiber = getattr(_local, "fiber", None)
    if fiber is not None:
        fiber.sleep(seconds)
    elif not current_process().alive:
        raise Killed(current_process().name)


class VirtualLock:
    """A `threading.Lock` for fibers: waiting for it lets virtual time pass."""

    def __init__(self) -> None:
        self._held = False
        self._waiting: deque[Fiber] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it. Raises `RuntimeError` where no other fiber could ever run to release it."""
        del timeout
        while self._held:
            if not blocking:
                return False
            fiber: Fiber | None = getattr(_local, "fiber", None)
            if fiber is None:
                raise RuntimeError("the event loop waits for a lock that a thread holds")
            self._waiting.append(fiber)
            fiber.wait()
        self._held = True
        return True

    def release(self) -> None:
        """Give it back."""
        self._held = False
        while self._waiting:
            self._waiting.popleft().wake()  # the first to come takes it, the others wait again

    def locked(self) -> bool:
        """Whether it is held."""
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class VirtualTimer:
    """A `threading.Timer` of a fiber: its function is called on the loop, in virtual time.

    A real one would start a real thread, whose own locks are virtual here and no fiber's: now and then both waited for good.
    """

    def __init__(self, interval: float, function: Callable[[], object]) -> None:
        self.daemon = False
        self._seconds = interval
        self._function = function
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Let the time run."""
        fiber: Fiber | None = getattr(_local, "fiber", None)
        if fiber is None:
            raise RuntimeError("a timer was started outside of any fiber")
        self._handle = fiber.call_later(self._seconds, self._function)

    def cancel(self) -> None:
        """No callback is called any more."""
        if self._handle is not None:
            self._handle.cancel()
