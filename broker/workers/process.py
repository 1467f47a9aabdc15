"""A worker process as its broker has it: a child, the socket to it, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from stratalog.broker.workers.channel import Kind, WorkerMessage, WorkerMessages, encode_message

__all__ = ["Child", "WorkerProcess"]

_PROGRAM: Final = "import sys; from stratalog.broker.workers.main import main; main(sys.argv[1:])"
"""Not ``-m``: the module would then be loaded twice, as ``__main__`` and under its name."""
_RECEIVE_BYTES: Final = 256 << 10
_END_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class Child(Protocol):
    """A worker process as its driver sees it; made with ``(loop, role, on_message, on_death)``."""

    pid: int
    pulses: bool
    """Whether it gives signs of life while it executes commands."""

    def send(self, request_id: int, kind: Kind, value: object) -> None:
        """Send a message."""
        ...

    async def end(self) -> None:
        """Make sure that it has ended, or end soon; its death is not reported."""
        ...

    def give_up(self, on_end: Callable[[], object]) -> None:
        """Kill it and hear nothing more of it; ``on_end`` is called when it has ended, which may take for ever."""
        ...


class WorkerProcess:
    """One child process and the socket to it."""

    pulses = True

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

    async def end(self, seconds: float = _END_SECONDS) -> None:
        """Close the socket, on which the process exits; kill it if it does not.

        One in a call that cannot be interrupted ends when that returns: it is not waited for.
        """
        self._on_death = lambda _: None
        self._close_socket()
        if await self._ends(seconds):
            return
        self._process.kill()
        if not await self._ends(seconds):
            log.warning("worker process %d was killed and has not ended; it is not waited for", self.pid)
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)

    async def _ends(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._ended.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def give_up(self, on_end: Callable[[], object]) -> None:
        """Kill it and hear nothing more of it; ``on_end`` is called when it has ended."""

        def ended(_: int) -> None:
            on_end()

        self._on_death = ended
        self._unsent.clear()
        self._close_socket()
        self._process.kill()

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
