"""The worker process: reads commands from the broker, runs them in a few threads, reports.

Started by :mod:`stratalog.broker.workers.workers` as ``python -m stratalog.broker.workers.main FD PARENT_PID``. It decides
nothing, keeps nothing, and may be killed at any moment; it ends when the broker does.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, cast, runtime_checkable

from msgspec import Struct, field

from stratalog.broker.runtime.allocator import tune_allocator
from stratalog.broker.runtime.kernel_slice import ask_time_slice
from stratalog.broker.workers.channel import Kind, WorkerMessage, WorkerMessages, encode_error, encode_message
from stratalog.broker.workers.watch import START_ID
from stratalog.wire.errors import Invalid

__all__ = ["Ages", "Executes", "GetsOn", "Start", "die_with_parent", "limit_memory", "load_target", "main", "serve"]

_PR_SET_PDEATHSIG: Final = 1
_RECEIVE_BYTES: Final = 256 << 10
_PULSE_SECONDS: Final = 1.0
_SLICE_US: Final = 10_000
"""Seven times the kernel's usual slice: a broker that wakes does not wait for the end of it."""


class Start(Struct, frozen=True):
    """The first message to a worker. ``target`` is ``module:factory``; ``factory(**options)`` has ``execute``.

    ``niceness`` is that of its commands, added to the broker's; the target is loaded at the broker's. ``memory_bytes``: what
    the process may allocate beyond what it has with its target; None for no limit. A command that needs more fails with
    `MemoryError`, and the process goes on.
    """

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 4
    niceness: int = 0
    memory_bytes: int | None = None


class Executes(Protocol):
    """The product of a target: runs commands, in several threads at once."""

    def execute(self, command: Any, /) -> Any:
        """Do what ``command`` says and return the report. Raises the error that the broker is to get."""
        ...


@runtime_checkable
class GetsOn(Protocol):
    """A target's further method if it can tell that a command gets on, on the thread that executes it."""

    on_progress: Callable[[], object]


@runtime_checkable
class Ages(Protocol):
    """A target's further method if its commands say what time it is: they may wait for hours until a thread is free."""

    def aged(self, command: Any, waited_ms: int, /) -> Any:
        """The command as it would be if it were made now."""


def load_target(target: str, options: Mapping[str, Any]) -> Executes:
    """Import ``module:factory`` and call it with ``options``. Raises what the module or the factory raises."""
    module_name, _, factory_name = target.partition(":")
    if not module_name or not factory_name:
        raise Invalid(f"worker target {target!r} is not module:factory")
    factory = getattr(importlib.import_module(module_name), factory_name)
    return cast("Executes", factory(**options))


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies; exit at once if it already has."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(0)


