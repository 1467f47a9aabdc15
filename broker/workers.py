"""Work that would stop the event loop, done elsewhere: in a worker process per role, or in threads.

A busy Python thread in the broker costs most of its request rate, so uploads, chunk fills and cleaning run in
processes that are started on demand. They may die at any time: what they were doing fails with :class:`WorkerLost`,
which is retriable, and the next command starts a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, overload

from stratalog.broker.worker_channel import (
    Kind,
    WorkerError,
    WorkerMessage,
    WorkerMessages,
    decode_error,
    encode_message,
)
from stratalog.broker.worker_main import Executes, Start
from stratalog.wire.errors import Retriable

__all__ = ["Child", "OnDone", "ProcessWorkers", "ThreadWorkers", "WorkerLost", "Workers"]

_PROGRAM: Final = "import sys; from stratalog.broker.worker_main import main; main(sys.argv[1:])"
"""Not ``-m``: the module would then be loaded twice, as ``__main__`` and under its name."""

log = logging.getLogger(__name__)

BACKOFF_SECONDS_MIN: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 10.0
_RECEIVE_BYTES: Final = 256 << 10

OnDone = Callable[[Any, Exception | None], object]
"""``on_done(report, error)``, called on the loop, once; exactly one of the two is None unless a report is None."""


class WorkerLost(Retriable):
    """The worker died, or the broker is closing, before the command was answered. It may or may not have been done."""


class Workers(Protocol):
    """Somebody who executes commands."""

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
    """What both kinds of workers share: who waits for which answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, OnDone] = {}
        self._next_id = 0
        self._closed = False
        self.late_answers = 0

    @property
    def outstanding(self) -> int:
        """Commands not yet answered."""
        return len(self._waiting)

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
        try:
            self._send(request_id, command)
        except BaseException:
            self._waiting.pop(request_id, None)
            raise

    def _send(self, request_id: int, command: object) -> None:
        raise NotImplementedError

    def _answer(self, request_id: int, report: Any, error: Exception | None) -> None:
        on_done = self._waiting.pop(request_id, None)
        if on_done is None:
            self.late_answers += 1
            return
        try:
            on_done(report, error)
        except Exception:
            log.exception("what follows a worker's answer failed")

    def _fail_all(self, error: WorkerLost) -> None:
        for request_id in list(self._waiting):
            self._answer(request_id, None, error)


class ThreadWorkers(_Submitting):
    """Executes commands in threads of this process: for stores that live in its memory, and for tests."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: Executes, *, threads: int = 4) -> None:
        super().__init__(loop)
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
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(partial(self._answer, request_id, report, failure))

        self._executor.submit(self._target.execute, command).add_done_callback(done)


class Child(Protocol):
    """A worker process as its driver sees it; made with ``(loop, role, on_message, on_death)``."""

    pid: int

    def send(self, request_id: int, kind: Kind, value: object) -> None:
        """Send a message."""
        ...

    async def end(self) -> None:
        """Make sure that it has ended; its death is not reported."""
        ...


class ProcessWorkers(_Submitting):
    """Executes commands in one child process with a few threads, started by `begin` or by the first command.

    ``role`` names it in logs; the rest is a :class:`Start`. ``child`` makes the process. To be used from the thread that runs the loop, which must
    be the one that lives as long as the process: the child is killed by the kernel when its parent thread ends.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        role: str,
        start: Start,
        *,
        child: Callable[[asyncio.AbstractEventLoop, str, Callable[[WorkerMessage], None], Callable[[int], None]], Child]
        | None = None,
    ) -> None:
        super().__init__(loop)
        self._role = role
        self._start = start
        self._new_child = child or _Process
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
        if self._restart is not None:
            self._restart.cancel()
        process, self._process = self._process, None
        if process is not None:
            await process.end()
        self._fail_all(WorkerLost("the broker is closing"))

    def _send(self, request_id: int, command: object) -> None:
        self.begin()
        if self._process is None:
            self._unsent.append((request_id, command))
        else:
            self._process.send(request_id, Kind.COMMAND, command)

    def _spawn(self) -> None:
        self._restart = None
        try:
            process = self._new_child(self._loop, self._role, self._message, self._died)
        except OSError as error:
            self._lost(f"the {self._role} worker cannot be started: {error}")
            return
        self.starts += 1
        self._process = process
        process.send(0, Kind.START, self._start)
        while self._unsent:
            request_id, command = self._unsent.popleft()
            process.send(request_id, Kind.COMMAND, command)

    def _message(self, message: WorkerMessage) -> None:
        self._deaths = 0
        if message.kind is Kind.ERROR:
            self._answer(message.request_id, None, decode_error(message))
            return
        try:
            report = message.load()
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            self._answer(message.request_id, None, error)
        else:
            self._answer(message.request_id, report, None)

    def _died(self, status: int) -> None:
        self._process = None
        self._lost(f"the {self._role} worker ended with status {status}")

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


