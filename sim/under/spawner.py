"""Beside the virtual loop: threads that take virtual time, worker processes that live in it and may die."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from sim.under.process import Process, current_process
from sim.under.threads import Fiber, VirtualPool
from stratalog.broker.workers.channel import Kind, WorkerMessage, WorkerMessages, encode_error, encode_message
from stratalog.broker.workers.main import Executes, Start, load_target
from stratalog.broker.workers.watch import Patience
from stratalog.broker.workers.workers import ProcessWorkers, Workers
from stratalog.hot.storage.filesystem import Filesystem

if TYPE_CHECKING:
    from sim.under.loop import VirtualLoop

__all__ = ["SimSpawner", "SimWorker"]

_KILLED = -9
_CPU_WORKER = "stratalog.broker.workers.cpu_worker:cpu_worker"


class SimSpawner:
    """The spawner of a virtual loop (`stratalog.broker.workers.spawner`)."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._dice = random.Random(loop.dice.getrandbits(64))
        self._pids = 1000
        self.workers_alive: dict[SimWorker, None] = {}
        self.files_of: Callable[[Process, Process], Filesystem] | None = None
        """The disk as a process sees it that the other one has started, for workers that write to it."""

    def threads(self, count: int, name: str) -> Executor:
        """A pool of virtual threads."""
        return VirtualPool(self._loop, self._dice, count, name)

    def workers(self, role: str, start: Start, *, patience: Patience | None = None) -> Workers:
        """The broker's own driver of a worker process, with a simulated one, which never hangs."""
        del patience
        return ProcessWorkers(self._loop, role, start, child=self._child)

    def kernel_sync(self, directory: str) -> None:
        """None: simulated files are synced by threads."""
        del directory

    def _child(
        self,
        loop: asyncio.AbstractEventLoop,
        role: str,
        on_message: Callable[[WorkerMessage], None],
        on_death: Callable[[int], None],
    ) -> SimWorker:
        del loop
        self._pids += 1
        return SimWorker(self, self._loop, self._dice, f"{role}-{self._pids}", self._pids, on_message, on_death)


class SimWorker:
    """One worker process: its target runs in fibers, its messages are the real ones."""

    pulses = False

    def __init__(
        self,
        spawner: SimSpawner,
        loop: VirtualLoop,
        dice: random.Random,
        name: str,
        pid: int,
        on_message: Callable[[WorkerMessage], None],
        on_death: Callable[[int], None],
    ) -> None:
        self.pid = pid
        self.process = Process(name)
        self._parent = current_process()
        self._spawner = spawner
        self._loop = loop
        self._dice = dice
        self._on_message = on_message
        self._on_death = on_death
        self._incarnation = dice.getrandbits(63)
        self._inbound, self._outbound = WorkerMessages(), WorkerMessages()
        self._target: Executes | None = None
        self._refusal: Exception = RuntimeError("no target")
        self._threads = 1
        self._busy = 0
        self._waiting: deque[WorkerMessage] = deque()
        self._last_in = self._last_out = 0.0
        self._ended = asyncio.Event()
        self._parent.on_death.append(self.process.kill)
        self.process.on_death.append(self._gone)
        spawner.workers_alive[self] = None
        loop.trace.note(name, "started")

    # -- what the broker calls -----------------------------------------------------------------------------------------

    def send(self, request_id: int, kind: Kind, value: object) -> None:
        """Send a message; a dead process reads nothing."""
        data = encode_message(self._incarnation, request_id, kind, value)
        self._last_in = max(self._last_in, self._loop.time() + self._seconds())
        self._loop.call_at(self._last_in, self._received, data, context=self.process.context)

    async def end(self, seconds: float = 5.0) -> None:
        """Make sure that it has ended."""
        del seconds
        self._on_death = lambda _: None
        self.process.kill()
        await self._ended.wait()

    def give_up(self, on_end: Callable[[], object]) -> None:
        """Kill it and hear nothing more of it."""
        self._on_death = lambda _: on_end()
        self.process.kill()

    # -- the process ---------------------------------------------------------------------------------------------------

    def _seconds(self) -> float:
        return 0.0001 * self._dice.randint(1, 10)

    def _received(self, data: bytes) -> None:
        for message in self._inbound.feed(data):
            if message.kind is Kind.START:
                self._start(message.load())
            else:
                self._waiting.append(message)
        self._execute_waiting()

    def _start(self, start: Start) -> None:
        self._threads = start.threads
        options = dict(start.options)
        if start.target == _CPU_WORKER and self._spawner.files_of is not None:
            options["files"] = self._spawner.files_of(self.process, self._parent)
        try:
            self._target = load_target(start.target, options)
        except Exception as error:  # noqa: BLE001 - every command gets the error
            self._refusal = error

    def _execute_waiting(self) -> None:
        while self._waiting and self._busy < self._threads:
            message = self._waiting.popleft()
            self._busy += 1
            self._loop.trace.note(self.process.name, f"begins {message.request_id}")
            Fiber(self._loop, self.process, lambda message=message: self._execute(message), self._executed)

    def _execute(self, message: WorkerMessage) -> bytes:
        try:
            if self._target is None:
                raise self._refusal
            report = self._target.execute(message.load())
            return encode_message(message.incarnation, message.request_id, Kind.REPORT, report)
        except Exception as error:  # noqa: BLE001 - the broker gets the error
            return encode_error(message.incarnation, message.request_id, error)

    def _executed(self, answer: bytes | None, error: Exception | None) -> None:
        assert answer is not None, error
        self._busy -= 1
        self._last_out = max(self._last_out, self._loop.time() + self._seconds())
        self._loop.call_at(self._last_out, self._answered, answer, context=self._parent.context)
        self._execute_waiting()

    def _answered(self, answer: bytes) -> None:
        """In the broker: an answer has come, perhaps from one who has died since."""
        if self._ended.is_set():
            return
        for message in self._outbound.feed(answer):
            if message.incarnation == self._incarnation:
                self._on_message(message)

    def _gone(self) -> None:
        del self._spawner.workers_alive[self]
        self._loop.trace.note(self.process.name, "ended")
        self._parent.forget(self.process.kill)
        self._loop.call_later(self._seconds(), self._exited, context=self._parent.context)

    def _exited(self) -> None:
        """In the broker: the process has ended."""
        self._ended.set()
        self._on_death(_KILLED)

    def __hash__(self) -> int:
        return self.pid

    def __eq__(self, other: object) -> bool:
        return self is other