class _Pulse:
    """The commands under way, and for how long they have not got on; while there are any, a beat reports them every
    second.

    A thread of its own tells it: that goes on while every other thread is in a call that does not return. Beats are
    counted, so that a process that was stopped for a while takes nothing for hung.
    """

    def __init__(self, tell: Callable[[dict[int, float]], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._idle_seconds: dict[int, float] = {}
        self._own = threading.local()
        self._busy = threading.Event()
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()

    def begin(self, request_id: int) -> None:
        """The thread that calls executes a command."""
        self._own.request_id = request_id
        with self._lock:
            self._idle_seconds[request_id] = 0.0
        self._busy.set()

    def got_on(self) -> None:
        """The command of the thread that calls got on."""
        request_id = getattr(self._own, "request_id", None)
        with self._lock:
            if request_id in self._idle_seconds:
                self._idle_seconds[request_id] = 0.0

    def end(self, request_id: int) -> None:
        """The command is done."""
        with self._lock:
            del self._idle_seconds[request_id]

    def _beat(self) -> None:
        while True:
            self._busy.wait()
            time.sleep(_PULSE_SECONDS)
            with self._lock:
                told = {each: seconds + _PULSE_SECONDS for each, seconds in self._idle_seconds.items()}
                self._idle_seconds = dict(told)
                if not told:
                    self._busy.clear()
            if told:
                self._tell(told)


class _Worker:
    """The serving loop: one thread receives, the others execute and report."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._incarnation = 0
        self._pulse = _Pulse(self._tell_pulse)
        self._sending = threading.Lock()
        self._target: Executes | None = None
        self._refusal: Exception | None = None
        self._executor: ThreadPoolExecutor | None = None

    def run(self) -> None:
        """Serve until the other end is closed."""
        messages = WorkerMessages()
        while data := self._receive():
            for message in messages.feed(data):
                if message.kind is Kind.START:
                    self._incarnation = message.incarnation
                    self._pulse.begin(START_ID)
                    self._start(message)
                    self._pulse.end(START_ID)
                elif self._executor is not None:
                    self._executor.submit(self._execute, message, time.clock_gettime(time.CLOCK_BOOTTIME))

    def _receive(self) -> bytes:
        try:
            return self._channel.recv(_RECEIVE_BYTES)
        except ConnectionError:
            return b""

    def _start(self, message: WorkerMessage) -> None:
        start = cast("Start", message.load())
        self._executor = ThreadPoolExecutor(start.threads, thread_name_prefix="worker")
        try:
            self._target = load_target(start.target, start.options)
            if isinstance(self._target, GetsOn):
                self._target.on_progress = self._pulse.got_on
        except Exception as error:
            logging.getLogger(__name__).exception("worker target %s cannot be made", start.target)
            self._refusal = error
        if start.niceness:  # not before: on busy cores half a second of imports would take a minute
            os.nice(start.niceness)
            ask_time_slice(_SLICE_US)
        if start.memory_bytes is not None:
            limit_memory(start.memory_bytes)

    def _execute(self, message: WorkerMessage, received_s: float) -> None:
        incarnation, request_id = message.incarnation, message.request_id
        self._pulse.begin(request_id)
        try:
            if self._target is None:
                assert self._refusal is not None
                raise self._refusal
            command = message.load()
            if isinstance(self._target, Ages):  # by a clock that goes on while the machine is suspended
                waited_s = time.clock_gettime(time.CLOCK_BOOTTIME) - received_s
                command = self._target.aged(command, int(waited_s * 1000))
            report = self._target.execute(command)
            answer = encode_message(incarnation, request_id, Kind.REPORT, report)
        except Exception as error:  # noqa: BLE001 - the broker gets every error
            answer = encode_error(incarnation, request_id, error)
        self._pulse.end(request_id)
        self._send(answer)

    def _tell_pulse(self, idle_seconds: dict[int, float]) -> None:
        self._send(encode_message(self._incarnation, 0, Kind.PULSE, idle_seconds))

    def _send(self, message: bytes) -> None:
        try:
            with self._sending:
                self._channel.sendall(message)
        except OSError:
            _exit()


def limit_memory(more_bytes: int) -> None:
    """Let this process's address space grow by so much from now on (setrlimit(2), RLIMIT_AS)."""
    used_pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit_bytes = used_pages * resource.getpagesize() + more_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit_bytes = min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, hard))


def serve(channel: socket.socket) -> None:
    """Serve commands on ``channel`` until its other end is closed."""
    _Worker(channel).run()


def _exit() -> NoReturn:
    # Without the clean-up of threads and interpreters: commands under way are worth nothing without a broker.
    logging.shutdown()
    os._exit(0)


def main(arguments: Sequence[str]) -> NoReturn:
    """Serve the socket with the inherited descriptor ``arguments[0]`` for the process ``arguments[1]``; then exit."""
    descriptor, parent_pid = int(arguments[0]), int(arguments[1])
    die_with_parent(parent_pid)
    # Ctrl-C in a terminal goes to the whole group; the broker shuts down in order and closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tune_allocator()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s worker %(name)s: %(message)s"
    )
    serve(socket.socket(fileno=descriptor))
    _exit()


if __name__ == "__main__":
    main(sys.argv[1:])