class _Process:
    """One child process and the socket to it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        role: str,
        on_message: Callable[[WorkerMessage], None],
        on_death: Callable[[int], None],
    ) -> None:
        """Raises OSError when no process can be started."""
        self._loop = loop
        self._on_message = on_message
        self._on_death = on_death
        self._incarnation = int.from_bytes(os.urandom(8), "big")
        self._messages = WorkerMessages()
        self._unsent: deque[memoryview] = deque()
        self._writing = False
        self._ended = asyncio.Event()
        self._socket, theirs = socket.socketpair()
        with theirs:
            arguments = [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(os.getpid())]
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    arguments, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()]
                )
            except BaseException:
                self._socket.close()
                raise
        self.pid = self._process.pid
        log.info("started the %s worker, process %d", role, self.pid)
        self._socket.setblocking(False)
        self._pidfd = os.pidfd_open(self.pid)
        loop.add_reader(self._pidfd, self._exited)
        loop.add_reader(self._socket.fileno(), self._receive)

    def send(self, request_id: int, kind: Kind, value: object) -> None:
        """Send a message; what the socket does not take waits."""
        self._unsent.append(memoryview(encode_message(self._incarnation, request_id, kind, value)))
        if not self._writing:
            self._write()

    async def end(self, seconds: float = 5.0) -> None:
        """Close the socket, on which the process exits; kill it if it does not."""
        self._on_death = lambda _: None
        self._close_socket()
        try:
            await asyncio.wait_for(self._ended.wait(), seconds)
        except TimeoutError:
            self._process.kill()
            await self._ended.wait()

    def _write(self) -> None:
        try:
            while self._unsent:
                count = self._socket.send(self._unsent[0])
                if count == len(self._unsent[0]):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = self._unsent[0][count:]
        except BlockingIOError:
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._socket.fileno(), self._write)
            return
        except OSError:
            self._unsent.clear()  # it is dying; its exit is about to be seen
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._socket.fileno())

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            # It has closed its end: it exits, or is of no use any more.
            self._loop.remove_reader(self._socket.fileno())
            self._process.kill()
            return
        self._deliver(data)

    def _deliver(self, data: bytes) -> None:
        for message in self._messages.feed(data):
            if message.incarnation == self._incarnation:
                self._on_message(message)

    def _exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        status = self._process.wait()
        self._deliver_rest()
        self._close_socket()
        self._ended.set()
        self._on_death(status)

    def _deliver_rest(self) -> None:
        """Answers that were sent before the end still count."""
        try:
            while self._socket.fileno() >= 0 and (data := self._socket.recv(_RECEIVE_BYTES)):
                self._deliver(data)
        except OSError:
            return

    def _close_socket(self) -> None:
        descriptor = self._socket.fileno()
        if descriptor >= 0:
            self._loop.remove_reader(descriptor)
            self._loop.remove_writer(descriptor)
            self._socket.close()
