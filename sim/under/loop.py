"""An asyncio event loop whose time is virtual: nothing sleeps, the clock jumps to the next timer.

Promises of asyncio are kept: ``call_soon`` is first in, first out, timers run when due. Order that it leaves open,
the order of timers that are due at the same time, is drawn from the seed.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import base_events
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from typing import Any

from sim.trace import Trace
from sim.under.network import Network
from sim.under.process import PROCESS, Killed, Process
from sim.under.threads import VirtualPool

__all__ = ["Deadlock", "VirtualLoop"]


class Deadlock(Exception):
    """No event is left that could ever happen, and a task still waits."""


class VirtualLoop(base_events.BaseEventLoop):
    """See the module. ``after_event`` is called after every callback; what it raises ends the run.

    ``spawner`` starts threads and workers (`stratalog.broker.workers.spawner`), ``network`` carries ``create_server``.
    """

    def __init__(self, dice: random.Random, trace: Trace) -> None:
        super().__init__()
        self.dice = dice
        self.trace = trace
        self.steps = 0
        self.network = Network(self, random.Random(dice.getrandbits(64)))
        self.spawner: Any = None
        self.after_event: Callable[[Process], None] = lambda _: None
        self.failures: list[str] = []
        self._now = 0.0
        self._thread_dice = random.Random(dice.getrandbits(64))
        self._told_at = 0.0
        self._pool: VirtualPool | None = None
        self._dialed: dict[int, int] = {}
        """Ports by the descriptors of sockets that are about to connect."""
        self.set_task_factory(_new_task)
        self.set_exception_handler(_failed)

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Let time go by within a step: the process was busy, or the machine stood still."""
        self._now += seconds

    def _run_once(self) -> None:
        ready = self._ready
        if not ready:
            self._next_timers()
        handle = ready.popleft()
        if handle._cancelled:
            return
        process = handle._context.get(PROCESS)
        if process is not None and not process.alive:
            return
        if process is not None and process.frozen:
            process.held.append(handle)
            return
        self.steps += 1
        handle._run()
        if process is not None:
            self.after_event(process)

    def thaw(self, process: Process) -> None:
        """Let a frozen process go on with what has come meanwhile."""
        process.frozen = False
        self._ready.extend(process.held)
        process.held.clear()

    def _next_timers(self) -> None:
        """Jump to the next timer; all that are due at the same time become ready, in an order of the seed's."""
        scheduled = self._scheduled
        due: list[Any] = []
        when = -1.0
        while scheduled and (not due or scheduled[0]._when == when):
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                when = handle._when
                due.append(handle)
        if not due:
            raise Deadlock(f"at {self._now:.4f} s nothing is left to happen")
        self._now = max(self._now, when)
        if len(due) > 1:
            self.dice.shuffle(due)
        self._ready.extend(due)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """A thread's calls arrive a little later; two calls of one thread arrive in their order."""
        self._told_at = max(self._told_at, self._now + 0.0001 * self._thread_dice.randint(0, 4))
        return self.call_at(self._told_at, callback, *args, context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> Any:
        """A virtual thread runs ``func``."""
        if executor is None:
            if self._pool is None:
                self._pool = VirtualPool(self, self._thread_dice, 4, "default")
            executor = self._pool
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def remove_reader(self, fd: Any) -> bool:
        """No descriptor is watched: simulated servers are handed their connections."""
        del fd
        return False

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        """Listen in the simulated network, which has one host."""
        del host
        return self.network.listen(protocol_factory, port or 0, start=options.get("start_serving", True))

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Note where a socket is to be connected: `create_connection` does it."""
        self._dialed[sock.fileno()] = address[1]

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        """Connect in the simulated network, which has one host. Raises `OSError`."""
        del host
        sock = options.get("sock")
        if sock is not None:
            port = self._dialed.pop(sock.fileno())
            sock.close()
        protocol = protocol_factory()
        return await self.network.connect(port, protocol, "127.0.0.1"), protocol

    def _write_to_self(self) -> None:
        return


class _Task(asyncio.Task[Any]):
    """A task that knows its process."""

    process: Process | None = None


def _of_the_dead(context: dict[str, Any]) -> bool:
    """Whether a process that died in the middle of a step is what an error comes from."""
    if isinstance(context.get("exception"), Killed):
        return True
    task, handle = context.get("task") or context.get("future"), context.get("handle")
    process = task.process if isinstance(task, _Task) else None
    if isinstance(handle, asyncio.Handle):
        process = handle._context.get(PROCESS)
    return process is not None and not process.alive


def _new_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: Context | None = None
) -> asyncio.Task[Any]:
    """A task, known to its process until it is done."""
    process = PROCESS.get(None) if context is None else context.get(PROCESS)
    task = _Task(work, loop=loop, context=context)
    task.process = process
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(lambda done: process.tasks.pop(done, None))
    return task


def _failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """An exception that was never retrieved is a failure of the run."""
    assert isinstance(loop, VirtualLoop)
    if _of_the_dead(context):
        return
    error = context.get("exception")
    loop.failures.append(f"{context.get('message')}: {error!r}")
    loop.trace.note("loop", f"unhandled: {context.get('message')}: {error!r}")
    if error is not None and loop.trace.keep_errors:
        loop.trace.keep_error(error)
